"""Allocation: what is asked for is what the rotors give, and where they cannot, yaw goes first, then lift, then the tilt."""

import itertools
import math

import casadi
import jax
import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear

import samara
from samara.control.allocation import allocation_for, command_for_wrench, least_squares_allocation, rotor_thrusts
from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import SecondOrder
from samara.physics.rotors.propulsion import SECOND_ORDER_ACTUATOR
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import effectiveness

ROTORCRAFT = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]
QUADS = [name for name in ROTORCRAFT if len(samara.vehicle(name).rotors) == 4]


def weight(vehicle):
    return vehicle.mass * vehicle["gravity"].acceleration


def effect_of(vehicle):
    """Rows lift, τx, τy, τz of one newton from each rotor: r × F and the drag torque, in NumPy."""
    columns = []
    for rotor in vehicle.rotors:
        axis = np.array(rotor.axis_B)
        torque = np.cross(rotor.r_B, axis) - rotor.spin * rotor.k_torque / rotor.k_thrust * axis
        columns.append([axis[2], *torque])
    return np.array(columns).T


def scales(vehicle):
    """A weight, and the torques of a weight at the tip of an arm and of its drag: what is large for this vehicle."""
    reach = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    drag = np.abs(effect_of(vehicle)[3]).max()
    return weight(vehicle) * np.array([1.0, reach, reach, drag])


def asked_at_random(vehicle, count, size, seed=0):
    """(4, count): a lift about the weight and torques about zero, both `size` times as wild as the vehicle's scales."""
    rng = np.random.default_rng(seed)
    wanted = size * scales(vehicle)[:, None] * rng.uniform(-1.0, 1.0, (4, count))
    wanted[0] += weight(vehicle)
    return wanted


def given(wanted, allocation):
    """The thrusts (rotors, count) for wrenches (4, count)."""
    return np.array(rotor_thrusts(wanted[0], Vec3(*wanted[1:]), allocation))


def failures(vehicle):
    """All healthy, and each rotor dead in turn."""
    count = len(vehicle.rotors)
    return [(True,) * count, *(tuple(i != dead for i in range(count)) for dead in range(count))]


# Within the limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_inside_the_limits_the_rotors_give_what_is_asked(name):
    """B T = (f, τ), with the smallest Σ T²: NumPy's pseudo-inverse of B, whose rows are r × F by another road."""
    vehicle = samara.vehicle(name)
    wanted = asked_at_random(vehicle, 500, 0.1)
    B = effect_of(vehicle)
    assert pytest.approx(effectiveness(vehicle)[2:], abs=1e-15) == B
    thrusts = given(wanted, allocation_for(vehicle))
    assert np.abs((B @ thrusts - wanted) / scales(vehicle)[:, None]).max() <= 1e-12
    assert np.abs(thrusts - np.linalg.pinv(B) @ wanted).max() <= 1e-12 * weight(vehicle)
    assert np.abs(thrusts - given(wanted, least_squares_allocation(vehicle))).max() <= 1e-12 * weight(vehicle)


@pytest.mark.parametrize("name", ROTORCRAFT)
@pytest.mark.parametrize("size", [0.5, 20.0])
def test_no_limit_is_ever_violated(name, size):
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T[:, :, None]
    wanted = asked_at_random(vehicle, 2000, size)
    for healthy in failures(vehicle):
        thrusts = given(wanted, allocation_for(vehicle, healthy))
        assert (low <= thrusts).all() and (thrusts <= high).all()
        assert (thrusts[~np.array(healthy)] == low[~np.array(healthy)]).all()  # nothing is asked of a dead rotor


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_commands_stay_within_what_a_command_can_be(name):
    vehicle = samara.vehicle(name)
    state, _ = samara.hover(vehicle)
    wanted = asked_at_random(vehicle, 500, 5.0)
    commands = np.array(command_for_wrench(wanted[0], Vec3(*wanted[1:]), state, vehicle, allocation_for(vehicle)))
    assert commands.min() >= -1e-12 and commands.max() <= 1.0 + 1e-9
    flat_out = command_for_wrench(1e3 * weight(vehicle), Vec3(0.0, 0.0, 0.0), state, vehicle, allocation_for(vehicle))
    assert flat_out == pytest.approx((1.0,) * len(vehicle.rotors), rel=1e-9)


def test_a_lag_is_limited_by_its_speeds():
    """T = kF Ω² at both ends of the Crazyflie's motors: 2.592 mN and 0.18 N"""
    for low, high in thrust_limits(samara.vehicle("crazyflie_documented")):
        assert low == pytest.approx(2.88e-8 * 300.0**2, rel=1e-15)
        assert high == pytest.approx(2.88e-8 * 2500.0**2, rel=1e-15)


def test_a_dc_motor_is_limited_by_its_battery():
    """K (V − K Ω)/R = kQ Ω²: the root of a quadratic where nothing but the air brakes it and the battery is stiff."""
    vehicle = samara.vehicle("hakoniwa")
    rotor, volts = vehicle.rotors[0], vehicle["battery"].voltage
    K, R, kQ = rotor.motor.constant, rotor.motor.resistance, rotor.k_torque
    speed = (math.sqrt(K**4 / R**2 + 4.0 * kQ * K * volts / R) - K * K / R) / (2.0 * kQ)
    assert thrust_limits(vehicle)[0] == pytest.approx((0.0, rotor.k_thrust * speed**2), rel=1e-11)


def test_the_iris_at_full_duty_ends_at_its_limit():
    """Sag, friction, no-load current and all: the motors run up from rest under full duty, and stay where the limit says."""
    vehicle = samara.vehicle("iris_documented")
    state, _ = samara.hover(vehicle)
    speeds = np.array(state.rotor_speed)
    for _ in range(1000):
        still = state._replace(rotor_speed=tuple(float(x) for x in speeds))
        rate = vehicle.structure.actuation.rotor_acceleration(still, (1.0,) * 4, vehicle, samara.CALM)
        speeds = speeds + 1e-3 * np.array(rate)
    highs = [high for _, high in thrust_limits(vehicle)]
    assert highs == pytest.approx(vehicle.rotors[0].k_thrust * speeds**2, rel=1e-9)
    assert sum(highs) / weight(vehicle) == pytest.approx(samara.thrust_to_weight(vehicle), rel=1e-9)
    behind_actuators = vehicle.with_effect(SECOND_ORDER_ACTUATOR, SecondOrder(30.0, 0.7, 10.0))
    assert thrust_limits(behind_actuators) == thrust_limits(vehicle)


# Priority ----------------------------------------------------------------------------------------------------------


def best_by_linear_programs(wanted, effect, limits):
    """The largest share of roll and pitch, then the nearest lift, then the nearest yaw, each by a linear program

    Unknowns: the thrusts, the share σ, and the distance to what is asked.
    """
    n = effect.shape[1]
    bounds = [*limits, (0.0, 1.0), (0.0, None)]
    tilt = np.column_stack([effect[1:3], -wanted[1:3], np.zeros(2)])
    found = linprog([*np.zeros(n), -1.0, 0.0], A_eq=tilt, b_eq=np.zeros(2), bounds=bounds)
    share = -found.fun
    equal, right, reached = effect[1:3], share * wanted[1:3], [share]
    for row, target in ((effect[0], wanted[0]), (effect[3], wanted[3])):
        near = np.array([[*row, 0.0, -1.0], [*-row, 0.0, -1.0]])
        both = np.column_stack([equal, np.zeros((len(equal), 2))])
        found = linprog(
            [*np.zeros(n + 1), 1.0], A_ub=near, b_ub=[target, -target], A_eq=both, b_eq=right, bounds=bounds
        )
        assert found.status == 0, found.message
        reached.append(float(row @ found.x[:n]))
        equal, right = np.vstack([equal, row]), np.append(right, reached[-1])
    return np.array(reached)


@pytest.mark.parametrize("name", QUADS)
def test_a_quad_gives_the_best_there_is_in_order_of_priority(name):
    """Against linear programs over all thrusts: a quad's four are free, and so no better answer exists than theirs."""
    vehicle = samara.vehicle(name)
    effect, limits, size = effect_of(vehicle), thrust_limits(vehicle), scales(vehicle)
    allocation = allocation_for(vehicle)
    kinds = set()
    for seed, wild in enumerate((0.3, 0.8, 3.0)):
        wanted = asked_at_random(vehicle, 12, wild, seed)
        lift, roll, pitch, yaw = effect @ given(wanted, allocation)
        for k, asked in enumerate(wanted.T):
            share, best_lift, best_yaw = best_by_linear_programs(asked, effect, limits)
            assert roll[k] == pytest.approx(share * asked[1], abs=1e-7 * size[1])
            assert pitch[k] == pytest.approx(share * asked[2], abs=1e-7 * size[2])
            assert lift[k] == pytest.approx(best_lift, abs=1e-6 * size[0])
            assert yaw[k] == pytest.approx(best_yaw, abs=1e-5 * size[3])
            kinds.add(
                (share < 0.999, abs(best_lift - asked[0]) > 1e-3 * size[0], abs(best_yaw - asked[3]) > 1e-3 * size[3])
            )
    assert {
        (False, False, True),
        (False, True, True),
        (True, True, True),
    } <= kinds  # all three ways to give way were met


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_more_rotors_give_the_best_of_their_family(name):
    """T = base (f, σ τx, σ τy) + yaw t, healthy or with a dead rotor: linear programs over f, t and σ know no better."""
    vehicle = samara.vehicle(name)
    size = scales(vehicle)
    for number, healthy in enumerate(failures(vehicle)[:3]):
        allocation = allocation_for(vehicle, healthy)
        if len(allocation.groups) < 2:
            continue  # a quad with a dead rotor has no turn to choose
        works = np.array(healthy)
        limits = np.array(thrust_limits(vehicle))[works]
        base, yaw = np.array(allocation.base)[works], np.array(allocation.yaw)[works]
        wanted = asked_at_random(vehicle, 4, 2.0, number)
        lift, roll, pitch, _ = effect_of(vehicle)[:, works] @ given(wanted, allocation)[works]
        for k, asked in enumerate(wanted.T):
            columns = np.column_stack([base[:, 0], yaw, base[:, 1:] @ asked[1:3]])
            inside = {"A_ub": np.vstack([columns, -columns]), "b_ub": np.concatenate([limits[:, 1], -limits[:, 0]])}
            free = [(None, None), (None, None)]
            share = -linprog([0.0, 0.0, -1.0], bounds=[*free, (0.0, 1.0)], **inside).fun
            ends = [
                sign * linprog([sign, 0.0, 0.0], bounds=[*free, (share,) * 2], **inside).fun for sign in (1.0, -1.0)
            ]
            assert (roll[k], pitch[k]) == pytest.approx(tuple(share * asked[1:3]), abs=1e-7 * size[1])
            assert lift[k] == pytest.approx(min(max(asked[0], ends[0]), ends[1]), abs=1e-6 * size[0])


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_yaw_is_dropped_first(name):
    """Where lift, roll and pitch fit without it, they are exact whatever yaw is asked, and yaw lies between none and all.

    Bounded least squares with the yaw row a millionth as heavy as the others finds the same for a quad.
    """
    vehicle = samara.vehicle(name)
    effect, size, limits = effect_of(vehicle), scales(vehicle), np.array(thrust_limits(vehicle)).T
    allocation = allocation_for(vehicle)
    wanted = asked_at_random(vehicle, 400, 0.1, seed=3)
    wanted[3] *= 100.0
    got = effect @ given(wanted, allocation)
    assert np.abs((got - wanted)[:3] / size[:3, None]).max() <= 1e-12
    part = got[3] / wanted[3]
    assert part.min() >= 0.0 and part.max() <= 1.0 + 1e-12 and part.min() < 0.5
    if len(vehicle.rotors) == 4:
        heavy = np.array([1.0, 1.0, 1.0, 1e-6])[:, None] / size[:, None]
        for k in range(20):
            best = lsq_linear(heavy * effect, heavy[:, 0] * wanted[:, k], tuple(limits), method="bvls", tol=1e-15)
            assert got[3, k] == pytest.approx(effect[3] @ best.x, abs=1e-4 * size[3])


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_more_yaw_never_changes_lift_roll_or_pitch(name):
    """Nor does it ever give less yaw."""
    vehicle = samara.vehicle(name)
    effect, size = effect_of(vehicle), scales(vehicle)
    wanted = np.repeat(asked_at_random(vehicle, 50, 1.0, seed=5), 9, axis=1)
    wanted[3] = np.tile(np.linspace(-20.0, 20.0, 9) * size[3], 50)
    got = (effect @ given(wanted, allocation_for(vehicle))).reshape(4, 50, 9)
    assert np.ptp(got[:3] / size[:3, None, None], axis=2).max() <= 1e-9
    assert np.diff(got[3], axis=1).min() >= -1e-9 * size[3]


# Failed rotors -----------------------------------------------------------------------------------------------------


def test_who_keeps_its_yaw():
    """Healthy vehicles do. Of those with a dead rotor only the octorotor: six cannot without the opposite one, nor three."""
    for name in ROTORCRAFT:
        vehicle = samara.vehicle(name)
        healthy, *failed = (allocation_for(vehicle, rotors).keeps_yaw for rotors in failures(vehicle))
        assert healthy and failed == [name == "octorotor_x"] * len(vehicle.rotors)


def test_a_rotor_that_may_stand_still_gives_six_less_one_no_yaw_to_steer_with():
    """The opposite rotor at rest balances the torque exactly, and has nothing to give in one direction: that is no hold."""
    vehicle = samara.vehicle("hexarotor_x").replace({"rotors.motor.speed_min": 0.0})
    assert not any(allocation_for(vehicle, healthy).keeps_yaw for healthy in failures(vehicle)[1:])


def test_rotors_without_drag_cannot_yaw():
    vehicle = samara.vehicle("hexarotor_x").replace({"rotors.k_torque": 0.0})
    assert not allocation_for(vehicle).keeps_yaw


def test_yaw_is_kept_only_where_hover_leaves_every_rotor_room():
    """Hovering with all rotors at their most, or at their least, nothing is left to turn with; 1 % off, something is."""
    vehicle = samara.vehicle("crazyflie_documented")
    low, high = thrust_limits(vehicle)[0]
    g = vehicle["gravity"].acceleration
    for end, off in ((high, 0.99), (low, 1.01)):
        assert not allocation_for(vehicle.replace(mass=4.0 * end / g)).keeps_yaw
        assert allocation_for(vehicle.replace(mass=4.0 * end / g * off)).keeps_yaw


@pytest.mark.parametrize("dead", range(6))
def test_a_hexarotor_with_a_dead_rotor_hovers_on_five_with_the_opposite_one_idle(dead):
    """Level on five rotors of a regular hexagon, x: ½(T₁ + T₅) − ½(T₂ + T₄) − T₃ = 0, so that the torque left over is 3 κ T₃

    and the least of it is had with the rotor opposite the dead one at its slowest, whose spin is the dead one's opposite.
    """
    vehicle = samara.vehicle("hexarotor_x")
    healthy = [i != dead for i in range(6)]
    allocation = allocation_for(vehicle, healthy)
    thrusts = given(np.array([[weight(vehicle)], [0.0], [0.0], [0.0]]), allocation)[:, 0]
    lift, roll, pitch, yaw = effect_of(vehicle)[:, healthy] @ thrusts[healthy]
    opposite = vehicle.rotors[(dead + 3) % 6]
    idle = opposite.k_thrust * opposite.motor.speed_min**2
    assert thrusts[(dead + 3) % 6] == pytest.approx(idle, rel=1e-12)
    assert (lift, roll, pitch) == pytest.approx((weight(vehicle), 0.0, 0.0), abs=1e-12 * weight(vehicle))
    assert yaw == pytest.approx(-3.0 * opposite.spin * opposite.k_torque / opposite.k_thrust * idle, rel=1e-9)


def test_an_octorotor_with_a_dead_rotor_still_gives_any_small_wrench_exactly():
    vehicle = samara.vehicle("octorotor_x")
    wanted = asked_at_random(vehicle, 200, 0.05)
    for healthy in failures(vehicle)[1:]:
        got = effect_of(vehicle)[:, healthy] @ given(wanted, allocation_for(vehicle, healthy))[list(healthy)]
        assert np.abs((got - wanted) / scales(vehicle)[:, None]).max() <= 1e-12


@pytest.mark.parametrize("name", ["iris_documented", "hexarotor_tilted"])
def test_whatever_is_left_is_used_within_its_limits(name):
    """Any set of rotors, down to one alone: finite thrusts, within the limits."""
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T[:, :, None]
    wanted = asked_at_random(vehicle, 50, 2.0)
    for healthy in itertools.product((False, True), repeat=len(vehicle.rotors)):
        if any(healthy):
            thrusts = given(wanted, allocation_for(vehicle, healthy))
            assert (low <= thrusts).all() and (thrusts <= high).all()


# What it is not ----------------------------------------------------------------------------------------------------


def test_a_body_driven_by_a_wrench_gets_the_wrench():
    vehicle = samara.vehicle("rigid_body_quadrotor")
    state, _ = samara.hover(vehicle)
    command = command_for_wrench(3.0, Vec3(0.1, -0.2, 0.3), state, vehicle, allocation_for(vehicle))
    assert command == (3.0, 0.1, -0.2, 0.3)


@pytest.mark.parametrize("healthy", [(True,) * 3, (False,) * 4, True])
def test_health_is_told_rotor_by_rotor(healthy):
    with pytest.raises(
        ValueError, match=r"healthy = .*: expected True or False for each of the 4 rotors of vehicle 'iris_documented'"
    ):
        allocation_for(samara.vehicle("iris_documented"), healthy)


@pytest.mark.parametrize("at", range(4))
def test_what_is_no_number_is_not_made_one(at):
    wanted = np.full((4, 1), 0.1)
    wanted[at] = math.nan
    for name in ROTORCRAFT:
        assert np.isnan(given(wanted, allocation_for(samara.vehicle(name)))).any()


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented", "hexarotor_x"])
def test_it_traces_with_finite_gradients(name):
    """The same thrusts by floats, CasADi and JAX and the same slopes, which are finite also where limits meet."""
    vehicle = samara.vehicle(name)
    healthy = failures(vehicle)[1] if name == "hexarotor_x" else None
    allocation = allocation_for(vehicle, healthy)
    low, high = allocation.lift
    points = np.array([*asked_at_random(vehicle, 6, 3.0).T, [low, 0, 0, 0], [high, 0, 0, 0], [0, 0, 0, 0]])
    x = casadi.SX.sym("x", 4)
    y = casadi.vertcat(*rotor_thrusts(x[0], Vec3(x[1], x[2], x[3]), allocation))
    traced = casadi.Function("thrusts", [x], [y, casadi.jacobian(y, x)])

    def by_jax(p):
        return jax.numpy.stack(rotor_thrusts(p[0], Vec3(p[1], p[2], p[3]), allocation))

    slopes = jax.jit(jax.vmap(jax.jacfwd(by_jax)))(points)
    for point, slope in zip(points, slopes, strict=True):
        by_casadi, slope_casadi = (np.array(own) for own in traced(point))
        assert by_casadi[:, 0] == pytest.approx(given(point[:, None], allocation)[:, 0], rel=1e-12, abs=1e-13)
        assert np.isfinite(slope).all() and np.isfinite(slope_casadi).all()
        if point[1:].any():  # off the kinks, where a slope is one of two
            assert np.array(slope) == pytest.approx(slope_casadi, rel=1e-9, abs=1e-9)
