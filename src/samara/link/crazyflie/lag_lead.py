"""Flying ahead of slow motors: x + T ẋ in place of x, for motors of lag T, in what is and in what is wanted alike.

Linear equations say the same of x + T ẋ, driven by a command, as of x, driven by what the motors make of it. So a controller
that does not know of the lag is shown this, of place, velocity, attitude and rates; then only the rest of the lag limits it.
"""

from samara.control.default_gains import OTHER_LAGS, Gains
from samara.control.disturbance_torque import Turned, led, motor_lag
from samara.control.geometric import drag_at
from samara.core.algebra import Vec3, rotate
from samara.physics.multirotor import wrench_of_rotors
from samara.physics.reference import Reference
from samara.physics.types import State, Vehicle

LEFT = 0.25  # of the lag: what the model may be wrong by


def state_ahead(state: State, vehicle: Vehicle, turned: Turned | None) -> State:
    """p + T v, v + T v̇, q ⊗ exp(T ω), ω + T ω̇, by the model of rotors and air; the state itself where nobody looks"""
    if turned is None:
        return state
    lag, g = motor_lag(vehicle), vehicle["gravity"].acceleration
    f_W = rotate(state.q_WB, wrench_of_rotors(state, vehicle).f_B) + drag_at(state.v_W, state, vehicle)
    a_W = f_W / vehicle.mass - Vec3(0.0, 0.0, g)
    return led(state, vehicle, turned)._replace(p_W=state.p_W + state.v_W * lag, v_W=state.v_W + a_W * lag)


def reference_ahead(there: Reference, vehicle: Vehicle, turned: Turned | None) -> Reference:
    """The same of what is wanted: p + T v, v + T a, a + T j, j + T s, ψ + T ψ̇, ψ̇ + T ψ̈"""
    if turned is None:
        return there
    lag = motor_lag(vehicle)
    return there._replace(
        p_W=there.p_W + there.v_W * lag,
        v_W=there.v_W + there.a_W * lag,
        a_W=there.a_W + there.j_W * lag,
        j_W=there.j_W + there.s_W * lag,
        yaw=there.yaw + there.yaw_rate * lag,
        yaw_rate=there.yaw_rate + there.yaw_acceleration * lag,
    )


def gains_ahead(gains: Gains, vehicle: Vehicle) -> Gains:
    """As fast as what is left of the lag allows; about z as before"""
    lag = motor_lag(vehicle)
    faster = (lag + OTHER_LAGS) / (LEFT * lag + OTHER_LAGS)
    x, y, z = gains.attitude
    return Gains(gains.position * faster, Vec3(x * faster, y * faster, z))
