"""The body that iLQR predicts: the vehicle's own equations of motion, driven by a wrench or by a thrust at each rotor.

Mass, inertia, gravity, drag and damping are the vehicle's; rotors and motors answer at once, and there is no ground and no
other air than drag's (what is not `planned` is left out). A state is (p_W, v_W, q_WB, ω_B); near it, 12 numbers
(δp, δv, δθ, δω) with δθ in body axes say where another is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from samara.control.allocation import allocation_for
from samara.control.mpc.options import INPUTS, MpcOptions
from samara.control.mpc.problem import Limits
from samara.core.algebra import ZERO, Quat, Vec3, conjugate, direction, matrix_from_quat
from samara.core.integrate import RUNGE_KUTTA, integrator_named
from samara.core.ops import maximum, where
from samara.core.portable_linalg import pseudoinverse
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.multirotor import at_rest, derivative
from samara.physics.rotors.propulsion import COMMANDED_WRENCH, WRENCH
from samara.physics.rotors.rotor import RotorLoad, rotor_wrench
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import effective, effectiveness, hover

LEAST_LIFT = 0.2  # of g: the least that a wanted thrust points up with

_NOT_PREDICTED = (Role.THRUST, Role.MOMENTUM, Role.ACTUATOR, Role.SUPPLY, Role.SHAPE)  # the input takes their place


class Tangent(NamedTuple):
    """A small difference between two states: the turn δθ is about the body axes."""

    p_W: Vec3
    v_W: Vec3
    theta_B: Vec3
    omega_B: Vec3


TILT_AND_TURN = tuple(range(6, 12))  # the numbers of δθ and δω


DOCUMENTED_LIMITS = Limits((0.0, -0.02, -0.02, -0.01), (0.72, 0.02, 0.02, 0.01))
"""The iLQR document's for the Crazyflie [N, N·m]: more torque than its motors have."""


def _thrusts(own: Any, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    """Σ over the rotors of the wrench of each thrust, its reaction torque T kM/kF included"""
    total = Wrench()
    for thrust, rotor in zip(command, vehicle["rotor_thrusts"], strict=True):
        load = RotorLoad(thrust, thrust * (rotor.k_torque / rotor.k_thrust))
        total = add_wrenches(total, rotor_wrench(load, rotor))
    return total


ROTOR_THRUSTS = Effect("rotor_thrusts", wrench=_thrusts, role=Role.THRUST)


def _leaning(own: Any, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    """(T, τ), and with the lift what rotors that tilt push sideways"""
    thrust, *tau_B = command
    return Wrench(f_B=(vehicle["leaning_wrench"] * thrust)._replace(z=thrust), tau_B=Vec3(*tau_B))


LEANING_WRENCH = Effect("leaning_wrench", wrench=_leaning, role=Role.THRUST)


@dataclass(frozen=True)
class Model:
    """x' = step(x, u): the predicted body over one `dt`, its inputs and their limits."""

    body: Vehicle
    integrator: str
    dt: float
    inputs: int
    hover_input: tuple[float, ...]
    limits: Limits

    def rate(self, state: State, command: Command) -> State:
        """ẋ, from the one equation of motion"""
        return derivative(state, command, self.body)

    def step(self, state: State, command: Command, push_W: Vec3 = ZERO) -> State:
        """x(t + dt), the input held, and with it an acceleration that is not of the vehicle's own making"""

        def pushed(x: State) -> State:
            rate = self.rate(x, command)
            return rate._replace(v_W=rate.v_W + push_W)

        advanced: State = integrator_named(self.integrator, RUNGE_KUTTA).advance(pushed, state, self.dt)
        return advanced

    def wrench(self, command: Command) -> Wrench:
        """What the inputs do to the body: force and torque in body axes"""
        push = self.body.structure.effects[-1]
        return push.wrench((), self.template, command, self.body, CALM)

    def thrust_and_torque(self, command: Command) -> Command:
        """Return (T, τ_x, τ_y, τ_z) of the inputs, which are those numbers themselves or a thrust for each rotor."""
        if self.takes_wrench:
            return command
        wrench = self.wrench(tuple(command))
        return wrench.f_B.z, *wrench.tau_B

    @property
    def takes_wrench(self) -> bool:
        """Whether the inputs are (T, τ), not a thrust for each rotor"""
        return self.body.structure.effects[-1] in (COMMANDED_WRENCH, LEANING_WRENCH)

    @property
    def template(self) -> State:
        """A state of the body at rest"""
        return at_rest(self.body)


def model_of(vehicle: Vehicle, options: MpcOptions) -> Model:
    """Return the model of a vehicle with these options; the limits are by default those of the working motors."""
    inputs, limits, healthy = options.inputs, options.limits, options.healthy
    integrator_named(options.integrator, RUNGE_KUTTA)
    if inputs not in INPUTS:
        raise ValueError(f"inputs = {inputs!r}: expected one of {', '.join(INPUTS)}")
    if inputs == "rotors" and not vehicle.rotors:
        raise ValueError(f"inputs = 'rotors': vehicle {vehicle.name!r} has none; expected 'wrench'")
    vehicle = effective(vehicle)
    if inputs == "rotors" and vehicle.servos:
        raise ValueError(f"inputs = 'rotors': vehicle {vehicle.name!r} has rotors that tilt; expected 'wrench'")
    push: tuple[Effect, Any] = (ROTOR_THRUSTS, vehicle.rotors) if inputs == "rotors" else (COMMANDED_WRENCH, ())
    if vehicle.servos:
        side_B = allocation_for(vehicle, healthy).side_B or ZERO
        push = (LEANING_WRENCH, side_B / float(vehicle.mass * vehicle["gravity"].acceleration))
    predicted = [
        (effect, numbers)
        for effect, numbers in zip(vehicle.structure.effects, vehicle.parameters, strict=True)
        if effect.planned and effect.role not in _NOT_PREDICTED and effect.initial(vehicle) == ()
    ]
    effects, parameters = zip(*predicted, push, strict=True)
    structure = replace(vehicle.structure, actuation=WRENCH, effects=tuple(effects), inflow=None)
    body = replace(vehicle, structure=structure, rotors=(), parameters=tuple(parameters))
    level = _hover_input(vehicle, inputs)
    if limits is None:
        limits = _rotor_limits(vehicle, healthy) if inputs == "rotors" else wrench_limits(vehicle, healthy)
        if healthy is not None and not all(healthy):  # hover is where plans begin, even out of reach
            limits = Limits(tuple(map(min, limits.low, level)), tuple(map(max, limits.high, level)))
    if not (len(limits.low) == len(limits.high) == len(level)):
        raise ValueError(f"limits = {limits}: expected {len(level)} numbers for each end")
    for low, at, high in zip(limits.low, level, limits.high, strict=True):
        if not low <= at <= high:
            raise ValueError(f"limits = {limits}: the hover input {at:.6g} is not between {low:.6g} and {high:.6g}")
    return Model(body, options.integrator, float(options.dt), len(level), level, limits)


def _hover_input(vehicle: Vehicle, inputs: str) -> tuple[float, ...]:
    if inputs == "wrench":
        return (float(vehicle.mass * vehicle["gravity"].acceleration), 0.0, 0.0, 0.0)
    speeds = hover(vehicle)[0].rotor_speed
    return tuple(float(rotor.k_thrust * speed**2) for rotor, speed in zip(vehicle.rotors, speeds, strict=True))


def _rotor_limits(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Limits:
    low, high = _ends(vehicle, healthy).T.tolist()
    return Limits(tuple(low), tuple(high))


def _ends(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Any:
    """The least and the most thrust of each rotor, (n, 2); none of one that failed"""
    ends = np.array(thrust_limits(vehicle), dtype=float)
    if healthy is None:
        return ends
    turning = np.array([*healthy, *(healthy[i] for i in vehicle.servos)], dtype=float)
    return ends * turning[:, None]


def wrench_limits(vehicle: Vehicle, healthy: Sequence[bool] | None = None) -> Limits:
    """The lift of all rotors at their least and most, and the torque about each axis alone that they have left at hover

    T = T_hover + y τ with the smallest Σ T² stays within the rotors' limits for |τ| up to the least room/|y| of all. A body
    driven by a wrench has no motors: it gets the documented accelerations, T/m and τ/J of its Crazyflie. A failed rotor takes
    its lift away, and the torque about z where that can no longer be balanced; of roll and pitch the allocation gives what
    there is.
    """
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    if not vehicle.rotors:
        of_weight, alpha = 0.72 / (0.028 * 9.81), (0.02 / 1.4e-5, 0.02 / 1.4e-5, 0.01 / 2.17e-5)
        inertia = (vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz)
        torque = tuple(float(own) * a for own, a in zip(inertia, alpha, strict=True))
        return Limits((0.0, *(-t for t in torque)), (of_weight * weight, *torque))
    ends, effect = np.array(thrust_limits(vehicle), dtype=float), effectiveness(vehicle)[2:]
    lift_low, lift_high = np.sort(effect[0][:, None] * _ends(vehicle, healthy), axis=1).sum(axis=0).tolist()
    shares = pseudoinverse(effect)
    level = weight * shares[:, 0]
    torques = [_largest(sign * shares[:, axis], level, ends) for axis in (1, 2, 3) for sign in (-1.0, 1.0)]
    if healthy is not None and not allocation_for(vehicle, healthy).keeps_yaw:
        torques[4:] = [0.0, 0.0]
    return Limits((lift_low, *(-t for t in torques[::2])), (lift_high, *torques[1::2]))


def _largest(per_torque: Any, level: Any, ends: Any) -> float:
    """The largest torque whose thrusts stay within their ends; 0 where it takes none, or where there is no room"""
    limits = np.where(per_torque > 0.0, ends[:, 1], ends[:, 0])
    used = np.abs(per_torque) > 1e-9 * np.abs(per_torque).max(initial=1e-12)
    room = (limits[used] - level[used]) / per_torque[used]
    return max(float(room.min(initial=np.inf)), 0.0) if used.any() else 0.0


# Near a state ------------------------------------------------------------------------------------------------------


def moved(state: State, by: Tangent) -> State:
    """x ⊕ δ: p + δp, v + δv, q ⊗ (1, ½ δθ), ω + δω, to first order in δ"""
    turn = Quat(1.0, *(by.theta_B * 0.5))
    return state._replace(
        p_W=state.p_W + by.p_W, v_W=state.v_W + by.v_W, q_WB=state.q_WB * turn, omega_B=state.omega_B + by.omega_B
    )


def difference(state: State, origin: State) -> Tangent:
    """x ⊖ x₀: δθ = 2 vec(q₀* ⊗ q), the same for q and −q; the inverse of `moved` to first order"""
    turn = conjugate(origin.q_WB) * state.q_WB
    return Tangent(
        state.p_W - origin.p_W,
        state.v_W - origin.v_W,
        turn.vector * where(turn.w < 0, -2.0, 2.0),
        state.omega_B - origin.omega_B,
    )


def levelled(x: Sequence[Any], length: Callable[[Any, Any], Any]) -> list[Any]:
    """The numbers of a state at rest and upright, the nose where it is: q ∥ (w, 0, 0, z), or 1 where that is nothing"""
    w, _, _, z = x[6:10]
    size = length(w, z)
    sound = size > 1e-6
    safe = where(sound, size, 1.0)
    return [0.0] * 6 + [where(sound, w / safe, 1.0), 0.0, 0.0, where(sound, z / safe, 0.0)] + [0.0] * 3


def thrust_axis(state: State) -> Vec3:
    """b₃ = R e₃"""
    return matrix_from_quat(state.q_WB).columns[2]


def heading_axis(state: State) -> Vec3:
    """b₁ = R e₁"""
    return matrix_from_quat(state.q_WB).columns[0]


def thrust_direction(a_W: Vec3, v_W: Vec3, push_W: Vec3, model: Model) -> Vec3:
    """b₃ ∥ a − a₀(v) − push: where thrust must point for an acceleration a at a velocity v

    a₀ is the acceleration without thrust of the level body: −g e₃ and what drag adds. Without drag, b₃ ∥ a + g e₃. It points
    up, with a fifth of g at least: faster down than the body falls is not flown to upside down.
    """
    coasting = model.template._replace(v_W=v_W)
    pull_W = a_W - model.rate(coasting, tuple(0.0 for _ in range(model.inputs))).v_W - push_W
    least = LEAST_LIFT * model.body["gravity"].acceleration
    return direction(pull_W._replace(z=maximum(pull_W.z, least)))
