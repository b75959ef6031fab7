"""Inputs of a step: the range of a command, and checks of values that cannot be meant or hardly can.

Only numbers are checked: symbols, tracers and batches pass.
"""

import math
from typing import Any

from samara.core.algebra import Attitude
from samara.core.implausible import warn_once
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.propulsion import full_voltage
from samara.physics.types import Command, State, Vehicle, initial_effects

UNIT_RANGE = (0.0, 1.0)
STABLE_TIME_CONSTANTS = 2.5  # in a step: RK4 diverges beyond 2.8, the other fixed-step methods beyond 2
MAX_TIME_CONSTANTS = 10.0  # in a step of a fixed-step method: the result of more is meaningless
MIN_THRUST_TO_WEIGHT, MAX_THRUST_TO_WEIGHT = 0.1, 200.0  # real vehicles have 1.2 to 15
UNLIMITED_SPEED = 1e5  # [rad/s]: of no motor; identification uses such limits for none
MIN_GRAVITY = 0.5  # [m/s²]: with less, thrust and weight are unrelated
MAX_NORM_ERROR = 0.1  # of the square of a quaternion's length


def command_limits(vehicle: Vehicle) -> tuple[float, float] | None:
    """Return [0, 1] for normalized commands and duties; None for speeds and wrenches, which the motor model limits."""
    return UNIT_RANGE if vehicle.structure.actuation.name in ("normalized", "duty") else None


def speed_range(vehicle: Vehicle) -> tuple[float, float] | None:
    """Return the lowest and the highest speed of the motors with a lag [rad/s]; None for DC motors (load and supply decide)."""
    motors = [rotor.motor for rotor in vehicle.rotors if isinstance(rotor.motor, Lag)]
    return (min(motor.speed_min for motor in motors), max(motor.speed_max for motor in motors)) if motors else None


def command_range(vehicle: Vehicle) -> tuple[float, float] | None:
    """Return the lowest and the highest rotor command; None for a command without limits, such as a wrench."""
    return speed_range(vehicle) if vehicle.structure.actuation.name == "speed" else command_limits(vehicle)


def plausible_command_range(vehicle: Vehicle) -> tuple[float, float]:
    """Return the range of rotor commands, extended by its width on both sides; infinite for a command without limits.

    Controllers exceed the range itself, and the motors limit their commands.
    """
    low, high = command_range(vehicle) or (-math.inf, math.inf)
    if not (_is_number(low) and _is_number(high) and math.isfinite(high - low)):
        return -math.inf, math.inf
    return 2.0 * low - high, 2.0 * high - low


def warn_of_command(command: Command, vehicle: Vehicle) -> None:
    """Warn once if a rotor command is far outside the vehicle's range."""
    rotor_commands = command[: len(vehicle.rotors)]
    if not rotor_commands or not all(map(_is_number, rotor_commands)):
        return
    lowest, highest = plausible_command_range(vehicle)
    for index, value in enumerate(rotor_commands):
        if not lowest <= value <= highest:
            low, high = command_range(vehicle) or (lowest, highest)
            warn_once(
                f"command of {vehicle.name}",
                f"command[{index}] = {value:g}: expected {low:g} to {high:g}, the range of a {_command_noun(vehicle)} of "
                f"vehicle {vehicle.name!r}; the motors limit it to that range",
            )
            return


def _command_noun(vehicle: Vehicle) -> str:
    name = vehicle.structure.actuation.name
    return {"normalized": "normalized command", "speed": "commanded rotor speed [rad/s]"}.get(name, name)


def fastest_time_constant(vehicle: Vehicle) -> float:
    """Return the smallest time constant of the motors: τ of a lag, J R / K² of a DC motor; infinity without  [s]"""
    constants: list[Scalar] = [math.inf]
    for rotor in vehicle.rotors:
        motor = rotor.motor
        if isinstance(motor, Lag):
            constants += (motor.time_constant_up, motor.time_constant_down)
        elif isinstance(motor, DcMotor):
            constants.append(rotor.inertia * motor.resistance / motor.constant**2)
    return min((constant for constant in constants if _is_number(constant) and constant > 0.0), default=math.inf)


def require_vehicle(vehicle: object) -> None:
    """Raise ValueError if the argument is something else than a vehicle, such as its name."""
    if not isinstance(vehicle, Vehicle):
        raise ValueError(f"vehicle = {vehicle!r:.60}: expected a Vehicle, as samara.vehicle returns")


def check_time_step(dt: Scalar, vehicle: Vehicle) -> None:
    """Check a fixed step: raise ValueError beyond 10 of the motors' time constants, warn once beyond 2.5."""
    if isinstance(dt, (str, tuple, list)) or dt is None or (_is_number(dt) and not math.isfinite(dt)):
        raise ValueError(f"dt = {dt!r:.60}: expected a finite number of seconds")
    if not _is_number(dt):
        return
    if dt < 0.0:
        raise ValueError(f"dt = {dt:g} s: expected a time step that is not negative")
    limit = fastest_time_constant(vehicle)
    if dt > STABLE_TIME_CONSTANTS * limit:
        message = (
            f"dt = {dt:g} s: expected at most {STABLE_TIME_CONSTANTS * limit:.2g} s for vehicle {vehicle.name!r}, "
            f"whose fastest motor has a time constant of {limit:.2g} s"
        )
        if dt > MAX_TIME_CONSTANTS * limit:
            raise ValueError(f"{message}; take more steps, or samara.step's method 'rk45'")
        warn_once(f"dt of {vehicle.name}", f"{message}; fixed-step methods are inaccurate or diverge beyond it")


def check_state(state: State, vehicle: Vehicle) -> None:
    """Raise ValueError if the state is not one of this vehicle, or its quaternion is zero."""
    if (
        not isinstance(state, State)
        or not isinstance(vehicle, Vehicle)
        or len(state.rotor_speed) != len(vehicle.rotors)
        or len(state.effects) != len(vehicle.structure.effects)
    ):
        raise state_error(state, vehicle)
    w = state.q_WB[0]
    if type(w) is float and abs(w) < 1e-6 and not any(state.q_WB):
        raise _quaternion_error(state.q_WB)


def check_components(state: State, vehicle: Vehicle) -> None:
    """Raise ValueError if the state has another number of components than those of the vehicle; slower than `check_state`."""
    if len(flatten(state.effects)) != len(flatten(initial_effects(vehicle))):
        raise state_error(state, vehicle)


def check_unit_quaternion(q_WB: Attitude) -> None:
    """Raise ValueError if a quaternion's length is far from 1."""
    w, x, y, z = q_WB
    if all(map(_is_number, q_WB)) and abs(w * w + x * x + y * y + z * z - 1.0) > MAX_NORM_ERROR:
        raise _quaternion_error(q_WB)


def _quaternion_error(q_WB: Attitude) -> ValueError:
    values = ", ".join(f"{float(value):g}" for value in q_WB)
    return ValueError(f"state q_WB = ({values}): expected a quaternion of length 1, such as samara.core.IDENTITY")


def state_error(state: Any, vehicle: Any) -> ValueError:
    """Return the error that a state does not belong to a vehicle, or that one of them is something else."""
    require_vehicle(vehicle)
    if not isinstance(state, State):
        return ValueError(f"state = {state!r:.60}: expected a State, as samara.hover returns")
    expected = (len(vehicle.rotors), len(flatten(initial_effects(vehicle))))
    actual = (len(state.rotor_speed), len(flatten(state.effects)))
    return ValueError(
        f"state has {actual[0]} rotor speeds and {actual[1]} components of effects: expected {expected[0]} and {expected[1]}, "
        f"a state of vehicle {vehicle.name!r}, as samara.hover returns"
    )


def check_mass(vehicle: Vehicle) -> None:
    """Raise ValueError if the mass is not positive; warn once if the rotors' thrust is far from what can carry it."""
    mass = vehicle.mass
    if not _is_number(mass):
        return
    if not 0.0 < mass < math.inf:
        raise ValueError(f"mass = {mass}: expected a positive number of kilograms")
    gravity = vehicle["gravity"].acceleration if vehicle.has("gravity") else 0.0
    thrust = sum(rotor.k_thrust * _speed_bound(vehicle, rotor.motor) ** 2 for rotor in vehicle.rotors)
    if not (_is_number(gravity) and gravity > MIN_GRAVITY and _is_number(thrust) and thrust > 0.0):
        return
    ratio = thrust / (mass * gravity)
    if not MIN_THRUST_TO_WEIGHT <= ratio <= MAX_THRUST_TO_WEIGHT:
        warn_once(
            f"mass of {vehicle.name}",
            f"vehicle {vehicle.name!r}: mass = {mass:g} kg: its rotors lift at most {thrust:.2g} N, {ratio:.2g} times its "
            f"weight; expected {MIN_THRUST_TO_WEIGHT:g} to {MAX_THRUST_TO_WEIGHT:g} times; check the units of mass and "
            f"k_thrust",
        )


def _speed_bound(vehicle: Vehicle, motor: Any) -> Scalar:
    """The highest speed of a motor with a lag, the no-load speed of a DC motor; 0 if it is unknown or unlimited  [rad/s]"""
    if isinstance(motor, Lag):
        return motor.speed_max if _is_number(motor.speed_max) and motor.speed_max < UNLIMITED_SPEED else 0.0
    return full_voltage(vehicle) / motor.constant if isinstance(motor, DcMotor) else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
