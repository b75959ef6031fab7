"""The engine of the Crazyflie engine document: four motor commands in [0, 1], `step(dt)`, and the state by its names.

    engine = DroneEngine()
    engine.apply_motor_commands(0.6, 0.6, 0.6, 0.6)
    engine.step(0.005)
    engine.get_state().v_W.z

World z-up, body forward-left-up, SI. The document's torque equations are not those of the airframe it shows: about y and z
they have the opposite sign. Both are available, as two allocations of the commands to rotors; `documented` is the default,
because the document forbids any other.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Annotated, NamedTuple, get_args, get_type_hints

from samara.compiler.simulator import compile
from samara.core.algebra import (
    IDENTITY,
    ZERO,
    Attitude,
    Euler,
    Quat,
    Vec3,
    Vector,
    diagonal,
    euler_from_quat,
    norm,
    normalize,
    rotate,
    rotate_inverse,
    scale,
)
from samara.core.ops import clamp
from samara.core.quantity import Quantity, Scalar
from samara.core.tree import require_finite
from samara.documents.single_vehicle import add_single_vehicle_effects
from samara.physics.effect import Role, Wrench
from samara.physics.frames import state_ned_frd_from_enu_flu
from samara.physics.multirotor import wrench_breakdown
from samara.physics.rotors.actuator import Lag, lag_step, speed_from_command
from samara.physics.rotors.propulsion import apply_effectiveness
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM, Environment, State, Vehicle, initial_effects
from samara.record.run import Run
from samara.record.telemetry import PositionReference, Telemetry
from samara.sim.initial_state import standing_state
from samara.vehicles.build import ContactShape, Provenance, build_vehicle, effect_tables
from samara.vehicles.check import check_numbers
from samara.vehicles.defaults import clearance
from samara.vehicles.loader import vehicle

MOTORS = 4
RECOMMENDED_STEP = 5e-3  # [s]: the document's "use dt ≤ 5 ms"
RK4_STEP = 1e-3  # [s]: at 5 ms RK4 through a lag of 15 ms errs by 3e-5 m/s in a tenth of a second, at 1 ms by 4e-8
MAX_STEP = 3600.0  # [s]: a longer step is taken for a mistake


# Parameters --------------------------------------------------------------------------------------------------------


_CRAZYFLIE = vehicle("crazyflie_documented")  # the only source of the document's parameters
_ROTOR = _CRAZYFLIE.rotors[0]
_MOMENTS = Vec3(_CRAZYFLIE.inertia_B.xx, _CRAZYFLIE.inertia_B.yy, _CRAZYFLIE.inertia_B.zz)
_DECAY = Vec3(*(c / moment for c, moment in zip(_CRAZYFLIE["damping"].linear, _MOMENTS, strict=True)))


class PrincipalInertia(NamedTuple):
    """Principal moments of inertia [kg·m²]."""

    Jxx: float
    Jyy: float
    Jzz: float


@dataclass(frozen=True)
class CrazyflieParams:
    """The document's parameters under its names, SI units; defaults are those of the vehicle `crazyflie_documented`.

    `dragLinear` is in world axes. `dragAngular` are the rates k of ω(t) = ω₀ e^{−kt} about the body axes: the document's code
    multiplies ω by e^{−k dt} after each step; here the torque −kJ ω acts, which is the limit dt → 0. The document
    gives no values for them, nor for `omegaMin`, the speed at command 0.
    """

    mass: Annotated[float, Quantity("kg", 1e-6, 1.0)] = _CRAZYFLIE.mass
    armLength: Annotated[float, Quantity("m", 1e-3, 1.0)] = norm(_ROTOR.r_B)
    inertia: Annotated[PrincipalInertia, Quantity("kg m^2", 1e-9, 1.0)] = PrincipalInertia(*_MOMENTS)  # noqa: RUF009 - it cannot change
    thrustCoeff: Annotated[float, Quantity("N s^2/rad^2", 1e-12, 1.0)] = _ROTOR.k_thrust
    torqueCoeff: Annotated[float, Quantity("N m s^2/rad^2", 0.0, 1.0)] = _ROTOR.k_torque
    omegaMin: Annotated[float, Quantity("rad/s", 0.0, 1e4)] = _ROTOR.motor.speed_min
    omegaMax: Annotated[float, Quantity("rad/s", 1.0, 1e4)] = _ROTOR.motor.speed_max
    tauMotor: Annotated[float, Quantity("s", 1e-6, 10.0)] = _ROTOR.motor.time_constant_up
    gravity: Annotated[float, Quantity("m/s^2", 1e-6, 100.0)] = _CRAZYFLIE["gravity"].acceleration
    dragLinear: Annotated[Vec3, Quantity("N s/m", 0.0, 1.0)] = _CRAZYFLIE["drag"].linear
    dragAngular: Annotated[Vec3, Quantity("1/s", 0.0, 100.0)] = _DECAY

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(CrazyflieParams, include_extras=True).items():
            value_type, quantity = get_args(hint)
            check_numbers(f"CrazyflieParams.{name}", getattr(self, name), quantity, 1 if value_type is float else 3)


# Allocations -------------------------------------------------------------------------------------------------------


def _mirror_rotor(rotor: Rotor) -> Rotor:
    """Mirror the rotor front to back: swaps front and rear positions, and the spin direction.

    Σ r × F − s Q over such rotors gives exactly the equations that the document marks "CRITICAL - DO NOT CHANGE":

        τ_x = (L/√2) kF ((ω₀² + ω₃²) − (ω₁² + ω₂²))
        τ_y = (L/√2) kF ((ω₀² + ω₁²) − (ω₂² + ω₃²))
        τ_z = kM (−ω₀² + ω₁² − ω₂² + ω₃²)

    So one rotor equation serves both, and trim, controllers and export use the right one.
    """
    return rotor._replace(r_B=Vec3(-rotor.r_B.x, rotor.r_B.y, rotor.r_B.z), spin=-rotor.spin)


ALLOCATIONS: dict[str, Callable[[Rotor], Rotor]] = {"documented": _mirror_rotor, "geometric": lambda rotor: rotor}


def engine_parameters(params: Scalar, allocation: str) -> dict[str, Scalar]:
    """Return the engine vehicle's parameters by path: plain arithmetic on `params`, for any scalar type."""
    motor = Lag(params.omegaMin, params.omegaMax, params.tauMotor, params.tauMotor)
    scaled_rotors = [
        rotor._replace(
            r_B=rotor.r_B * (params.armLength / norm(rotor.r_B)),
            k_thrust=params.thrustCoeff,
            k_torque=params.torqueCoeff,
            motor=motor,
        )
        for rotor in _CRAZYFLIE.rotors
    ]
    return {
        "mass": params.mass,
        "inertia_B": diagonal(Vec3(*params.inertia)),
        "rotors": tuple(ALLOCATIONS[allocation](rotor) for rotor in scaled_rotors),
        "gravity.acceleration": params.gravity,
        "drag.linear": Vec3(*params.dragLinear),
        "damping.linear": scale(Vec3(*params.dragAngular), Vec3(*params.inertia)),
    }


def engine_vehicle(
    params: CrazyflieParams, allocation: str = "documented", effects: Mapping[str, object] | Sequence[str] = ()
) -> Vehicle:
    """Return the engine's vehicle: `crazyflie_documented` with these parameters and this allocation of its rotors.

    The document's engine has no floor, and neither has this one unless "contact" is among the effects. The others are those of
    `samara.switch_on`.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation {allocation!r}: expected one of {', '.join(ALLOCATIONS)}")
    parameters = engine_parameters(params, allocation)
    extra_effects = effect_tables(effects)
    contact = _CRAZYFLIE["contact"] if extra_effects.pop("contact", False) else None
    base = build_vehicle(
        _CRAZYFLIE.name if allocation == "geometric" else f"{_CRAZYFLIE.name}_torques",
        mass=parameters["mass"],
        inertia=params.inertia,
        rotors=parameters["rotors"],
        contact=ContactShape(contact.points_B, contact.top_height, _CRAZYFLIE["contact"].surface.friction)
        if contact
        else None,
        effects={
            "gravity": {"acceleration": parameters["gravity.acceleration"]},
            "drag": {"frame": "world", "linear": parameters["drag.linear"]},
            "damping": {"linear": parameters["damping.linear"]},
        },
        provenance=Provenance(f"{_CRAZYFLIE.structure.description}, {allocation} allocation"),
    )
    return add_single_vehicle_effects(base, extra_effects)


# Compiling takes a hundred thousand times as long as a step: engines of equal vehicles share the result.
_compiled = lru_cache(maxsize=16)(compile)


# Engine ------------------------------------------------------------------------------------------------------------


class EngineState(NamedTuple):
    """Position, velocity (world axes), attitude (body to world; .x .y .z .w), angular velocity (body axes) and rotor
    speeds, under the document's names. It is immutable, so it needs no clone."""

    p_W: Vec3
    v_W: Vec3
    q_WB: Quat
    omega_B: Vec3
    motorSpeeds: tuple[float, ...]


class NamedState(State):
    """A `State` that also has the document's name for its rotor speeds."""

    __slots__ = ()

    @property
    def motorSpeeds(self) -> tuple[float, ...]:
        """Ω  [rad/s]"""
        return self.rotor_speed


class DroneEngine:
    """ṗ = v,  m v̇ = R f_B + f_W,  q̇ = ½ q ⊗ (0, ω),  J ω̇ = τ − ω × Jω,  Ω̇ = (Ω_cmd − Ω)/τ

    `allocation` selects the torques of the rotors: "documented", exactly the document's equations, or "geometric", r × F and
    reaction torque of the airframe it shows, which is the vehicle `crazyflie_documented`. The engine starts at rest in the
    origin, with stopped rotors and all commands 0 (which is idle: `omegaMin`).

    `effects` are the document's extensions, by the names of `samara.switch_on`, with or without their parameters:
    `effects=["ground_effect", "battery"]`, `effects={"battery": {"capacity": 864.0}}`; and "contact", a floor at height 0.
    `wind_W` is the wind [m/s] of every step without an `environment`; it can be set at any time.

    With `telemetry=True` every step since the last reset is recorded, and `telemetry()` returns it as a `Run`.
    """

    def __init__(
        self,
        params: CrazyflieParams | None = None,
        allocation: str = "documented",
        backend: str = "auto",
        *,
        effects: Mapping[str, object] | Sequence[str] = (),
        wind_W: Sequence[float] = ZERO,
        telemetry: bool = False,
    ) -> None:
        if not isinstance(params, CrazyflieParams | None):
            expected = "expected CrazyflieParams, as in CrazyflieParams(mass=0.03)"
            raise ValueError(f"params is a {type(params).__name__}; {expected}")
        self.params = params or CrazyflieParams()
        self.allocation = allocation
        self.vehicle = engine_vehicle(self.params, allocation, effects)
        self._effects = tuple(effect_tables(effects))
        self.wind_W = _finite_vector(wind_W, "wind_W")
        self._simulator = _compiled(self.vehicle, backend=backend)
        self._is_recording = telemetry
        self.reset()

    def __repr__(self) -> str:
        torques = {"documented": "torques as the document writes them", "geometric": "torques by r × F and reaction"}
        also = f"; with {', '.join(self._effects)}" if self._effects else ""
        return f"<DroneEngine {self.vehicle.name}, allocation {self.allocation!r}: {torques[self.allocation]}{also}>"

    @property
    def wind_W(self) -> Vec3:
        """The wind of every step without an `environment`  [m/s]"""
        return self._environment.wind_W

    @wind_W.setter
    def wind_W(self, wind_W: Sequence[float]) -> None:
        self._environment = CALM._replace(wind_W=_finite_vector(wind_W, "wind_W"))

    def reset(
        self,
        p_W: Vec3 | None = None,
        v_W: Vec3 = ZERO,
        q_WB: Quat = IDENTITY,
        omega_B: Vec3 = ZERO,
        motorSpeeds: Sequence[float] = (0.0,) * MOTORS,
    ) -> None:
        """Set a new state and all commands to 0; `reset(**state._asdict())` restores a state of `get_state`.

        Without `p_W` the engine starts at the origin or, with a floor, standing on it.
        """
        if not isinstance(q_WB, Quat):
            raise ValueError(f"q_WB = {q_WB!r}: expected a Quat, whose components have names instead of an order")
        if not 0.0 < math.hypot(*q_WB) < math.inf:
            raise ValueError(f"q_WB = {tuple(q_WB)}: expected finite numbers that are not all 0")
        if len(motorSpeeds) != MOTORS or not all(0.0 <= speed < math.inf for speed in motorSpeeds):
            expected = f"expected {MOTORS} numbers that are not negative"
            raise ValueError(f"motorSpeeds = {tuple(motorSpeeds)} rad/s: {expected}")
        self._state = State(
            p_W=Vec3(0.0, 0.0, clearance(self.vehicle)) if p_W is None else _finite_vector(p_W, "p_W"),
            v_W=_finite_vector(v_W, "v_W"),
            q_WB=normalize(Quat(*(float(x) for x in q_WB))),
            omega_B=_finite_vector(omega_B, "omega_B"),
            rotor_speed=tuple(float(speed) for speed in motorSpeeds),
            effects=initial_effects(self.vehicle),
        )
        if p_W is None:
            self._state = standing_state(self._state, ZERO, self.vehicle, CALM, lambda p_W, q_WB, vehicle: CALM.ground)
        self._command = (0.0,) * MOTORS
        self._time = 0.0
        self._telemetry = Telemetry(self.vehicle) if self._is_recording else None

    @property
    def time(self) -> float:
        """t since the last reset  [s]"""
        return self._time

    @property
    def command(self) -> tuple[float, ...]:
        """The present commands of the four motors, each within [0, 1]."""
        return self._command

    def apply_motor_commands(self, u0: float, u1: float, u2: float, u3: float) -> None:
        """Ω_cmd = Ω_min + u (Ω_max − Ω_min), until the next call; u is clipped to [0, 1]; raise ValueError for NaN"""
        for i, u in enumerate((u0, u1, u2, u3)):
            if not isinstance(u, Real) or math.isnan(u):
                raise ValueError(f"motor command u{i} is {u!r}; expected a number within [0, 1]")
        self._command = tuple(clamp(float(u), 0.0, 1.0) for u in (u0, u1, u2, u3))

    def step(self, dt: float, environment: Environment | None = None) -> None:
        """x(t + dt), commands constant: RK4 in steps of at most 1 ms, then Ω(t + dt) by the lag's closed form  [s]

        The lag is integrated by RK4, so that thrust follows the rotors through the step. Its small error does not accumulate:
        under a constant command Ω(t) is exact for any dt, except with a battery that sags or an actuator before the motor.
        Warns above 5 ms, the document's limit.
        """
        if not isinstance(dt, Real) or not 0.0 < dt <= MAX_STEP:
            raise ValueError(f"dt = {dt!r} s: expected a positive number, at most {MAX_STEP:g}")
        dt = float(dt)
        steps = math.ceil(dt / RK4_STEP * (1.0 - 1e-9))
        if dt > RECOMMENDED_STEP:
            warnings.warn(
                f"a step of {dt:g} s is longer than the {RECOMMENDED_STEP:g} s of the document: the commands are held for "
                f"all of it, the motion is integrated in {steps} steps",
                stacklevel=2,
            )
        conditions = self._environment if environment is None else environment
        if self._telemetry is not None:
            self._telemetry.add(self._time, self._state, self._command, conditions)
        stepped = self._simulator.step(self._state, self._command, dt / steps, steps, conditions)
        intermediate_roles = (Role.SUPPLY, Role.ACTUATOR)
        has_exact_lag = not any(effect.role in intermediate_roles for effect in self.vehicle.structure.effects)
        self._state = stepped._replace(rotor_speed=self._exact_speeds(dt, conditions)) if has_exact_lag else stepped
        self._time += dt
        if self._telemetry is not None:
            self._telemetry.add(self._time, self._state, self._command, conditions)

    def telemetry(self, reference: PositionReference = None, controller: str = "motor commands") -> Run:
        """Return the steps since the last reset as a `Run`: `run.plot()`, `run.summary()`, `run.save("run.mcap")`.

        `reference` is the desired position [m]: three numbers, a row for each recorded time, or a function of the time [s].
        With one the run has tracking errors. `controller` is the name of the controller that commanded the motors.
        """
        if self._telemetry is None:
            raise ValueError("this engine records nothing: expected DroneEngine(telemetry=True)")
        return self._telemetry.run("DroneEngine", controller, reference)

    def _exact_speeds(self, dt: float, environment: Environment) -> tuple[float, ...]:
        motors = tuple(rotor.motor for rotor in self.vehicle.rotors)
        desired = tuple(speed_from_command(u, motor) for u, motor in zip(self._command, motors, strict=True))
        return tuple(
            lag_step(speed, target, dt, motor)
            for speed, target, motor in zip(
                self._state.rotor_speed, apply_effectiveness(desired, environment), motors, strict=True
            )
        )

    def get_state(self) -> EngineState:
        """Return p_W, v_W, q_WB, ω_B and the motor speeds; later steps do not change the returned state."""
        state = self._state
        return EngineState(state.p_W, state.v_W, state.q_WB, state.omega_B, state.rotor_speed)

    @property
    def state(self) -> NamedState:
        """The state as Samara's `State`, for its controllers, with the states of the effects."""
        return NamedState(*self._state)

    def motor_wrench(self) -> Wrench:
        """f_B = (0, 0, ΣT) and τ_B of the rotors at their present speeds  [N, N·m]"""
        return wrench_breakdown(self._state, self._command, self.vehicle, self._environment)["rotors"]

    applyMotorCommands = apply_motor_commands
    getState = get_state


DronePhysicsEngine = DroneEngine


def _finite_vector(values: Sequence[float], name: str) -> Vec3:
    if len(values) != 3:
        raise ValueError(f"{name} = {values!r}: expected 3 numbers")
    vector = Vec3(*(float(x) for x in values))
    require_finite(vector, name)
    return vector


# Motor -------------------------------------------------------------------------------------------------------------


@dataclass
class MotorModel:
    """Ω̇ = (Ω_cmd − Ω) / τ: one motor, with its time constant [s] and its present speed [rad/s]"""

    tau: float = _ROTOR.motor.time_constant_up
    speed: float = 0.0

    def __post_init__(self) -> None:
        check_numbers("MotorModel.tau", self.tau, Quantity("s", 1e-6, 10.0), 1)
        check_numbers("MotorModel.speed", self.speed, Quantity("rad/s", -1e4, 1e4), 1)

    def step(self, command: float, dt: float) -> float:
        """Ω(t + dt) = Ω_cmd + (Ω − Ω_cmd) e^{−dt/τ}, exact for any dt; sets and returns the new speed  [rad/s]"""
        if not math.isfinite(command):
            raise ValueError(f"command = {command!r}: expected a finite number")
        if not 0.0 < dt < math.inf:
            raise ValueError(f"dt = {dt!r}: expected a finite positive number")
        self.speed = lag_step(self.speed, command, dt, Lag(0.0, math.inf, self.tau, self.tau))
        return self.speed

    def transfer_function(self, s: complex) -> complex:
        """Ω(s) / Ω_cmd(s) = 1 / (τ s + 1), at a complex frequency [rad/s]"""
        return 1.0 / (self.tau * s + 1.0)

    @property
    def polynomials(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Numerator and denominator in falling powers of s, as `scipy.signal` takes them: (1), (τ, 1)"""
        return (1.0,), (self.tau, 1.0)


# Cheat sheet -------------------------------------------------------------------------------------------------------


def body_to_world(v_B: Vector, q_WB: Attitude) -> Vec3:
    """v_W = q ⊗ (0, v_B) ⊗ q*, for example of a thrust"""
    return rotate(q_WB, v_B)


def world_to_body(v_W: Vector, q_WB: Attitude) -> Vec3:
    """v_B = q* ⊗ (0, v_W) ⊗ q, for example of a wind"""
    return rotate_inverse(q_WB, v_W)


def euler_angles(q_WB: Attitude) -> Euler:
    """Roll, pitch, yaw with R = Rz(yaw) Ry(pitch) Rx(roll)  [rad]; the document's three.js order 'XYZ' is Rx Ry Rz"""
    return euler_from_quat(q_WB)


def to_ned(state: EngineState) -> EngineState:
    """ENU/FLU to NED/FRD: p, v → (y, x, −z), ω → (x, −y, −z), q ← q_NED←ENU ⊗ q ⊗ q_FLU←FRD; its own inverse

    The map is a rotation. Changing only the sign of z, as in the document, would be a reflection.
    """
    p_W, v_W, q_WB, omega_B, *_ = state_ned_frd_from_enu_flu(State(*state[:4]))
    return EngineState(p_W, v_W, q_WB, omega_B, state.motorSpeeds)
