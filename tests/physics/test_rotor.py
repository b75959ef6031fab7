"""Rotor laws. Each test computes its expected value by a different method than the code."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traced_flights import free_body, make_rotor, rotation, world_angular_momentum

import samara
from samara import Environment, Wrench
from samara.core.algebra import UP, Vec3, diagonal, quat_from_euler
from samara.core.integrate import rk45
from samara.physics.air.atmosphere import air_density
from samara.physics.effect import add_wrenches
from samara.physics.frames import flu_from_frd, frd_from_flu, wrench_ned_frd_from_enu_flu
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.rotor import (
    Rotor,
    RotorLoad,
    axial_speed,
    inflow_factor,
    inflow_factor_signed,
    rotor_angular_momentum,
    rotor_load,
    rotor_momentum_torque,
    rotor_wrench,
)
from samara.vehicles.build import with_effects
from samara.vehicles.trim import effectiveness

WITH_ROTORS = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]
FIRMWARE_ORDER = {
    "crazyflie_documented": (3, 0, 1, 2),
    "crazyflie": (0, 1, 2, 3),
}  # our rotor i is the firmware's m(j+1)


# One rotor ---------------------------------------------------------------------------------------------------------


def test_a_clockwise_rotor_turns_the_body_counter_clockwise():
    """Newton's third law. The air drags clockwise blades counter-clockwise, and the hub transmits that to the body."""
    clockwise = make_rotor(spin=-1)
    assert rotor_wrench(rotor_load(900.0, clockwise), clockwise).tau_B.z > 0


@given(speed=st.floats(1, 3000), along=st.floats(-1, 1), shift=st.tuples(*[st.floats(-1, 1)] * 3))
def test_a_force_may_slide_along_its_line_of_action(speed, along, shift):
    """Moving the hub along the thrust axis changes no torque; moving it anywhere adds shift × F."""
    rotor = make_rotor(tilt=0.3)
    load = rotor_load(speed, rotor)
    f_B, tau_B, _ = rotor_wrench(load, rotor)
    slid = rotor_wrench(load, rotor._replace(r_B=rotor.r_B + rotor.axis_B * along))
    moved = rotor_wrench(load, rotor._replace(r_B=rotor.r_B + Vec3(*shift)))
    rounding = 4e-16 * load.thrust
    assert np.array(slid.tau_B) == pytest.approx(np.array(tau_B), rel=1e-13, abs=rounding)
    assert np.array(moved.tau_B) - np.array(tau_B) == pytest.approx(np.cross(shift, f_B), rel=1e-13, abs=rounding)


@given(speed=st.floats(1, 3000), factor=st.floats(0.2, 2.0))
def test_twice_the_speed_is_four_times_the_thrust_and_torque(speed, factor):
    """T ∝ Ω², Q ∝ Ω², so their ratio is a length that neither speed nor air can change."""
    rotor = make_rotor()
    slow, fast = rotor_load(speed, rotor, factor), rotor_load(2.0 * speed, rotor, factor)
    assert np.array(fast) == pytest.approx(4.0 * np.array(slow), rel=1e-15)
    assert slow.torque / slow.thrust == pytest.approx(1.8e-7 / 1.1e-5, rel=1e-14)


@given(turn=st.tuples(*[st.floats(-3, 3)] * 3), speed=st.floats(1, 3000))
def test_turning_the_rotor_turns_its_wrench(turn, speed):
    """Isotropy: a rotor mounted in a turned frame gives the turned force, torque and angular momentum."""
    rotor = make_rotor(tilt=0.4, spin=-1)
    rotated = rotation(quat_from_euler(*turn))
    mounted = rotor._replace(r_B=Vec3(*rotated.apply(rotor.r_B)), axis_B=Vec3(*rotated.apply(rotor.axis_B)))
    before, after = (rotor_wrench(rotor_load(speed, variant), variant) for variant in (rotor, mounted))
    size = rotor_load(speed, rotor).thrust
    assert np.array(after.f_B) == pytest.approx(rotated.apply(before.f_B), abs=1e-15 * size)
    assert np.array(after.tau_B) == pytest.approx(rotated.apply(before.tau_B), abs=1e-15 * size)
    h_B = np.array(rotor_angular_momentum(speed, mounted))
    assert h_B == pytest.approx(rotated.apply(rotor_angular_momentum(speed, rotor)), abs=1e-15 * rotor.inertia * speed)


# Signs: numbering, spin, firmware ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIRMWARE_ORDER)
def test_each_motor_alone_rolls_pitches_and_yaws_as_its_corner_says(name):
    """Inside, +roll is right side down, +pitch nose down, +yaw counter-clockwise (errata of the Crazyflie engine document).

    A front motor lifts the nose: −pitch. A left motor lifts the left side: +roll. A clockwise rotor yaws the body
    counter-clockwise: +yaw. Front right and back left turn counter-clockwise.
    """
    corners = {"m1": (-1, -1, -1), "m2": (-1, +1, +1), "m3": (+1, +1, -1), "m4": (+1, -1, +1)}  # FR, BR, BL, FL
    vehicle = samara.vehicle(name)
    state = state_at_rest(vehicle)
    for at, motor in enumerate(FIRMWARE_ORDER[name]):
        single_rotor = state._replace(rotor_speed=tuple(1500.0 if i == at else 0.0 for i in range(4)))
        tau_B = samara.wrench_breakdown(single_rotor, (0.0,) * 4, vehicle)["rotors"].tau_B
        assert tuple(math.copysign(1, component) for component in tau_B) == corners[f"m{motor + 1}"]


@pytest.mark.parametrize("name", FIRMWARE_ORDER)
def test_the_crazyflie_firmware_allocates_what_our_rotors_produce(name):
    """The firmware's force-torque power distribution, followed by Samara's rotors, gives the requested thrust and torque.

    It is written for torques in N·m about forward, left and up axes (its legacy mode, with another pitch sign, is not):
    F_m = ¼ (T ± τx/l ± τy/l ± τz/κ), l = arm/√2 and κ = kM/kF, with the signs of the rows below.
    """
    signs = np.array([[1, -1, -1, -1], [1, -1, +1, +1], [1, +1, +1, -1], [1, +1, -1, +1]])
    vehicle = samara.vehicle(name)
    kappa = vehicle.rotors[0].k_torque / vehicle.rotors[0].k_thrust
    arm = 0.046 / math.sqrt(2.0)
    firmware = signs * 0.25 / np.array([1.0, arm, arm, kappa])
    samara_effectiveness = effectiveness(vehicle)[2:]  # thrust, roll, pitch, yaw
    assert samara_effectiveness @ firmware[list(FIRMWARE_ORDER[name])] == pytest.approx(np.eye(4), abs=1e-15)


def test_more_left_thrust_rolls_right_and_more_front_thrust_pitches_the_nose_up():
    """The side with more thrust goes up (errata: the Crazyflie engine rolls left)."""
    vehicle = samara.vehicle("crazyflie_documented")
    hovering, command = samara.hover(vehicle)
    for stronger, lifted_B in (((0, 3), Vec3(0.0, 1.0, 0.0)), ((0, 1), Vec3(1.0, 0.0, 0.0))):
        pushed = tuple(u + 0.01 * (i in stronger) for i, u in enumerate(command))
        state = hovering
        for _ in range(20):
            state = samara.step(state, pushed, vehicle, 0.005)
        assert rotation(state.q_WB).apply(lifted_B)[2] > 1e-3


def test_a_clockwise_pair_turns_the_nose_counter_clockwise():
    """Speeding up the clockwise pair yaws the nose left (Newton's third law; "Bug #2" of the Crazyflie engine)."""
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle)
    pushed = tuple(u + 0.01 * rotor.spin * -1 for u, rotor in zip(command, vehicle.rotors, strict=True))
    for _ in range(20):
        state = samara.step(state, pushed, vehicle, 0.005)
    nose_W = rotation(state.q_WB).apply([1.0, 0.0, 0.0])
    assert nose_W[1] > 1e-3


def test_crazyflie_engine_corners_are_where_the_picture_shows_them():
    """0 front left, 1 front right, 2 back right, 3 back left at 46 mm: 45°, −45°, −135°, 135° from the nose (errata)."""
    vehicle = samara.vehicle("crazyflie_documented")
    azimuths = [math.degrees(math.atan2(rotor.r_B.y, rotor.r_B.x)) for rotor in vehicle.rotors]
    assert azimuths == pytest.approx([45.0, -45.0, -135.0, 135.0], abs=1e-12)
    assert [math.hypot(*rotor.r_B) for rotor in vehicle.rotors] == pytest.approx([0.046] * 4, rel=1e-15)
    assert [rotor.spin for rotor in vehicle.rotors] == [-1, 1, -1, 1]


def test_crazyflie_engine_torques_with_the_signs_geometry_gives_them():
    """u = (.6, .5, .5, .5), steady at 1620 and 1400 rad/s: |τx| = |τy| = 6.2239e-4, |τz| = 4.8103e-4 N·m, (+, −, +)."""
    vehicle = samara.vehicle("crazyflie_documented")
    command = (0.6, 0.5, 0.5, 0.5)
    state, _ = samara.hover(vehicle)
    for _ in range(60):  # forty time constants of the motors
        state = samara.step(state, command, vehicle, 0.01)
    assert state.rotor_speed == pytest.approx((1620.0, 1400.0, 1400.0, 1400.0), rel=1e-12)
    tau_B = samara.wrench_breakdown(state, command, vehicle)["rotors"].tau_B
    assert tau_B == pytest.approx((6.2239e-4, -6.2239e-4, 4.8103e-4), rel=1e-5)


def test_crazyflie_engine_hovers_at_1544_not_1633_rad_per_second():
    """√(mg / 4kF) = 1544.142 rad/s, which between 300 and 2500 rad/s is u = 0.565519 (errata)."""
    state, command = samara.hover(samara.vehicle("crazyflie_documented"))
    assert state.rotor_speed == pytest.approx((1544.142,) * 4, abs=5e-4)
    assert command == pytest.approx((0.565519,) * 4, abs=5e-7)
    assert state.rotor_speed == pytest.approx((math.sqrt(0.028 * 9.81 / (4 * 2.88e-8)),) * 4, rel=1e-14)


# All rotors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_ROTORS)
def test_n_rotors_push_as_the_direct_sum_of_r_cross_f(name):
    """F = Σ Tᵢaᵢ,  τ = Σ rᵢ × Tᵢaᵢ − sᵢQᵢaᵢ, summed by NumPy over arrays, in still and in moving air."""
    vehicle = with_effects(samara.vehicle(name), {"thrust_curve": False})
    rng = np.random.default_rng(2)
    r_B, axis_B = (np.array([getattr(rotor, field) for rotor in vehicle.rotors]) for field in ("r_B", "axis_B"))
    spin, k_thrust, k_torque, radius = (
        np.array([getattr(rotor, field) for rotor in vehicle.rotors])
        for field in ("spin", "k_thrust", "k_torque", "radius")
    )
    for v_W, wind_W, density in (
        (np.zeros(3), np.zeros(3), 1.225),
        (rng.normal(size=3), rng.normal(size=3), 1.0),
    ):
        speed = rng.uniform(200.0, 900.0, len(r_B))
        attitude = quat_from_euler(*rng.uniform(-1.0, 1.0, 3).tolist())
        state = state_at_rest(vehicle, q_WB=attitude)._replace(v_W=Vec3(*v_W), rotor_speed=tuple(speed))
        environment = Environment(wind_W=Vec3(*wind_W), air_density=density)
        actual = samara.wrench_breakdown(state, (0.5,) * len(r_B), vehicle, environment)["rotors"]

        square = density / 1.225 * speed**2
        if vehicle.structure.inflow is not None:  # the NED simulator's factor, on the iris
            v_axial = axis_B @ rotation(attitude).inv().apply(wind_W - v_W)
            square = square / (1.0 + 8.0 * (v_axial / (speed * radius)) ** 2)
        thrust, torque = k_thrust * square, k_torque * square
        f_B = thrust[:, None] * axis_B
        tau_B = (np.cross(r_B, f_B) - (spin * torque)[:, None] * axis_B).sum(axis=0)
        assert np.array(actual.f_B) == pytest.approx(f_B.sum(axis=0), rel=1e-14, abs=1e-14 * thrust.sum())
        assert np.array(actual.tau_B) == pytest.approx(tau_B, rel=1e-13, abs=1e-14 * thrust.sum())


@pytest.mark.parametrize("spins", [(1,), (-1,), (1, -1, 1)])
def test_spinning_up_in_free_space_conserves_angular_momentum(spins):
    """No air, no gravity: the body loses the angular momentum that the rotors gain, for every tumbling motion."""
    rotors = tuple(
        make_rotor(tilt=0.5 * i - 0.3, spin=spin, r_B=Vec3(0.1 * i, 0.2, 0.0), inertia=2e-4 * (i + 1))
        for i, spin in enumerate(spins)
    )
    vehicle = free_body(rotors)
    state = state_at_rest(vehicle)._replace(omega_B=Vec3(3.0, -2.0, 5.0))
    command = tuple(1500.0 - 300.0 * i for i in range(len(rotors)))
    L0 = world_angular_momentum(state, vehicle)
    for _ in range(10):
        state = rk45(lambda s: derivative(s, command, vehicle), state, 0.1, rtol=1e-12, atol=1e-13)
    L1 = world_angular_momentum(state, vehicle)
    assert state.rotor_speed == pytest.approx(command, rel=1e-8)  # twenty time constants: they did spin up
    assert np.linalg.norm(np.array(state.omega_B) - (3.0, -2.0, 5.0)) > 1.0  # and the body felt it
    assert np.linalg.norm(L1 - L0) < 1e-10 * np.linalg.norm(L0)


def test_a_spinning_rotor_makes_the_body_precess():
    """A fast top pushed by τ about x, spinning about z, turns about y at Ω = τ / h: it yields sideways."""
    rotor = make_rotor(r_B=Vec3(0.0, 0.0, 0.0), inertia=2e-3)
    vehicle = free_body((rotor,)).replace(inertia_B=diagonal(Vec3(1e-2, 1e-2, 1e-2)))
    speed = 2000.0
    h = rotor.inertia * speed
    omega_B = Vec3(0.0, 0.7, 0.0)
    torque = rotor_momentum_torque(omega_B, speed, 0.0, rotor)
    # steady precession at ω needs an external torque ω × h; the rotor reacts with the opposite
    assert np.array(torque) == pytest.approx(-np.cross(omega_B, [0.0, 0.0, h]), rel=1e-15)
    driven_vehicle = vehicle.with_effect(samara.Effect("push", wrench=lambda *_: Wrench(tau_B=Vec3(0.7 * h, 0.0, 0.0))))
    state = state_at_rest(driven_vehicle)._replace(omega_B=omega_B, rotor_speed=(speed,))
    assert np.array(derivative(state, (speed,), driven_vehicle).omega_B) == pytest.approx(np.zeros(3), abs=1e-12)


# The NED simulator, forward-right-down -------------------------------------------------------------------------------


def ned_simulator_rotor(r_frd=(0.0, 0.0, 0.0), axis_frd=(0.0, 0.0, 1.0), direction=1, inertia=0.0):
    """The NED simulator's rotor in Samara's frame: F = −T axis_b, so the axis is −axis_b; its dir is the spin."""
    axis_B = -flu_from_frd(Vec3(*axis_frd))
    return Rotor(flu_from_frd(Vec3(*r_frd)), axis_B, direction, k_thrust=1.0, k_torque=1.0, inertia=inertia)


def test_ned_simulator_wrench_case():
    """(1,0,0) axis z, T 2, Q .5 and (0,1,0) axis y, T 3, Q .2 give F (0, −3, −2), τ (0, 2.2, .5)."""
    first = ned_simulator_rotor((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    second = ned_simulator_rotor((0.0, 1.0, 0.0), (0.0, 1.0, 0.0))
    total = add_wrenches(rotor_wrench(RotorLoad(2.0, 0.5), first), rotor_wrench(RotorLoad(3.0, 0.2), second))
    frd = wrench_ned_frd_from_enu_flu(total)
    assert frd.f_B == pytest.approx((0.0, -3.0, -2.0), abs=1e-15)
    assert frd.tau_B == pytest.approx((0.0, 2.2, 0.5), abs=1e-15)


def test_ned_simulator_gyroscopic_case():
    """J .01, Ω 200, ω (1,0,0), axis z, dir +1, unit inertia: α (0, −2, 0)."""
    rotor = ned_simulator_rotor(inertia=0.01)
    omega_B = flu_from_frd(Vec3(1.0, 0.0, 0.0))
    tau_B = rotor_momentum_torque(omega_B, 200.0, 0.0, rotor)
    alpha_B = angular_acceleration(omega_B, tau_B, inertia_B=diagonal(Vec3(1.0, 1.0, 1.0)))
    assert frd_from_flu(alpha_B) == pytest.approx((0.0, -2.0, 0.0), abs=1e-15)


def test_ned_simulator_spin_up_case():
    """J .01, Ω̇ 100, axis z, dir +1, Izz .2: +5 rad/s²."""
    rotor = ned_simulator_rotor(inertia=0.01)
    tau_B = rotor_momentum_torque(Vec3(0.0, 0.0, 0.0), 0.0, 100.0, rotor)
    alpha_B = angular_acceleration(Vec3(0.0, 0.0, 0.0), tau_B, inertia_B=diagonal(Vec3(0.1, 0.15, 0.2)))
    assert frd_from_flu(alpha_B) == pytest.approx((0.0, 0.0, 5.0), abs=1e-15)


# Inflow and density ------------------------------------------------------------------------------------------------


def test_air_along_the_thrust_is_positive_as_in_a_descent():
    """The NED simulator: V_ax = −v_air · axis_b, positive when the air blows along the thrust."""
    rotor = ned_simulator_rotor()
    sinking_B = Vec3(0.0, 0.0, 3.0)  # the air comes from below
    assert axial_speed(sinking_B, rotor) == 3.0
    tilted = ned_simulator_rotor(axis_frd=(0.6, 0.0, 0.8))
    v_air_frd = np.array([1.0, -2.0, 0.5])
    assert axial_speed(flu_from_frd(Vec3(*v_air_frd)), tilted) == pytest.approx(-v_air_frd @ [0.6, 0.0, 0.8], rel=1e-15)


@given(v_axial=st.floats(0.0, 10.0), speed=st.floats(100.0, 3000.0))
def test_ned_simulator_inflow_cuts_climb_and_descent_alike_and_the_signed_one_tells_them_apart(v_axial, speed):
    """f = 1/(1 + 8μ²) is even in V; the signed one is its odd continuation about 1: f(V) + f(−V) = 2."""
    radius = 0.127
    mu = v_axial / (speed * radius)
    climb, descent = (inflow_factor(v, speed, radius) for v in (-v_axial, v_axial))
    assert climb == descent == pytest.approx(1.0 / (1.0 + 8.0 * mu**2), rel=1e-15)
    signed_climb, signed_descent = (inflow_factor_signed(v, speed, radius) for v in (-v_axial, v_axial))
    assert signed_climb == climb
    assert signed_climb + signed_descent == 2.0
    assert signed_descent >= 1.0 >= signed_climb


def test_inflow_halves_the_thrust_where_the_advance_ratio_is_one_over_root_eight():
    """8 μ² = 1"""
    assert inflow_factor(254.0 * 0.5 / math.sqrt(8.0), 1000.0, 0.127) == pytest.approx(0.5, rel=1e-15)


def test_a_standing_rotor_meets_no_inflow_singularity():
    """Ω = 0: no thrust for any factor, and the factor stays finite."""
    assert inflow_factor(5.0, 0.0, 0.127) == 1.0
    assert inflow_factor_signed(5.0, 0.0, 0.127) == 1.0


@pytest.mark.parametrize("climb_rate", [-4.0, 4.0])
def test_the_iris_loses_thrust_to_its_own_climb_as_much_as_to_wind_from_above(climb_rate):
    """Only the motion relative to the air counts: climbing in still air is hovering in falling air."""
    vehicle = samara.vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    moving = state._replace(v_W=UP * climb_rate)
    in_wind = samara.wrench_breakdown(state, command, vehicle, Environment(wind_W=UP * -climb_rate))["rotors"]
    climbing = samara.wrench_breakdown(moving, command, vehicle)["rotors"]
    assert climbing == in_wind
    mu = climb_rate / (state.rotor_speed[0] * 0.127)
    assert climbing.f_B.z == pytest.approx(1.5 * 9.80665 / (1.0 + 8.0 * mu**2), rel=1e-12)


@pytest.mark.parametrize("altitude", [0.0, 2000.0, 5000.0])
def test_thin_air_asks_for_faster_rotors(altitude):
    """T ∝ ρ Ω²: at every altitude hover takes Ω = Ω₀ √(ρ₀/ρ), and the same torque."""
    vehicle = samara.vehicle("hexarotor_x")
    thin = Environment(air_density=air_density(altitude))
    ground, _ = samara.hover(vehicle)
    high, command = samara.hover(vehicle, environment=thin)
    ratio = air_density(altitude) / 1.225
    assert high.rotor_speed == pytest.approx(np.array(ground.rotor_speed) / math.sqrt(ratio), rel=1e-13)
    parts = samara.wrench_breakdown(high, command, vehicle, thin)
    assert parts["rotors"].f_B.z == pytest.approx(2.4 * 9.80665, rel=1e-14)
    # the same speeds in thin air lift ρ/ρ₀ of the weight
    same_speeds = samara.wrench_breakdown(ground, command, vehicle, thin)["rotors"]
    assert same_speeds.f_B.z == pytest.approx(ratio * 2.4 * 9.80665, rel=1e-14)
