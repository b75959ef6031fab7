"""Allocation: within limits the rotors give the desired wrench; else yaw is reduced first, then thrust, then roll and pitch."""

import itertools
import math

import casadi
import jax
import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear

import samara
from samara.control.allocation import build_allocation, command_for_wrench, least_squares_allocation, rotor_thrusts
from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import SecondOrder
from samara.physics.rotors.propulsion import SECOND_ORDER_ACTUATOR
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import effectiveness

ROTORCRAFT = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]
QUADS = [name for name in ROTORCRAFT if len(samara.vehicle(name).rotors) == 4]


def weight(vehicle):
    return vehicle.mass * vehicle["gravity"].acceleration


def wrench_matrix(vehicle):
    """Rows thrust, τx, τy, τz of one newton from each rotor: r × F and the drag torque, in NumPy."""
    columns = []
    for rotor in vehicle.rotors:
        axis = np.array(rotor.axis_B)
        torque = np.cross(rotor.r_B, axis) - rotor.spin * rotor.k_torque / rotor.k_thrust * axis
        columns.append([axis[2], *torque])
    return np.array(columns).T


def scales(vehicle):
    """Characteristic thrust and torques: the weight, the weight at the tip of an arm, and the drag torque of the weight."""
    arm_length = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    drag = np.abs(wrench_matrix(vehicle)[3]).max()
    return weight(vehicle) * np.array([1.0, arm_length, arm_length, drag])


def random_wrenches(vehicle, count, size, seed=0):
    """(4, count): thrusts about the weight and torques about zero, uniform within `size` times the vehicle's scales."""
    rng = np.random.default_rng(seed)
    wrenches = size * scales(vehicle)[:, None] * rng.uniform(-1.0, 1.0, (4, count))
    wrenches[0] += weight(vehicle)
    return wrenches


def allocate(wrenches, allocation):
    """Thrusts (rotors, count) for wrenches (4, count)"""
    return np.array(rotor_thrusts(wrenches[0], Vec3(*wrenches[1:]), allocation))


def failure_cases(vehicle):
    """All healthy, and each rotor failed in turn."""
    count = len(vehicle.rotors)
    return [(True,) * count, *(tuple(i != failed for i in range(count)) for failed in range(count))]


# Within the limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_within_the_limits_the_rotors_give_the_desired_wrench(name):
    """B T = (f, τ), with the smallest Σ T²: NumPy's pseudo-inverse of B, whose rows are computed independently."""
    vehicle = samara.vehicle(name)
    wrenches = random_wrenches(vehicle, 500, 0.1)
    B = wrench_matrix(vehicle)
    assert pytest.approx(effectiveness(vehicle)[2:], abs=1e-15) == B
    thrusts = allocate(wrenches, build_allocation(vehicle))
    assert np.abs((B @ thrusts - wrenches) / scales(vehicle)[:, None]).max() <= 1e-12
    assert np.abs(thrusts - np.linalg.pinv(B) @ wrenches).max() <= 1e-12 * weight(vehicle)
    assert np.abs(thrusts - allocate(wrenches, least_squares_allocation(vehicle))).max() <= 1e-12 * weight(vehicle)


@pytest.mark.parametrize("name", ROTORCRAFT)
@pytest.mark.parametrize("size", [0.5, 20.0])
def test_no_limit_is_ever_violated(name, size):
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T[:, :, None]
    wrenches = random_wrenches(vehicle, 2000, size)
    for healthy in failure_cases(vehicle):
        thrusts = allocate(wrenches, build_allocation(vehicle, healthy))
        assert (low <= thrusts).all() and (thrusts <= high).all()
        assert (thrusts[~np.array(healthy)] == low[~np.array(healthy)]).all()  # a failed rotor gets no demand


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_commands_stay_within_their_range(name):
    vehicle = samara.vehicle(name)
    state, _ = samara.hover(vehicle)
    wrenches = random_wrenches(vehicle, 500, 5.0)
    commands = np.array(command_for_wrench(wrenches[0], Vec3(*wrenches[1:]), state, vehicle, build_allocation(vehicle)))
    assert commands.min() >= -1e-12 and commands.max() <= 1.0 + 1e-9
    full_thrust_command = command_for_wrench(
        1e3 * weight(vehicle), Vec3(0.0, 0.0, 0.0), state, vehicle, build_allocation(vehicle)
    )
    assert full_thrust_command == pytest.approx((1.0,) * len(vehicle.rotors), rel=1e-9)


def test_a_lag_is_limited_by_its_speeds():
    """T = kF Ω² at both ends of the Crazyflie's motors: 2.592 mN and 0.18 N"""
    for low, high in thrust_limits(samara.vehicle("crazyflie_documented")):
        assert low == pytest.approx(2.88e-8 * 300.0**2, rel=1e-15)
        assert high == pytest.approx(2.88e-8 * 2500.0**2, rel=1e-15)


def test_a_dc_motor_is_limited_by_its_battery():
    """K (V − K Ω)/R = kQ Ω²: the root of a quadratic without friction and with a stiff battery."""
    vehicle = samara.vehicle("hakoniwa")
    rotor, volts = vehicle.rotors[0], vehicle["battery"].voltage
    K, R, kQ = rotor.motor.constant, rotor.motor.resistance, rotor.k_torque
    speed = (math.sqrt(K**4 / R**2 + 4.0 * kQ * K * volts / R) - K * K / R) / (2.0 * kQ)
    assert thrust_limits(vehicle)[0] == pytest.approx((0.0, rotor.k_thrust * speed**2), rel=1e-11)


def test_the_iris_at_full_duty_ends_at_its_limit():
    """With sag, friction and no-load current: the motors, run up under full duty, settle at the limit."""
    vehicle = samara.vehicle("iris_documented")
    state, _ = samara.hover(vehicle)
    speeds = np.array(state.rotor_speed)
    for _ in range(1000):
        rotor_state = state._replace(rotor_speed=tuple(float(x) for x in speeds))
        rate = vehicle.structure.actuation.rotor_acceleration(rotor_state, (1.0,) * 4, vehicle, samara.CALM)
        speeds = speeds + 1e-3 * np.array(rate)
    highs = [high for _, high in thrust_limits(vehicle)]
    assert highs == pytest.approx(vehicle.rotors[0].k_thrust * speeds**2, rel=1e-9)
    assert sum(highs) / weight(vehicle) == pytest.approx(samara.thrust_to_weight(vehicle), rel=1e-9)
    behind_actuators = vehicle.with_effect(SECOND_ORDER_ACTUATOR, SecondOrder(30.0, 0.7, 10.0))
    assert thrust_limits(behind_actuators) == thrust_limits(vehicle)


# Priority ----------------------------------------------------------------------------------------------------------


def solve_linear_programs(wrench, effect, limits):
    """The largest fraction of roll and pitch, then the nearest thrust, then the nearest yaw, each by a linear program

    Unknowns: the thrusts, the fraction σ, and the distance to the desired value.
    """
    n = effect.shape[1]
    bounds = [*limits, (0.0, 1.0), (0.0, None)]
    tilt = np.column_stack([effect[1:3], -wrench[1:3], np.zeros(2)])
    solution = linprog([*np.zeros(n), -1.0, 0.0], A_eq=tilt, b_eq=np.zeros(2), bounds=bounds)
    fraction = -solution.fun
    equal, right, optimum = effect[1:3], fraction * wrench[1:3], [fraction]
    for row, target in ((effect[0], wrench[0]), (effect[3], wrench[3])):
        inequality = np.array([[*row, 0.0, -1.0], [*-row, 0.0, -1.0]])
        equality = np.column_stack([equal, np.zeros((len(equal), 2))])
        solution = linprog(
            [*np.zeros(n + 1), 1.0], A_ub=inequality, b_ub=[target, -target], A_eq=equality, b_eq=right, bounds=bounds
        )
        assert solution.status == 0, solution.message
        optimum.append(float(row @ solution.x[:n]))
        equal, right = np.vstack([equal, row]), np.append(right, optimum[-1])
    return np.array(optimum)


@pytest.mark.parametrize("name", QUADS)
def test_a_quadrotor_gives_the_optimum_in_order_of_priority(name):
    """Against linear programs over all thrusts: the four of a quadrotor are free, so the programs give the optimum."""
    vehicle = samara.vehicle(name)
    effect, limits, size = wrench_matrix(vehicle), thrust_limits(vehicle), scales(vehicle)
    allocation = build_allocation(vehicle)
    kinds = set()
    for seed, magnitude in enumerate((0.3, 0.8, 3.0)):
        wrenches = random_wrenches(vehicle, 12, magnitude, seed)
        thrust, roll, pitch, yaw = effect @ allocate(wrenches, allocation)
        for k, wrench in enumerate(wrenches.T):
            fraction, best_thrust, best_yaw = solve_linear_programs(wrench, effect, limits)
            assert roll[k] == pytest.approx(fraction * wrench[1], abs=1e-7 * size[1])
            assert pitch[k] == pytest.approx(fraction * wrench[2], abs=1e-7 * size[2])
            assert thrust[k] == pytest.approx(best_thrust, abs=1e-6 * size[0])
            assert yaw[k] == pytest.approx(best_yaw, abs=1e-5 * size[3])
            kinds.add(
                (
                    fraction < 0.999,
                    abs(best_thrust - wrench[0]) > 1e-3 * size[0],
                    abs(best_yaw - wrench[3]) > 1e-3 * size[3],
                )
            )
    assert {
        (False, False, True),
        (False, True, True),
        (True, True, True),
    } <= kinds  # all three reductions occurred


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_more_rotors_give_the_best_of_their_family(name):
    """T = base (f, σ τx, σ τy) + yaw t, healthy or with a failed rotor: linear programs over f, t and σ find nothing better."""
    vehicle = samara.vehicle(name)
    size = scales(vehicle)
    for seed, healthy in enumerate(failure_cases(vehicle)[:3]):
        allocation = build_allocation(vehicle, healthy)
        if len(allocation.groups) < 2:
            continue  # a quadrotor with a failed rotor has no yaw to choose
        is_healthy = np.array(healthy)
        limits = np.array(thrust_limits(vehicle))[is_healthy]
        base, yaw = np.array(allocation.base)[is_healthy], np.array(allocation.yaw)[is_healthy]
        wrenches = random_wrenches(vehicle, 4, 2.0, seed)
        thrust, roll, pitch, _ = wrench_matrix(vehicle)[:, is_healthy] @ allocate(wrenches, allocation)[is_healthy]
        for k, wrench in enumerate(wrenches.T):
            columns = np.column_stack([base[:, 0], yaw, base[:, 1:] @ wrench[1:3]])
            constraints = {
                "A_ub": np.vstack([columns, -columns]),
                "b_ub": np.concatenate([limits[:, 1], -limits[:, 0]]),
            }
            free = [(None, None), (None, None)]
            fraction = -linprog([0.0, 0.0, -1.0], bounds=[*free, (0.0, 1.0)], **constraints).fun
            thrust_bounds = [
                sign * linprog([sign, 0.0, 0.0], bounds=[*free, (fraction,) * 2], **constraints).fun
                for sign in (1.0, -1.0)
            ]
            assert (roll[k], pitch[k]) == pytest.approx(tuple(fraction * wrench[1:3]), abs=1e-7 * size[1])
            assert thrust[k] == pytest.approx(
                min(max(wrench[0], thrust_bounds[0]), thrust_bounds[1]), abs=1e-6 * size[0]
            )


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_yaw_is_dropped_first(name):
    """If thrust, roll and pitch are feasible without yaw, they are exact for any desired yaw, and yaw lies between 0 and it.

    Bounded least squares with the yaw row a millionth as heavy as the others finds the same for a quadrotor.
    """
    vehicle = samara.vehicle(name)
    effect, size, limits = wrench_matrix(vehicle), scales(vehicle), np.array(thrust_limits(vehicle)).T
    allocation = build_allocation(vehicle)
    wrenches = random_wrenches(vehicle, 400, 0.1, seed=3)
    wrenches[3] *= 100.0
    result = effect @ allocate(wrenches, allocation)
    assert np.abs((result - wrenches)[:3] / size[:3, None]).max() <= 1e-12
    fraction = result[3] / wrenches[3]
    assert fraction.min() >= 0.0 and fraction.max() <= 1.0 + 1e-12 and fraction.min() < 0.5
    if len(vehicle.rotors) == 4:
        row_weights = np.array([1.0, 1.0, 1.0, 1e-6])[:, None] / size[:, None]
        for k in range(20):
            best = lsq_linear(
                row_weights * effect, row_weights[:, 0] * wrenches[:, k], tuple(limits), method="bvls", tol=1e-15
            )
            assert result[3, k] == pytest.approx(effect[3] @ best.x, abs=1e-4 * size[3])


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_more_yaw_never_changes_lift_roll_or_pitch(name):
    """Nor does it ever give less yaw."""
    vehicle = samara.vehicle(name)
    effect, size = wrench_matrix(vehicle), scales(vehicle)
    wrenches = np.repeat(random_wrenches(vehicle, 50, 1.0, seed=5), 9, axis=1)
    wrenches[3] = np.tile(np.linspace(-20.0, 20.0, 9) * size[3], 50)
    result = (effect @ allocate(wrenches, build_allocation(vehicle))).reshape(4, 50, 9)
    assert np.ptp(result[:3] / size[:3, None, None], axis=2).max() <= 1e-9
    assert np.diff(result[3], axis=1).min() >= -1e-9 * size[3]


# Failed rotors -----------------------------------------------------------------------------------------------------


def test_which_vehicles_control_yaw():
    """Healthy vehicles control yaw. With a failed rotor only the octorotor does: six rotors cannot without the opposite one."""
    for name in ROTORCRAFT:
        vehicle = samara.vehicle(name)
        healthy, *failed = (build_allocation(vehicle, rotors).controls_yaw for rotors in failure_cases(vehicle))
        assert healthy and failed == [name == "octorotor_x"] * len(vehicle.rotors)


def test_a_hexarotor_with_a_failed_rotor_does_not_control_yaw_even_if_rotors_may_stop():
    """The opposite rotor at rest balances the torque exactly, but has no margin in one direction: yaw is not controlled."""
    vehicle = samara.vehicle("hexarotor_x").replace({"rotors.motor.speed_min": 0.0})
    assert not any(build_allocation(vehicle, healthy).controls_yaw for healthy in failure_cases(vehicle)[1:])


def test_rotors_without_drag_cannot_yaw():
    vehicle = samara.vehicle("hexarotor_x").replace({"rotors.k_torque": 0.0})
    assert not build_allocation(vehicle).controls_yaw


def test_yaw_is_controlled_only_if_hover_leaves_every_rotor_a_margin():
    """In hover with all rotors at a limit the yaw authority is zero; 1 % off, it is not."""
    vehicle = samara.vehicle("crazyflie_documented")
    low, high = thrust_limits(vehicle)[0]
    g = vehicle["gravity"].acceleration
    for limit, factor in ((high, 0.99), (low, 1.01)):
        assert not build_allocation(vehicle.replace(mass=4.0 * limit / g)).controls_yaw
        assert build_allocation(vehicle.replace(mass=4.0 * limit / g * factor)).controls_yaw


@pytest.mark.parametrize("failed", range(6))
def test_a_hexarotor_with_a_dead_rotor_hovers_on_five_with_the_opposite_one_idle(failed):
    """Level on five rotors of a regular hexagon, x: ½(T₁ + T₅) − ½(T₂ + T₄) − T₃ = 0, so that the remaining torque is 3 κ T₃

    and is smallest with the rotor opposite the failed one at its minimum, whose spin is opposite to the failed one's.
    """
    vehicle = samara.vehicle("hexarotor_x")
    healthy = [i != failed for i in range(6)]
    allocation = build_allocation(vehicle, healthy)
    thrusts = allocate(np.array([[weight(vehicle)], [0.0], [0.0], [0.0]]), allocation)[:, 0]
    thrust, roll, pitch, yaw = wrench_matrix(vehicle)[:, healthy] @ thrusts[healthy]
    opposite = vehicle.rotors[(failed + 3) % 6]
    min_thrust = opposite.k_thrust * opposite.motor.speed_min**2
    assert thrusts[(failed + 3) % 6] == pytest.approx(min_thrust, rel=1e-12)
    assert (thrust, roll, pitch) == pytest.approx((weight(vehicle), 0.0, 0.0), abs=1e-12 * weight(vehicle))
    assert yaw == pytest.approx(-3.0 * opposite.spin * opposite.k_torque / opposite.k_thrust * min_thrust, rel=1e-9)


def test_an_octorotor_with_a_dead_rotor_still_gives_any_small_wrench_exactly():
    vehicle = samara.vehicle("octorotor_x")
    wrenches = random_wrenches(vehicle, 200, 0.05)
    for healthy in failure_cases(vehicle)[1:]:
        result = (
            wrench_matrix(vehicle)[:, healthy] @ allocate(wrenches, build_allocation(vehicle, healthy))[list(healthy)]
        )
        assert np.abs((result - wrenches) / scales(vehicle)[:, None]).max() <= 1e-12


@pytest.mark.parametrize("name", ["iris_documented", "hexarotor_tilted"])
def test_any_set_of_working_rotors_stays_within_its_limits(name):
    """Any set of rotors, down to a single one: finite thrusts, within the limits."""
    vehicle = samara.vehicle(name)
    low, high = np.array(thrust_limits(vehicle)).T[:, :, None]
    wrenches = random_wrenches(vehicle, 50, 2.0)
    for healthy in itertools.product((False, True), repeat=len(vehicle.rotors)):
        if any(healthy):
            thrusts = allocate(wrenches, build_allocation(vehicle, healthy))
            assert (low <= thrusts).all() and (thrusts <= high).all()


# Interfaces --------------------------------------------------------------------------------------------------------


def test_a_body_driven_by_a_wrench_gets_the_wrench():
    vehicle = samara.vehicle("rigid_body_quadrotor")
    state, _ = samara.hover(vehicle)
    command = command_for_wrench(3.0, Vec3(0.1, -0.2, 0.3), state, vehicle, build_allocation(vehicle))
    assert command == (3.0, 0.1, -0.2, 0.3)


@pytest.mark.parametrize("healthy", [(True,) * 3, (False,) * 4, True])
def test_healthy_has_one_entry_per_rotor(healthy):
    with pytest.raises(
        ValueError, match=r"healthy = .*: expected True or False for each of the 4 rotors of vehicle 'iris_documented'"
    ):
        build_allocation(samara.vehicle("iris_documented"), healthy)


@pytest.mark.parametrize("component", range(4))
def test_nan_is_not_hidden(component):
    wrench = np.full((4, 1), 0.1)
    wrench[component] = math.nan
    for name in ROTORCRAFT:
        assert np.isnan(allocate(wrench, build_allocation(samara.vehicle(name)))).any()


@pytest.mark.parametrize("name", ["crazyflie_documented", "iris_documented", "hexarotor_x"])
def test_it_traces_with_finite_gradients(name):
    """Floats, CasADi and JAX give the same thrusts and the same derivatives, which are finite also at limits."""
    vehicle = samara.vehicle(name)
    healthy = failure_cases(vehicle)[1] if name == "hexarotor_x" else None
    allocation = build_allocation(vehicle, healthy)
    low, high = allocation.thrust_range
    points = np.array([*random_wrenches(vehicle, 6, 3.0).T, [low, 0, 0, 0], [high, 0, 0, 0], [0, 0, 0, 0]])
    x = casadi.SX.sym("x", 4)
    y = casadi.vertcat(*rotor_thrusts(x[0], Vec3(x[1], x[2], x[3]), allocation))
    traced = casadi.Function("thrusts", [x], [y, casadi.jacobian(y, x)])

    def thrusts_by_jax(p):
        return jax.numpy.stack(rotor_thrusts(p[0], Vec3(p[1], p[2], p[3]), allocation))

    jacobians = jax.jit(jax.vmap(jax.jacfwd(thrusts_by_jax)))(points)
    for point, jacobian in zip(points, jacobians, strict=True):
        thrusts_by_casadi, jacobian_by_casadi = (np.array(output) for output in traced(point))
        assert thrusts_by_casadi[:, 0] == pytest.approx(
            allocate(point[:, None], allocation)[:, 0], rel=1e-12, abs=1e-13
        )
        assert np.isfinite(jacobian).all() and np.isfinite(jacobian_by_casadi).all()
        if point[1:].any():  # off the kinks, where the derivative is not unique
            assert np.array(jacobian) == pytest.approx(jacobian_by_casadi, rel=1e-9, abs=1e-9)
