"""The linear model: hover's in closed form, any other by differences, and the names of its rows and columns."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Quat, Vec3, cross, normalize, quat_exp
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.multirotor import derivative

NAMED = ("crazyflie_documented", "iris_documented", "hexarotor_tilted", "rigid_body_quadrotor")


def test_hover_in_closed_form():
    """ṗ = v,  v̇ = g (θ_y, −θ_x, 0) − D v/m + f e₃/m,  θ̇ = ω,  ω̇ = J⁻¹ (τ − d ω): the textbook's twelve states."""
    vehicle = samara.vehicle("crazyflie_documented")
    linear = samara.linearize(vehicle, states="rigid")
    g, m, J = vehicle["gravity"].acceleration, vehicle.mass, vehicle.inertia_B
    drag = np.array(vehicle["drag"].linear) / m
    turning = np.array([J.xx, J.yy, J.zz])
    A, B = np.zeros((12, 12)), np.zeros((12, 4))
    A[0:3, 3:6] = A[6:9, 9:12] = np.eye(3)
    A[3, 7], A[4, 6] = g, -g
    A[3:6, 3:6] = -np.diag(drag)
    A[9:12, 9:12] = -np.diag(np.array(vehicle["damping"].linear) / turning)
    B[5, 0], B[9:12, 1:4] = 1.0 / m, np.diag(1.0 / turning)
    assert pytest.approx(A, rel=1e-12, abs=1e-12) == linear.A
    assert pytest.approx(B, rel=1e-12, abs=1e-9) == linear.B


def perturb(state, delta):
    """x ⊕ δ: the attitude by a rotation in body axes, all other components by addition."""
    rows = np.array(flatten(state), dtype=float)
    rows[:6] += delta[:6]
    rows[10:] += delta[9:]
    other = unflatten(state, iter(rows.tolist()))
    return other._replace(q_WB=state.q_WB * quat_exp(Vec3(*delta[6:9].tolist())))


def rate(state, command, vehicle):
    """All rates; that of the attitude is ω."""
    rates = derivative(state, command, vehicle)
    return np.array(
        [*flatten((rates.p_W, rates.v_W)), *state.omega_B, *flatten((rates.omega_B, rates.rotor_speed, rates.effects))]
    )


@pytest.mark.parametrize("name", NAMED)
def test_a_tumbling_vehicle_by_differences(name):
    """Central differences of ẋ along every direction; of the attitude d(δθ)/dt = δω − ω × δθ, as its axes turn with the body.

    Off hover, where a motor with different rise and fall times has no slope, and with a battery that is not full.
    """
    vehicle = samara.vehicle(name).without_effect("contact")
    state, command = samara.hover(vehicle)
    q_WB = normalize(Quat(0.8, 0.3, -0.4, 0.2))
    command = tuple(1.03 * u for u in command)
    names = leaf_names(state)
    rows = (0.7 if names[i].endswith("charge") else leaf for i, leaf in enumerate(flatten(state)))
    state = unflatten(state, rows)._replace(q_WB=q_WB, v_W=Vec3(1.5, -0.7, 0.4), omega_B=Vec3(0.9, -1.1, 0.6))
    linear = samara.linearize(vehicle, state, command, states="all")
    size = len(linear.states)
    assert linear.A.shape == (size, size) and linear.B.shape == (size, len(linear.inputs))
    jacobian, scale = np.zeros((size, size)), np.ones(size)
    scale[12 : 12 + len(vehicle.rotors)] = 100.0  # rad/s
    for k in range(size):
        step = np.zeros(size)
        step[k] = 1e-6 * scale[k]
        ends = [rate(perturb(state, sign * step), command, vehicle) for sign in (1.0, -1.0)]
        jacobian[:, k] = (ends[0] - ends[1]) / (2e-6 * scale[k])
    for k, axis in enumerate(np.eye(3)):
        jacobian[6:9, 6 + k] -= np.array(cross(state.omega_B, Vec3(*axis)))
    assert pytest.approx(jacobian, rel=1e-5, abs=1e-5) == linear.A
    rigid = samara.linearize(vehicle, state, command)
    assert pytest.approx(linear.A[:12, :12], abs=1e-12) == rigid.A


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented"])
def test_the_command_reaches_the_body_through_the_rotors(name):
    """B of the command is ∂Ω̇/∂u alone: it accelerates rotors and draws current, and exerts no force at once."""
    vehicle = samara.vehicle(name)
    linear = samara.linearize(vehicle, states="all")
    state, command = linear.state, linear.command
    assert np.abs(linear.B[:9]).max() == 0.0
    bare = vehicle.without_effect("contact")
    for k in range(4):
        up, down = (
            derivative(state, tuple(u + s * 1e-6 * (i == k) for i, u in enumerate(command)), bare).rotor_speed
            for s in (1.0, -1.0)
        )
        assert linear.B[12:16, k] == pytest.approx((np.array(up) - np.array(down)) / 2e-6, rel=1e-5, abs=1e-4)


def test_rows_and_columns_have_names():
    linear = samara.linearize(samara.vehicle("crazyflie_documented"))
    assert linear.states[3:9] == ("v_W.x", "v_W.y", "v_W.z", "theta_B.x", "theta_B.y", "theta_B.z")
    assert linear["v_W.x", "theta_B.y"] == pytest.approx(9.81) and linear["v_W.z", "f_B.z"] == pytest.approx(1 / 0.028)
    with pytest.raises(KeyError, match=r"no 'thrust' here; there are p_W\.x, "):
        linear["v_W.z", "thrust"]
    everything = samara.linearize(samara.vehicle("crazyflie_documented"), states="all")
    assert everything.states[12:] == tuple(f"rotor_speed[{i}]" for i in range(4))
    assert everything.inputs == tuple(f"motor[{i}]" for i in range(4))
    assert samara.linearize(samara.vehicle("rigid_body_quadrotor"), states="all").inputs[0] == "thrust"
    assert "theta_B.x" in repr(linear)


def test_invalid_arguments_are_refused():
    vehicle = samara.vehicle("crazyflie_documented")
    with pytest.raises(ValueError, match="states = 'some': expected one of rigid, all"):
        samara.linearize(vehicle, states="some")
    with pytest.raises(ValueError, match="only one of state and command is given: expected both"):
        samara.linearize(vehicle, samara.hover(vehicle)[0])
