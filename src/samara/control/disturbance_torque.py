"""What turns the body beside its rotors, and the torque against it: the moment of airspeed, damping, and what else is seen.

A vehicle with a moment of airspeed is a pendulum of gravity and air: tilt gives speed, and speed turns the body back, too far.
Level it grows with ½ (g ∂ω̇/∂v)^⅓, 3 /s for a Crazyflie; and a steady wind is a steady torque: 24 rad/s² for each m/s, against
136 that the attitude loop gives for a whole radian. So what the model knows is opposed at once, at the velocity
and rate there will be when the motors have followed, and the rest, wind above all, as it is seen:

    τ_d ← τ_d + k (J (ω − ω₋)/dt + ω × Jω − ½ (τ + τ₋) − τ_d),  k = dt / (T + dt)

τ is what the rotors give at their measured speeds and what the model knows of in still air. With T = 10 ms the loop bears a
moment that is half as strong or twice as strong as the model's.
"""

from typing import Any, NamedTuple

from samara.control.default_gains import OTHER_LAGS, lead_time
from samara.core.algebra import ZERO, Vec3, cross, quat_exp, rotate
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.physics.effect import Wrench
from samara.physics.motion.body import angular_acceleration, required_torque
from samara.physics.multirotor import tilted, wrench_of_rotors
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import rotor_momentum_torque
from samara.physics.types import CALM, State, Vehicle


def rotor_drag_wrench(v_W: Vec3, state: State, vehicle: Vehicle) -> Wrench:
    """Σ f, Σ r × f at a velocity, of a body that does not turn  [N, N·m]

    Thrust that is lost in a climb is drag along the rotors' axes, as they are tilted: flying sideways, a tricopter's tail
    climbs or descends, and pitches the body. Nothing of a vehicle without such an effect.
    """
    if not vehicle.has("rotor_drag"):
        return Wrench()
    vehicle = tilted(state, vehicle)
    effect, there = vehicle.structure.effects[vehicle.index("rotor_drag")], state._replace(v_W=v_W, omega_B=ZERO)
    across = effect.wrench((), there, (), vehicle, CALM)
    f_B, tau_B = across.f_B, across.tau_B
    losses = effect.more_loads((), there, vehicle, CALM) if effect.more_loads else ()
    for rotor, loss in zip(vehicle.rotors, losses, strict=False):
        f_B = f_B + rotor.axis_B * loss.thrust
        tau_B = tau_B + cross(rotor.r_B, rotor.axis_B * loss.thrust)
    return Wrench(f_B, tau_B)


CARRIES = 0.99  # of the weight: rotors that lift more hold the body in the air
STANDS = 0.5  # of the weight: with rotors that lift less it stands or falls


class Turned(NamedTuple):
    """ω, the known torque and the rotors' speeds one period ago, and the torque τ_d that is seen beside it

    [rad/s, N·m, rad/s, N·m]. `aloft` is 1 from when the rotors carry the weight until they carry less than half of it, else 0:
    what the ground does is not opposed.
    """

    omega_B: Vec3
    tau_B: Vec3
    rotor_speed: tuple[Scalar, ...]
    rest_B: Vec3 = ZERO
    aloft: Scalar = 0.0


class Remembered(NamedTuple):
    """What a controller remembers by itself, and what it has seen turning the body."""

    own: Any
    turned: Turned


def is_turned(vehicle: Vehicle) -> bool:
    """Whether a vehicle has a moment of airspeed, without which nothing here is needed"""
    return vehicle.has("airspeed_moment")


def nothing_seen(vehicle: Vehicle) -> Turned | None:
    """What is seen at first of a vehicle that the air turns; None of others, for which nobody looks"""
    return observer_for(vehicle) if is_turned(vehicle) else None


def observer_for(vehicle: Vehicle) -> Turned | None:
    """The first state of the observer, for a controller that is shown a vehicle as without its motors' lag; None for others"""
    if is_turned(vehicle) or lead_time(vehicle) > 0.0:
        return Turned(ZERO, ZERO, tuple(0.0 for _ in vehicle.rotors))
    return None


def parted(memory: Any) -> tuple[Any, Turned | None]:
    """What a controller remembers by itself, and what it has seen, if it looks"""
    return memory if isinstance(memory, Remembered) else (memory, None)


def joined(own: Any, turned: Turned | None) -> Any:
    """`parted` the other way"""
    return own if turned is None else Remembered(own, turned)


def air_torque(state: State, vehicle: Vehicle) -> Vec3:
    """τ_air: the moment of airspeed, in still air; nothing of a vehicle without one  [N·m]"""
    return _torque("airspeed_moment", state, vehicle) if is_turned(vehicle) else ZERO


def has_unpaired_rotor(vehicle: Vehicle) -> bool:
    """Whether the angular momenta of an odd number of rotors leave a sum in hover"""
    return vehicle.has("rotor_momentum") and len(vehicle.rotors) % 2 == 1


def gyroscopic(state: State, vehicle: Vehicle) -> Vec3:
    """ω × Σ h: the torque that turns the angular momentum of an odd number of rotors; zero for rotors in pairs  [N·m]"""
    whole = ZERO
    if has_unpaired_rotor(vehicle):
        for speed, rotor in zip(state.rotor_speed, tilted(state, vehicle).rotors, strict=True):
            whole = whole - rotor_momentum_torque(state.omega_B, speed, 0.0, rotor)
    return whole


def damping(state: State, vehicle: Vehicle) -> Vec3:
    """−c ∘ ω, of a vehicle that has a moment of airspeed as well  [N·m]"""
    return _torque("damping", state, vehicle) if is_turned(vehicle) and vehicle.has("damping") else ZERO


def _torque(effect: str, state: State, vehicle: Vehicle) -> Vec3:
    return vehicle.structure.effects[vehicle.index(effect)].wrench((), state, (), vehicle, CALM).tau_B


def seen(state: State, vehicle: Vehicle, before: Turned | None, period: float) -> Turned | None:
    """τ_d, and what the next call needs of this one; nothing where nobody looks"""
    if before is None:
        return None
    given = wrench_of_rotors(state, vehicle)
    tau_B = given.tau_B + air_torque(state, vehicle) + damping(state, vehicle)
    between_B = with_spin_up((tau_B + before.tau_B) * 0.5, state, before.rotor_speed, vehicle, period)
    alpha_B = (state.omega_B - before.omega_B) / period
    needed_B = required_torque(state.omega_B, alpha_B, inertia_B=vehicle.inertia_B)
    rest_B = before.rest_B + (needed_B - between_B - before.rest_B) * (period / (OTHER_LAGS + period))
    flying = before.aloft > 0.5
    return Turned(
        state.omega_B,
        tau_B,
        state.rotor_speed,
        Vec3(*(where(flying, each, 0.0) for each in rest_B)),
        aloft(state, vehicle, given, before.aloft),
    )


def with_spin_up(tau_B: Vec3, state: State, before: tuple[Scalar, ...], vehicle: Vehicle, period: float) -> Vec3:
    """τ − Σ (ω × h + ḣ): a torque, and what turning the rotors and changing their speeds in a period costs the body  [N·m]"""
    if vehicle.has("rotor_momentum"):
        for speed, earlier, rotor in zip(state.rotor_speed, before, tilted(state, vehicle).rotors, strict=True):
            tau_B = tau_B + rotor_momentum_torque(state.omega_B, speed, (speed - earlier) / period, rotor)
    return tau_B


def aloft(state: State, vehicle: Vehicle, given: Wrench, before: Scalar) -> Scalar:
    """1 where the rotors carry the body, else 0"""
    carried = rotate(state.q_WB, given.f_B).z / (vehicle.mass * vehicle["gravity"].acceleration)
    return where(carried > where(before > 0.5, STANDS, CARRIES), 1.0, 0.0)


def modelled_acceleration(state: State, vehicle: Vehicle, turned: Turned | None) -> Vec3:
    """ω̇ = J⁻¹ (τ − ω × (Jω + Σ h)), τ of the rotors at their speeds, the air and damping that the model has, and τ_d  [rad/s²]

    Without the momentum Σ h of an unpaired rotor, a lead on this ω̇ couples roll and pitch and drives a light body with
    large propellers round in circles.
    """
    tau_B = wrench_of_rotors(state, vehicle).tau_B
    if has_unpaired_rotor(vehicle):
        tau_B = tau_B - gyroscopic(state, vehicle)
    if is_turned(vehicle):
        tau_B = tau_B + air_torque(state, vehicle)
    elif vehicle.has("rotor_drag"):
        tau_B = tau_B + rotor_drag_wrench(state.v_W, state, vehicle).tau_B
    if vehicle.has("damping"):
        tau_B = tau_B + _torque("damping", state, vehicle)
    if turned is not None:
        tau_B = tau_B + turned.rest_B
    return angular_acceleration(state.omega_B, tau_B, inertia_B=vehicle.inertia_B)


def led(state: State, vehicle: Vehicle, turned: Turned) -> State:
    """q ⊗ exp(T ω), ω + T ω̇: what a body behind motors of lag T shows, as one without the lag would

    Linear equations say the same of x + T ẋ, driven by a command, as of x, driven by what the motors make of it. So a
    controller that does not know of the lag may be shown this instead. ω̇ is that of all torques known and seen.
    """
    lag = motor_lag(vehicle) if is_turned(vehicle) else lead_time(vehicle)
    alpha_B = modelled_acceleration(state, vehicle, turned)
    return state._replace(q_WB=state.q_WB * quat_exp(state.omega_B * lag), omega_B=state.omega_B + alpha_B * lag)


def motor_lag(vehicle: Vehicle) -> Scalar:
    """T of motors that follow with a lag, else 0  [s]"""
    motor = vehicle.rotors[0].motor
    return motor.rise if isinstance(motor, Lag) else 0.0


def opposed(
    lift: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, turned: Turned | None, *, resisted: bool = False
) -> Vec3:
    """τ − τ_air(v + T v̇) + c ∘ (ω + T ω̇) − τ_d,  v̇ = R e₃ f/m − g e₃,  ω̇ = J⁻¹ (τ − ω × Jω)  [N·m]

    T is the motors' lag. A torque that has its part against the damping in it already is `resisted`. Without a moment of
    airspeed it is that of the rotors' drag, which acts above or below the centre of mass: τ − Σ r × f(v).
    """
    if not is_turned(vehicle):
        if vehicle.has("rotor_drag"):
            tau_B = tau_B - rotor_drag_wrench(state.v_W, state, vehicle).tau_B
        return tau_B + gyroscopic(state, vehicle) if has_unpaired_rotor(vehicle) else tau_B
    against_B = tau_B - air_torque(state._replace(v_W=velocity_after_lag(lift, state, vehicle)), vehicle)
    if turned is not None:
        against_B = against_B - turned.rest_B
    if resisted or not vehicle.has("damping"):
        return against_B
    alpha_B = angular_acceleration(state.omega_B, tau_B, inertia_B=vehicle.inertia_B)
    return against_B - damping(state._replace(omega_B=state.omega_B + alpha_B * motor_lag(vehicle)), vehicle)


def velocity_after_lag(lift: Scalar, state: State, vehicle: Vehicle) -> Vec3:
    """v + T v̇,  v̇ = R e₃ f/m − g e₃  [m/s]"""
    gain_W = rotate(state.q_WB, Vec3(0.0, 0.0, lift / vehicle.mass)) - Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    return state.v_W + gain_W * motor_lag(vehicle)


def anticipation(lift: Scalar, alpha_B: Vec3, state: State, vehicle: Vehicle) -> Vec3:
    """τ(v, ω) − τ(v + T v̇, ω + T ω̇): against what air and damping will have changed when the motors have followed  [N·m]

    What they do now is in the angular acceleration that is measured. Nothing without a moment of airspeed.
    """
    if not is_turned(vehicle):
        return ZERO
    later = state._replace(
        v_W=velocity_after_lag(lift, state, vehicle), omega_B=state.omega_B + alpha_B * motor_lag(vehicle)
    )
    return air_torque(state, vehicle) + damping(state, vehicle) - air_torque(later, vehicle) - damping(later, vehicle)
