"""The rigid-body document's quadrotor: a rigid body under one thrust and three torques, in NumPy arrays for `solve_ivp`.

    x = [p, v, η, ω]       p [m] and v [m/s] in the world, η = (φ, θ, ψ) Z-Y-X [rad], ω in the body [rad/s]: 12 numbers
    u = [F, τφ, τθ, τψ]    thrust along the body's z axis [N], torques about its x, y, z axes [N·m]

A quaternion (w, x, y, z) in place of η makes 13 numbers and avoids gimbal lock; motors with a lag append the speeds of four
rotors, and effects with states, such as a battery, append those. Every method distinguishes these layouts by length, and takes
(n, k) for k states at once. The world is z-up, the body forward-left-up: +φ is right side down, +θ nose down,
+ψ counter-clockwise.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.control.allocation import command_for_wrench, least_squares_allocation
from samara.core.algebra import (
    IDENTITY,
    UP,
    ZERO,
    Euler,
    Mat3,
    Quat,
    Vec3,
    euler_from_quat,
    matrix_from_quat,
    normalize,
    quat_from_euler,
)
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.documents.drone_physics.arguments import GimbalLockWarning as GimbalLockWarning
from samara.documents.drone_physics.arguments import warn_near_gimbal_lock
from samara.documents.single_vehicle import add_single_vehicle_effects
from samara.physics.motion.body import angular_momentum, attitude_rate, euler_rates, kinetic_energy
from samara.physics.motion.gravity import Gravity, potential_energy, weight
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM, Command, State, Vehicle, initial_effects
from samara.record.run import Run
from samara.record.telemetry import PositionReference, Telemetry
from samara.vehicles.build import ContactShape, Provenance, build_vehicle, effect_tables
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import vehicle as load_vehicle

_ADVICE = "with a quaternion in place of the angles, `quad.quaternion_state(x)`, there is no such attitude"
_MOTION = ("x", "y", "z", "vx", "vy", "vz")
_ANGLES = ("φ", "θ", "ψ")
_QUATERNION = ("qw", "qx", "qy", "qz")
_RATES = ("ωx", "ωy", "ωz")
_COMMAND = ("F", "τφ", "τθ", "τψ")

# The document mentions motors and gives no rotors: these are Samara's, of a size that fits its mass. The scale of k_thrust only
# sets the unit of the speeds; arms and ratio weight the four thrusts against each other while the speeds differ.
_K_THRUST, _K_TORQUE = 1e-5, 1.6e-7  # [N s²/rad²], [N m s²/rad²]: 542 rad/s at hover, torque ratio 16 mm
_SPINS = (-1, 1, -1, 1)  # front left, front right, back right, back left
_NO_LIMIT = 1e5  # [rad/s]: the document has no limit


class _Settings(NamedTuple):
    """The body's parameters as set by the user; None is the document's value."""

    mass: ArrayLike | None
    inertia: ArrayLike | None
    g: ArrayLike | None
    D: ArrayLike | None
    motor_lag: ArrayLike | None
    rotor_radius: ArrayLike | None


def _parameter(name: str, read: Callable[["RigidBodyQuadrotor"], Scalar], description: str) -> Scalar:
    """Create a property that reads from the vehicle; setting it rebuilds the vehicle."""

    def write(quad: "RigidBodyQuadrotor", value: ArrayLike | None) -> None:
        quad._rebuild(**{name: value})

    return property(read, write, doc=description)


class RigidBodyQuadrotor:
    """m v̇ = R [0, 0, F] − [0, 0, m g] − D v,  η̇ = W(φ, θ) ω,  I ω̇ = τ − ω × Iω

    Defaults are the document's: mass 1.2 kg, I diag(0.0081, 0.0081, 0.0142) kg m², g 9.81 m/s², D diag(0.1, 0.1,
    0.15) N s/m. `inertia` is three numbers or a symmetric 3×3 matrix, instead of Ixx, Iyy, Izz. `D` is one
    number, three, or a diagonal matrix; D=0 means without drag, g=0 without weight. `motor_lag` is the time constant [s]
    of four motors that follow the speeds for u, with rotors of `rotor_radius` [m].

    Every parameter can be set later: `quad.D = 0`, `quad.m = 1.5`, `quad.I = (0.01, 0.01, 0.02)`, `quad.motor_lag = 0.05`.
    Matrices must be set completely; their elements are read-only.

    `effects` are those of `samara.switch_on`, with or without parameters: `effects={"damping_torque": {"linear": [1e-3]
    * 3}}`, or with motors `effects={"ground_effect": True, "battery": {"capacity": 18000.0}}`; and "contact", feet and a
    floor at height 0. `wind_W` is the wind [m/s], three numbers or a function of t.
    """

    def __init__(
        self,
        mass: float | None = None,
        Ixx: float | None = None,
        Iyy: float | None = None,
        Izz: float | None = None,
        *,
        inertia: ArrayLike | None = None,
        g: float | None = None,
        D: ArrayLike | None = None,
        motor_lag: float | None = None,
        rotor_radius: float | None = None,
        effects: Mapping[str, object] | Sequence[str] = (),
        wind_W: ArrayLike | Callable[[float], ArrayLike] = ZERO,
    ) -> None:
        if inertia is not None and (Ixx, Iyy, Izz) != (None, None, None):
            raise ValueError("inertia and Ixx, Iyy, Izz were both given; expected one or the other")
        documented = load_vehicle("rigid_body_quadrotor").inertia_B
        moments = [
            number if number is not None else default
            for number, default in zip((Ixx, Iyy, Izz), (documented.xx, documented.yy, documented.zz), strict=True)
        ]
        self._effects, self._wind = effect_tables(effects), _wind_function(wind_W)
        self._settings = _Settings(mass, moments if inertia is None else inertia, g, D, motor_lag, rotor_radius)
        self._rebuild()

    def _rebuild(self, **changes: ArrayLike | None) -> None:
        """Rebuild the vehicle with changed settings; if that fails, nothing changes."""
        settings = self._settings._replace(**changes)
        vehicle = _vehicle(settings, self._effects)
        self._settings, self._vehicle = settings, vehicle
        self._allocation = least_squares_allocation(vehicle)
        motors = tuple(f"Ω{i}" for i in range(len(vehicle.rotors)))
        effect_names = [effect.name for effect in vehicle.structure.effects]
        states = zip(initial_effects(vehicle), effect_names, strict=True)
        extra = tuple(leaf for tree, name in states for leaf in leaf_names(tree, name))
        self._layouts = tuple((*_MOTION, *attitude, *_RATES, *motors, *extra) for attitude in (_ANGLES, _QUATERNION))
        self._I = _read_only([list(row) for row in vehicle.inertia_B.rows])
        self._D = _read_only(np.diag(vehicle["drag"].linear if vehicle.has("drag") else ZERO))

    def __repr__(self) -> str:
        lag = f", motor_lag={self._vehicle.rotors[0].motor.time_constant_up:g}" if self._vehicle.rotors else ""
        drag, inertia = self.D.diagonal().tolist(), self.I.tolist()
        also = f", effects={list(self._effects)}" if self._effects else ""
        return f"RigidBodyQuadrotor(mass={self.m:g}, inertia={inertia}, g={self.g:g}, D={drag}{lag}{also})"

    @property
    def vehicle(self) -> Vehicle:
        """The body as a `Vehicle` for the rest of Samara: `samara.step`, `samara.compile`, controllers."""
        return self._vehicle

    m = mass = _parameter("mass", lambda quad: quad.vehicle.mass, "Mass [kg]")
    g = _parameter(
        "g",
        lambda quad: quad.vehicle["gravity"].acceleration if quad.vehicle.has("gravity") else 0.0,
        "Free-fall acceleration [m/s²]",
    )
    I = inertia = _parameter(  # noqa: E741 (the document's name)
        "inertia",
        lambda quad: quad._I,
        "Inertia in the body frame, 3×3 [kg m²]; set as three numbers or a symmetric 3×3 matrix",
    )
    D = _parameter(
        "D",
        lambda quad: quad._D,
        "Linear drag along the world's axes, 3×3 and diagonal [N s/m]; set as one number, three, or a diagonal matrix",
    )
    motor_lag = _parameter(
        "motor_lag",
        lambda quad: quad.vehicle.rotors[0].motor.time_constant_up if quad.vehicle.rotors else None,
        "Time constant of the motors [s]; None without motors. With motors a state has their four speeds.",
    )
    rotor_radius = _parameter(
        "rotor_radius",
        lambda quad: (quad.vehicle.rotors[0].radius or None) if quad.vehicle.rotors else None,
        "Radius of the rotors [m]; None if it was not set",
    )

    @property
    def I_inv(self) -> Array:
        """I⁻¹  [1/(kg m²)]"""
        return _read_only(np.linalg.inv(self._I))

    # Equation of motion ----------------------------------------------------------------------------------------------

    def wind_W(self, t: Scalar = 0.0) -> Array:
        """The wind at a time  [m/s]"""
        return _stack(self._wind(t))

    def dynamics(self, t: Scalar, x: ArrayLike, u: ArrayLike) -> Array:
        """ẋ at the state x under u = [F, τφ, τθ, τψ], in the shape of x; only the wind depends on t

        With motors, u is the desired wrench of the rotors: Ω_des are the speeds that would produce it (a negative thrust is
        replaced by 0), and Ω̇ = (Ω_des − Ω)/τ.
        """
        state, attitude = self._split(x)
        rate = derivative(state, self._command(u, state), self._vehicle, CALM._replace(wind_W=self._wind(t)))
        if isinstance(attitude, Quat):
            attitude_derivative: Sequence[Scalar] = attitude_rate(attitude, state.omega_B)
        else:
            warn_near_gimbal_lock(attitude.pitch, _ADVICE, stacklevel=2)
            attitude_derivative = euler_rates(attitude, state.omega_B)
        return _stack(rate.p_W, rate.v_W, attitude_derivative, rate.omega_B, rate.rotor_speed, flatten(rate.effects))

    def telemetry(
        self,
        t: Scalar,
        x: ArrayLike,
        u: ArrayLike,
        *,
        reference: PositionReference = None,
        controller: str = "wrench",
        name: str = "RigidBodyQuadrotor",
    ) -> Run:
        """Return a motion as a `Run`: `run.plot()`, `run.summary()`, `run.save("run.mcap")`.

        `t` [s] and `x`, (n, k), are `solution.t` and `solution.y` of `solve_ivp`; `u` is [F, τφ, τθ, τψ], one for all times,
        (4, k), or a function u(t, x). `reference` is the desired position [m], three numbers, (k, 3), or a function of t: with
        one the run has tracking errors. `controller` is the name of the controller that computed u.
        """
        times, states = _numbers("t", t), _numbers("x", x)
        if times.ndim != 1 or states.ndim != 2 or states.shape[1] != len(times):
            raise ValueError(f"t has the shape {times.shape} and x {states.shape}; expected (k,) and (n, k)")
        commands = None if callable(u) else np.asarray(_numbers("u", u))
        if commands is not None and commands.shape not in ((4,), (4, len(times))):
            raise ValueError(
                f"u has the shape {commands.shape}; expected (4,), (4, {len(times)}), or a function u(t, x)"
            )
        flight = Telemetry(self._vehicle)
        for k, time in enumerate(times.tolist()):
            row = states[:, k]
            wrench = u(time, row) if commands is None else commands if commands.ndim == 1 else commands[:, k]
            state = self.state(row)
            flight.add(time, state, self._command(wrench, state), CALM._replace(wind_W=self._wind(time)))
        return flight.run(name, controller, reference)

    def effect_states(self) -> Array:
        """Return the initial states of the effects, for the end of x, such as a full battery; shape (0,) if there are none."""
        return np.array(flatten(initial_effects(self._vehicle)), dtype=float)

    def hover_thrust(self) -> float:
        """F = m g  [N]"""
        return -weight(self.m, self.g).z

    # Derived quantities ----------------------------------------------------------------------------------------------

    def rotation_matrix(self, *attitude: ArrayLike) -> Array:
        """R = Rz(ψ) Ry(θ) Rx(φ), from body to world: (3, 3), or (3, 3, k)

        Takes three angles, (φ, θ, ψ) as one argument, a quaternion (w, x, y, z), or a complete state.
        """
        matrix = matrix_from_quat(_unit(self._attitude(attitude)))
        return _stack(matrix).reshape(3, 3, *np.shape(matrix.xx + matrix.yz))

    def euler_rate_matrix(self, *angles: ArrayLike) -> Array:
        """W(φ, θ) with η̇ = W ω: (3, 3), or (3, 3, k)

        Takes φ and θ, (φ, θ, ψ), or a complete state. Within 1e-9 of gimbal lock the unbounded terms are omitted.
        """
        if len(angles) == 2:
            roll, pitch = _components(np.broadcast_arrays(*angles), "angles", (("φ", "θ"),))
            euler = Euler(roll, pitch, 0.0)
        else:
            attitude = self._attitude(angles)
            euler = euler_from_quat(_unit(attitude)) if isinstance(attitude, Quat) else attitude
        warn_near_gimbal_lock(euler.pitch, _ADVICE, stacklevel=2)
        columns = (euler_rates(euler, axis_B) for axis_B in (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), UP))
        return np.stack([_stack(column, like=euler) for column in columns], axis=1)

    def get_body_axes(self, *attitude: ArrayLike) -> tuple[Array, Array, Array]:
        """Return the columns of R: the body's x, y and z axes in the world; arguments as for `rotation_matrix`."""
        matrix = self.rotation_matrix(*attitude)
        return matrix[:, 0], matrix[:, 1], matrix[:, 2]

    def linear_momentum(self, x: ArrayLike) -> Array:
        """P_W = m v, constant without forces  [N·s]"""
        return _stack(self.state(x).v_W * self.m)

    def angular_momentum(self, x: ArrayLike, frame: str | None = None) -> Array:
        """L_W = R I ω, constant without torque; in the body L_B = I ω, of which only the length is constant  [N·m·s]

        For a complete state in the frame "world" (default) or "body"; for ω alone, three numbers, in the body.
        """
        if frame not in (None, "world", "body"):
            raise ValueError(f"frame = {frame!r}: expected 'world' or 'body'")
        if np.shape(x)[:1] == (3,):
            if frame == "world":
                raise ValueError("L in the world needs the attitude: expected a whole state x, got ω alone")
            q_WB, omega_B = IDENTITY, Vec3(*_components(x, "omega", (_RATES,)))
        else:
            state = self.state(x)
            q_WB, omega_B = IDENTITY if frame == "body" else state.q_WB, state.omega_B
        return _stack(angular_momentum(q_WB, omega_B, inertia_B=self._vehicle.inertia_B))

    def total_energy(self, x: ArrayLike) -> Scalar:
        """E = ½ m v² + ½ ω·Iω + m g z, constant without thrust, torque and drag  [J]"""
        state = self.state(x)
        kinetic = kinetic_energy(state.v_W, state.omega_B, mass=self.m, inertia_B=self._vehicle.inertia_B)
        return kinetic + potential_energy(state.p_W.z, mass=self.m, g=self.g)

    # State conversions -----------------------------------------------------------------------------------------------

    def quaternion_state(self, x: ArrayLike) -> Array:
        """Return x with a unit quaternion (w, x, y, z) in place of the angles: 13 numbers, or 17 with motors."""
        return _stack(flatten(self.state(x)))

    def euler_state(self, x: ArrayLike) -> Array:
        """Return x with the angles φ, θ, ψ in place of the quaternion: 12 numbers, or 16 with motors."""
        state, attitude = self._split(x)
        angles = euler_from_quat(state.q_WB) if isinstance(attitude, Quat) else attitude
        return _stack(*state[:2], angles, *state[3:5], flatten(state.effects))

    def state(self, x: ArrayLike) -> State:
        """Return x as a `samara.State` of `vehicle`."""
        return self._split(x)[0]

    def _command(self, u: ArrayLike, state: State) -> Command:
        thrust, *tau_B = _components(u, "u", (_COMMAND,))
        return command_for_wrench(thrust, Vec3(*tau_B), state, self._vehicle, self._allocation)

    def _split(self, x: ArrayLike) -> tuple[State, Euler | Quat]:
        """Return x as a `State`, and its attitude in the representation of x."""
        rows = _components(x, "x", self._layouts)
        attitude = Euler(*rows[6:9]) if len(rows) == len(self._layouts[0]) else _quaternion(rows[6:10])
        remaining = rows[6 + len(attitude) :]
        motor_end = 3 + len(self._vehicle.rotors)
        effects = unflatten(initial_effects(self._vehicle), iter(remaining[motor_end:]))
        p_W, v_W, omega_B = Vec3(*rows[0:3]), Vec3(*rows[3:6]), Vec3(*remaining[:3])
        return State(p_W, v_W, _unit(attitude), omega_B, tuple(remaining[3:motor_end]), effects), attitude

    def _attitude(self, arguments: tuple[ArrayLike, ...]) -> Euler | Quat:
        if len(arguments) == 3:
            return Euler(*_components(np.broadcast_arrays(*arguments), "angles", (_ANGLES,)))
        if len(arguments) != 1:
            raise ValueError(f"an attitude of {len(arguments)} arguments; expected φ, θ, ψ, or one array")
        if np.shape(arguments[0])[:1] in ((3,), (4,)):
            rows = _components(arguments[0], "attitude", (_ANGLES, _QUATERNION))
            return Euler(*rows) if len(rows) == 3 else _quaternion(rows)
        return self._split(arguments[0])[1]


# Arrays and named components -----------------------------------------------------------------------------------------


def _components(values: ArrayLike, label: str, layouts: tuple[tuple[str, ...], ...]) -> list[Scalar]:
    """Return the rows of an array that fits one of the layouts: floats for (n,), arrays for (n, k)."""
    rows = _numbers(label, values)
    names = next((names for names in layouts if rows.ndim in (1, 2) and len(names) == len(rows)), None)
    if names is None:
        shapes = " or ".join(f"({len(layout)},) [{' '.join(layout)}]" for layout in layouts)
        raise ValueError(f"{label} has the shape {rows.shape}; expected {shapes}, or k of them as (n, k)")
    if not np.isfinite(rows).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        position = ", ".join(str(i) for i in index)
        raise ValueError(f"{label}[{position}] ({names[index[0]]}) is {rows[index]}; expected a finite number")
    return rows.tolist() if rows.ndim == 1 else list(rows)


def _quaternion(rows: Sequence[Scalar]) -> Quat:
    """Return the quaternion; raise ValueError if its length is not within a factor 2 of 1, far beyond the drift of a
    solver."""
    length = np.sqrt(sum(np.square(row) for row in rows))
    if not np.all((length > 0.5) & (length < 2.0)):
        worst = np.ravel(length)[np.argmax(np.abs(np.log(np.ravel(length) + 1e-300)))]
        raise ValueError(f"the quaternion has length {worst:.4g}; expected 1")
    return Quat(*rows)


def _unit(attitude: Euler | Quat) -> Quat:
    return normalize(attitude) if isinstance(attitude, Quat) else quat_from_euler(*attitude)


def _stack(*parts: Sequence[Scalar], like: Sequence[Scalar] = ()) -> Array:
    leaves = [leaf for part in parts for leaf in part]
    if not any(isinstance(leaf, np.ndarray) for leaf in (*leaves, *like)):
        return np.array(leaves)  # broadcasting twelve floats takes as long as the physics
    return np.stack(np.broadcast_arrays(*leaves, *like)[: len(leaves)])


def _read_only(values: ArrayLike) -> Array:
    """Return a read-only array, so that `quad.D[2, 2] = 0` fails instead of doing nothing."""
    array = np.array(values, dtype=float)
    array.flags.writeable = False
    return array


# Vehicle -------------------------------------------------------------------------------------------------------------


def _vehicle(settings: _Settings, effects: Mapping[str, object]) -> Vehicle:
    """Return the shipped `rigid_body_quadrotor` with these settings (None: the document's) and effects."""
    documented = load_vehicle("rigid_body_quadrotor")
    mass, inertia, g, D, motor_lag, rotor_radius = settings
    if rotor_radius is not None and motor_lag is None:
        raise ValueError(f"rotor_radius = {rotor_radius!r} and no motor_lag: expected both, or neither")
    weightless = g is not None and _number("g", g) == 0.0
    drag = documented["drag"].linear if D is None else _diagonal(D)
    extra_effects = dict(effects)
    contact = documented["contact"] if extra_effects.pop("contact", False) else None

    def body(lag: float | None, radius: float) -> Vehicle:
        return build_vehicle(
            documented.name,
            mass=documented.mass if mass is None else _number("mass", mass),
            inertia=_inertia(inertia),
            rotors=() if lag is None else _rotors(documented, lag, radius),
            actuation="wrench" if lag is None else "speed",
            contact=ContactShape(contact.points_B, contact.top_height, documented["contact"].surface.friction)
            if contact
            else None,
            effects={
                "gravity": documented["gravity"] if g is None or weightless else Gravity(_number("g", g)),
                "drag": {"frame": "world", "linear": drag} if any(drag) else None,
            },
            provenance=Provenance(documented.structure.description),
        )

    lag = None if motor_lag is None else _number("motor_lag", motor_lag)
    base = body(lag, 0.0 if rotor_radius is None else _number("rotor_radius", rotor_radius))
    try:
        vehicle = add_single_vehicle_effects(base, extra_effects)
    except VehicleError as error:
        for names, trial_radius in ((["motor_lag"], 0.0), (["motor_lag", "rotor_radius"], 0.1)):
            missing = [name for name in names if {"motor_lag": motor_lag, "rotor_radius": rotor_radius}[name] is None]
            if missing and _accepts(body(lag or 0.05, trial_radius), extra_effects):
                raise VehicleError(
                    f"RigidBodyQuadrotor: effects = {', '.join(extra_effects)}: these need rotors: "
                    f"expected {' and '.join(missing)} too"
                ) from error
        raise
    return vehicle.without_effect("gravity") if weightless else vehicle


def _accepts(vehicle: Vehicle, effects: Mapping[str, object]) -> bool:
    try:
        add_single_vehicle_effects(vehicle, effects)
    except VehicleError:
        return False
    return True


# Parameters of the body ----------------------------------------------------------------------------------------------


def _numbers(name: str, value: ArrayLike | None) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} = {value!r}: expected numbers") from None


def _number(name: str, argument: ArrayLike) -> float:
    value = _numbers(name, argument)
    if value.shape != ():
        raise ValueError(f"{name} = {argument!r}: expected one number")
    return float(value)


def _inertia(values: ArrayLike | None) -> Mat3:
    matrix = _numbers("inertia", values)
    matrix = np.diag(matrix) if matrix.shape == (3,) else matrix.reshape(3, 3) if matrix.shape == (9,) else matrix
    if matrix.shape != (3, 3):
        raise ValueError(f"inertia has the shape {matrix.shape}; expected 3 numbers (the diagonal) or 3 rows of 3")
    return Mat3(*matrix.ravel().tolist())


def _diagonal(argument: ArrayLike) -> Vec3:
    values = _numbers("D", argument)
    if values.shape == (3, 3) and not np.any(values - np.diag(values.diagonal())):
        values = values.diagonal()
    if values.shape not in ((), (3,)):
        raise ValueError(f"D = {values.tolist()}: expected one number, three, or a diagonal 3x3 matrix")
    return Vec3(*np.broadcast_to(values, 3).tolist())


def _wind_function(wind: ArrayLike | Callable[[float], ArrayLike]) -> Callable[[Scalar], Vec3]:
    """Return the wind as a function of time, with its values checked."""

    def evaluate(t: Scalar) -> Vec3:
        return Vec3(*_components(wind(t) if callable(wind) else wind, "wind_W", (("x", "y", "z"),)))

    if callable(wind):
        return evaluate
    constant = evaluate(0.0)
    return lambda t: constant


def _rotors(documented: Vehicle, lag: float, radius: float) -> tuple[Rotor, ...]:
    """Return four rotors above the feet of the shipped vehicle, each with a motor with lag."""
    motor = Lag(0.0, _NO_LIMIT, lag, lag)
    return tuple(
        Rotor(foot_B._replace(z=0.0), UP, spin, _K_THRUST, _K_TORQUE, radius=radius, motor=motor)
        for foot_B, spin in zip(documented["contact"].points_B, _SPINS, strict=True)
    )
