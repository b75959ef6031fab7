"""The equation of motion of a multirotor: `derivative` sums the wrenches of the vehicle's effects and collects their rates.

An effect that the vehicle does not have costs nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from samara.core.algebra import IDENTITY, ZERO, Attitude, Quat, Vec3
from samara.core.integrate import find_integrator
from samara.core.quantity import Scalar
from samara.core.tree import leaf_names, require_finite
from samara.physics.effect import Wrench, add_wrenches
from samara.physics.inputs import check_components, check_state, check_time_step, check_unit_quaternion, warn_of_command
from samara.physics.motion.body import angular_acceleration, attitude_rate, translational_acceleration
from samara.physics.rotors.propulsion import ROTORS
from samara.physics.rotors.tilt import servo_command, tilted_axis
from samara.physics.types import CALM, Command, Environment, Position, State, Vehicle, initial_effects


def wrench_breakdown(
    state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM
) -> dict[str, Wrench]:
    """Return the wrench of each effect by its name  [N, N·m]"""
    check_state(state, vehicle)
    return _breakdown(state, command, tilt_rotors(state, vehicle), environment)


def _breakdown(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> dict[str, Wrench]:
    try:
        return {
            effect.name: effect.wrench(effect_state, state, command, vehicle, environment)
            for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True)
        }
    except Exception:  # the likely reason: a state or command of another vehicle
        check_components(state, vehicle)
        require_command_size(command, vehicle)
        raise


def wrench(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> Wrench:
    """F = Σ Fᵢ,  τ = Σ τᵢ over the effects, at the centre of mass  [N, N·m]"""
    check_state(state, vehicle)
    return _wrench(state, command, tilt_rotors(state, vehicle), environment)


def _wrench(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    total = Wrench()
    for part in _breakdown(state, command, vehicle, environment).values():
        total = add_wrenches(total, part)
    return total


def derivative(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> State:
    """ṗ = v,  m v̇ = R f_B + f_W,  q̇ = ½ q ⊗ (0, ω),  J ω̇ = τ − ω × Jω,  Ω̇ by the actuation, and the rate of every effect

    The rotor axes are those tilted by the servos.
    """
    check_state(state, vehicle)
    vehicle = tilt_rotors(state, vehicle)
    total = _wrench(state, command, vehicle, environment)
    return State(
        p_W=state.v_W,
        v_W=translational_acceleration(state.q_WB, total.f_B, total.f_W, mass=vehicle.mass),
        q_WB=attitude_rate(state.q_WB, state.omega_B),
        omega_B=angular_acceleration(state.omega_B, total.tau_B, inertia_B=vehicle.inertia_B),
        rotor_speed=vehicle.structure.actuation.rotor_acceleration(state, command, vehicle, environment),
        effects=tuple(
            effect.derivative(effect_state, state, command, vehicle, environment)
            for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True)
        ),
    )


def state_at_rest(vehicle: Vehicle, p_W: Position = ZERO, q_WB: Attitude = IDENTITY) -> State:
    """Return the state with v = 0, ω = 0, Ω = 0 at a position and attitude."""
    return State(Vec3(*p_W), ZERO, Quat(*q_WB), ZERO, tuple(0.0 for _ in vehicle.rotors), initial_effects(vehicle))


def state_names(vehicle: Vehicle) -> tuple[str, ...]:
    """Return the name of every component of a vehicle's state: 'p_W.x', 'battery.charge', 'contact[0].x'.

    Components of an effect start with the effect's name, without an index if there is only one, such as a single battery.
    """
    taken = set(State._fields)
    names = leaf_names(state_at_rest(vehicle)._replace(effects=()))
    for effect, effect_state in zip(vehicle.structure.effects, initial_effects(vehicle), strict=True):
        name = effect.name
        while name in taken:
            name += "_"
        taken.add(name)
        names += leaf_names(
            effect_state[0] if type(effect_state) is tuple and len(effect_state) == 1 else effect_state, name
        )
    return tuple(names)


def zero_command(vehicle: Vehicle) -> Command:
    """Return a command of zeros."""
    return (0.0,) * vehicle.command_size


def require_command_size(command: Command, vehicle: Vehicle) -> None:
    """Raise a ValueError if the command does not have the size that the vehicle takes."""
    if not hasattr(command, "__len__"):
        size = vehicle.command_size
        raise ValueError(f"command = {command!r:.60}: expected {size} numbers for vehicle {vehicle.name!r}")
    if len(command) != vehicle.command_size:
        actuation, size = vehicle.structure.actuation.name, vehicle.command_size
        raise ValueError(f"command has {len(command)} numbers; vehicle {vehicle.name!r} ({actuation}) takes {size}")


def complete_environment(vehicle: Vehicle, environment: Environment = CALM) -> Environment:
    """Return the environment with the optional fields that the vehicle reads, and effectiveness 1 for each motor.

    A vehicle with an effect that reads `hub_wind_W` gets one wind per rotor; one that reads `external_wrenches` gets one
    wrench of 0.
    """
    return environment._replace(
        hub_wind_W=tuple(environment.wind_W for _ in vehicle.rotors) if vehicle.reads("hub_wind_W") else (),
        external_wrenches=(Wrench(),) if vehicle.reads("external_wrenches") else (),
        motor_effectiveness=tuple(1.0 for _ in vehicle.rotors),
    )


def tilt_angles(state: State, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """δ of every servo; () without servos  [rad]"""
    angles: tuple[Scalar, ...] = state.effects[vehicle.index("tilt")] if vehicle.has("tilt") else ()
    return angles


def replace_tilt_angles(state: State, angles: Sequence[Scalar], vehicle: Vehicle) -> State:
    """Return the state with other servo angles [rad]."""
    if not vehicle.has("tilt"):
        return state
    index = vehicle.index("tilt")
    return state._replace(effects=(*state.effects[:index], tuple(angles), *state.effects[index + 1 :]))


def tilt_rotors(state: State, vehicle: Vehicle) -> Vehicle:
    """Return the vehicle with its rotor axes turned by the servos; unchanged without servos.

    `vehicle` must have the axes it was built with: axes that are already tilted would turn twice.
    """
    if not vehicle.has("tilt"):
        return vehicle
    rotors = list(vehicle.rotors)
    for i, angle in zip(vehicle.servos, tilt_angles(state, vehicle), strict=True):
        rotor = rotors[i]
        rotors[i] = rotor._replace(axis_B=tilted_axis(rotor.axis_B, rotor.servo.hinge_B, angle))
    return replace(vehicle, rotors=tuple(rotors))


def total_rotor_wrench(state: State, vehicle: Vehicle) -> Wrench:
    """F, τ of all rotors at their speeds and servo angles, in calm air  [N, N·m]"""
    return ROTORS.wrench((), state, (), tilt_rotors(state, vehicle), CALM)


def steady_command(state: State, vehicle: Vehicle, environment: Environment = CALM) -> Command:
    """Return the command that holds the rotor speeds and servo angles of the state: rotors first, then servos."""
    command: Command = vehicle.structure.actuation.steady_command(state, vehicle, environment)
    if not vehicle.has("tilt"):
        return command
    angles = tilt_angles(state, vehicle)
    if vehicle.structure.actuation.name == "speed":
        return (*command, *angles)
    servos = (vehicle.rotors[i].servo for i in vehicle.servos)
    return (*command, *(servo_command(angle, servo) for angle, servo in zip(angles, servos, strict=True)))


def step(
    state: State,
    command: Command,
    vehicle: Vehicle,
    dt: Scalar,
    method: str = "rk4",
    environment: Environment = CALM,
) -> State:
    """x(t + dt) from ẋ = derivative(x, command, vehicle, environment), with command and environment constant over dt [s]

    Methods: euler, semi_implicit, midpoint, rk4, rk23, rk45; the last two choose their own steps within dt.

    Raises:
        ValueError: an input is not finite; the state is not one of this vehicle, or has no rotation; dt is longer than ten
            time constants of the fastest motor. Steps beyond 2.5 of them, and commands far outside their range, warn once.
    """
    integrator = find_integrator(method, label="method")
    check_state(state, vehicle)
    require_command_size(command, vehicle)
    command = tuple(command)
    require_finite(command, "command")
    require_finite(state, "state")
    check_unit_quaternion(state.q_WB)
    warn_of_command(command, vehicle)
    if not integrator.is_adaptive:
        check_time_step(dt, vehicle)
    advanced: State = integrator.advance(lambda s: derivative(s, command, vehicle, environment), state, dt)
    require_finite(advanced, "state")
    return advanced
