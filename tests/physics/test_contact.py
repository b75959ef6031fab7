"""Standing, sliding, dropping and tipping: statics, Coulomb's law, energy, and the stability limit of the step."""

import math
import re

import casadi
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traced_flights import fly, make_body, record_state, record_states, rotation, traced_step
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara import Environment
from samara.core.algebra import EAST, NORTH, UP, ZERO, Vec3, quat_from_axis_angle, quat_from_euler, rotate
from samara.physics.ground.contact import (
    COMPLIANT,
    Contact,
    ContactPoint,
    Ground,
    Surface,
    contact_point,
    friction_force,
    grip_rate,
    normal_force,
)
from samara.physics.multirotor import state_at_rest
from samara.vehicles.build import ContactShape
from samara.vehicles.defaults import DEFAULT_STEP, largest_stable_step

G = 9.80665
NO_COMMAND = (0.0, 0.0, 0.0, 0.0)
WITH_DRAG = [name for name in samara.vehicle_names() if samara.vehicle(name).has("drag")]
ONE_MINUTE = pytest.param(60.0, marks=pytest.mark.long)


def zero_command(vehicle):
    return (0.0,) * vehicle.command_size


def leg_height(vehicle):
    return -vehicle["contact"].points_B[0].z


def idle_thrust(vehicle):
    """The thrust of the rotors at command 0."""
    idle = (getattr(rotor.motor, "speed_min", 0.0) for rotor in vehicle.rotors)
    return sum(rotor.k_thrust * speed**2 * rotor.axis_B.z for rotor, speed in zip(vehicle.rotors, idle, strict=True))


def square_legs(width, height):
    return [Vec3(x, y, -height) for x, y in ((width, width), (width, -width), (-width, -width), (-width, width))]


def inclined_plane(degrees, hinge_axis=NORTH):
    """An inclined plane through the origin, and the attitude of a body standing upright on it."""
    q_WB = quat_from_axis_angle(hinge_axis, math.radians(degrees))
    return Environment(ground=Ground(normal_W=rotate(q_WB, UP))), q_WB


# Sticking ----------------------------------------------------------------------------------------------------------


def settled_drift(vehicle, seconds, environment, q_WB):
    """The distance that the vehicle moves in `seconds` at command 0, after a tilted drop and 4 s of settling [m]."""
    normal_W = environment.ground.normal_W
    state = state_at_rest(vehicle, normal_W * (leg_height(vehicle) + 0.002), q_WB)
    state = state._replace(v_W=Vec3(0.01, -0.02, 0.0), omega_B=Vec3(0.1, 0.05, 0.2))
    settled = record_state(vehicle, fly(vehicle, state, zero_command(vehicle), 4.0, environment, every=4000)[-1])
    flown = fly(vehicle, settled, zero_command(vehicle), seconds, environment, every=10)[:, :3]
    return np.linalg.norm(flown - flown[0], axis=1).max()


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_a_vehicle_on_flat_ground_stays_where_it_is_for_a_minute(name):
    """60 s at 1 kHz: 1 µm is required; the result is the rounding of the position."""
    environment, q_WB = inclined_plane(0.0)
    assert settled_drift(samara.vehicle(name), 60.0, environment, q_WB) < 1e-13


@pytest.mark.parametrize("seconds", [1.0, ONE_MINUTE])
@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_a_vehicle_on_a_slope_of_10_degrees_does_not_creep(name, seconds):
    """tan 10° = 0.18 needs less than a quarter of the available friction."""
    environment, q_WB = inclined_plane(10.0, hinge_axis=Vec3(0.6, 0.8, 0.0))
    assert settled_drift(samara.vehicle(name), seconds, environment, q_WB) < 1e-13


def wind_for_friction_fraction(fraction, vehicle):
    """The wind whose drag on the resting vehicle is a fraction of its friction limit: d₁w + d₂w² = fraction · μN."""
    weight = vehicle.mass * vehicle["gravity"].acceleration
    force = fraction * vehicle["contact"].surface.friction * (weight - idle_thrust(vehicle))
    d1, d2 = vehicle["drag"].linear.x, vehicle["drag"].quadratic.x
    speed = force / d1 if d2 == 0.0 else (math.sqrt(d1 * d1 + 4.0 * d2 * force) - d1) / (2.0 * d2)
    return Environment(wind_W=EAST * speed), force


@pytest.mark.parametrize("seconds", [1.0, ONE_MINUTE])
@pytest.mark.parametrize("name", WITH_DRAG)
def test_a_vehicle_in_wind_at_half_its_friction_limit_does_not_creep(name, seconds):
    """The grip balances the drag, and nothing moves."""
    vehicle = samara.vehicle(name)
    environment, _ = wind_for_friction_fraction(0.5, vehicle)
    assert settled_drift(vehicle, seconds, environment, quat_from_euler(0.0, 0.0, 0.0)) < 1e-13


@pytest.mark.parametrize("name", ["crazyflie_documented", "hexarotor_x"])
def test_the_friction_limit_is_where_the_wind_begins_to_push_the_vehicle_along(name):
    """At 0.9 times the limit friction balances the drag and all forces cancel; at 1.1 times the vehicle is off."""
    vehicle = samara.vehicle(name)
    command = zero_command(vehicle)
    start = state_at_rest(vehicle, UP * leg_height(vehicle))
    for fraction in (0.9, 1.1):
        environment, force = wind_for_friction_fraction(fraction, vehicle)
        last = record_state(vehicle, fly(vehicle, start, command, 2.0, environment, every=2000)[-1])
        if fraction < 1.0:
            contact_force = samara.wrench_breakdown(last, command, vehicle, environment)["contact"].f_W
            assert contact_force.x == pytest.approx(
                -force, rel=2e-4
            )  # it tilts slightly in the wind, and with it the idle thrust
            total = samara.wrench(last, command, vehicle, environment)
            balance = np.array(total.f_W) + rotation(last.q_WB).apply(np.array(total.f_B))
            assert balance == pytest.approx(np.zeros(3), abs=1e-10 * force)
        else:
            assert last.p_W.x > 0.05


# Sliding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [20.0, 26.5, 26.6, 30.0, 45.0])
def test_on_a_slope_steeper_than_atan_mu_a_body_slides_with_g_sin_minus_mu_g_cos(degrees):
    """μ = 0.5 holds up to 26.57°; above, a = g (sin α − μ cos α), for any distribution of the load over the legs."""
    environment, q_WB = inclined_plane(degrees)
    body = make_body(contact=ContactShape(square_legs(0.1, 0.05), friction=0.5))
    start = state_at_rest(body, environment.ground.normal_W * 0.05, q_WB)
    states = record_states(body, fly(body, start, NO_COMMAND, 3.0, environment))
    v_down = np.array(rotate(q_WB, EAST)) @ np.array(states.v_W)
    acceleration = (v_down[3000] - v_down[1500]) / 1.5
    alpha = math.radians(degrees)
    slides = math.tan(alpha) > 0.5
    assert acceleration == pytest.approx(G * (math.sin(alpha) - 0.5 * math.cos(alpha)) if slides else 0.0, abs=1e-12)
    assert (v_down[-1] > 1e-3) == slides


@pytest.mark.parametrize("heading", [0.0, 0.7, 2.5])
def test_a_sliding_block_stops_after_v_squared_over_two_mu_g(heading):
    """Straight ahead, after v²/2μg; then the grip, stretched to μN/k, springs back by that much.

    The contact points lie at the height of the centre of mass, so that braking does not tip the block.
    """
    block = make_body(contact=ContactShape(square_legs(0.1, 0.0), friction=0.5))
    stiffness, load = block["contact"].surface.stiffness, 2.0 * G / 4.0
    ahead = np.array([math.cos(heading), math.sin(heading), 0.0])
    start = state_at_rest(block, UP * -(load / stiffness))._replace(v_W=Vec3(*(3.0 * ahead)))
    path = fly(block, start, NO_COMMAND, 1.0, dt=1e-4)[:, :3]
    travelled = path @ ahead
    assert travelled.max() == pytest.approx(9.0 / (2.0 * 0.5 * G), abs=1e-8)
    assert travelled.max() - travelled[-1] == pytest.approx(0.5 * load / stiffness, abs=1e-8)
    assert np.abs(path @ [-ahead[1], ahead[0], 0.0]).max() < 1e-12


def test_a_block_pushed_harder_than_friction_accelerates_with_the_rest():
    """F − μmg = ma under a sideways push of 15 N (a user's effect), on the same block."""
    block = make_body(contact=ContactShape(square_legs(0.1, 0.0), friction=0.5))
    pushed = block.with_effect(samara.Effect("push", wrench=lambda *_: samara.Wrench(f_W=EAST * 15.0)))
    start = state_at_rest(pushed, UP * -(2.0 * G / 4.0 / block["contact"].surface.stiffness))
    v_x = fly(pushed, start, NO_COMMAND, 1.0)[:, 3]
    assert (v_x[1000] - v_x[500]) / 0.5 == pytest.approx((15.0 - 0.5 * 2.0 * G) / 2.0, rel=1e-12)


# Energy ------------------------------------------------------------------------------------------------------------


def mechanical_energy(states, vehicle):
    """½mv² + ½ω·Jω + mgz, and ½k(d² + s²) of every compressed leg and stretched grip."""
    contact, inertia = vehicle["contact"], np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    p_W, v_W, omega_B = (np.array(part).T for part in (states.p_W, states.v_W, states.omega_B))
    energy = 0.5 * vehicle.mass * (v_W**2).sum(axis=1) + 0.5 * np.einsum("ni,ij,nj->n", omega_B, inertia, omega_B)
    energy += vehicle.mass * vehicle["gravity"].acceleration * p_W[:, 2]
    for point_B, grip_W in zip(contact.points_B, states.effects[vehicle.index("contact")], strict=True):
        depth = np.maximum(0.0, -(p_W + rotation(states.q_WB).apply(np.array(point_B)))[:, 2])
        energy += 0.5 * contact.surface.stiffness * (depth**2 + (np.array(grip_W) ** 2).sum(axis=0))
    return energy


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_a_dropped_vehicle_settles_and_never_gains_energy(name):
    """From 0.3 m, askew, drifting and turning, rotors off: every step ends with no more energy than it began with."""
    vehicle = samara.vehicle(name)
    off = [effect for effect in ("rotors", "rotor_momentum") if vehicle.has(effect)]
    vehicle = vehicle.without_effect(*off) if off else vehicle
    height = leg_height(vehicle)
    start = state_at_rest(vehicle, UP * (height + 0.3), quat_from_euler(0.2, -0.15, 0.4))
    start = start._replace(v_W=Vec3(0.3, -0.2, 0.0), omega_B=Vec3(0.5, -1.0, 2.0))
    states = record_states(vehicle, fly(vehicle, start, zero_command(vehicle), 5.0))
    energy = mechanical_energy(states, vehicle)
    assert np.diff(energy).max() < 1e-14 * energy[0]
    assert np.abs([*(v[-1] for v in states.v_W), *(w[-1] for w in states.omega_B)]).max() < 1e-12
    load = vehicle.mass * vehicle["gravity"].acceleration / 4.0
    assert states.p_W.z[-1] == pytest.approx(height - load / vehicle["contact"].surface.stiffness, abs=1e-12)
    assert rotation(states.q_WB).apply([0.0, 0.0, 1.0])[-1] == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


def test_the_grip_can_only_lose_energy():
    """f·v + d/dt ½ks² ≤ 0 for every stretch, slip and load: the friction is passive, sticking or sliding."""
    rng = np.random.default_rng(4)
    n = 200_000
    surface = Surface(10.0 ** rng.uniform(2, 5, n), 10.0 ** rng.uniform(-1, 3, n), rng.uniform(0.0, 1.5, n))
    v_slip, grip = (Vec3(*(rng.normal(size=(2, n)) * 10.0 ** rng.uniform(-6, 0, n)), np.zeros(n)) for _ in range(2))
    normal = np.where(rng.random(n) < 0.1, 0.0, 10.0 ** rng.uniform(-3, 2, n))
    point = ContactPoint(np.full(n, 1e-4), np.zeros(n), v_slip)
    force = np.array(friction_force(point, grip, normal, surface=surface))
    rate = np.array(grip_rate(point, grip, normal, surface=surface))
    power = (force[:2] * np.array(v_slip)[:2]).sum(axis=0)
    stored = surface.stiffness * (np.array(grip)[:2] * rate[:2]).sum(axis=0)
    spring, slip = surface.stiffness * np.hypot(*np.array(grip)[:2]), np.hypot(*np.array(v_slip)[:2])
    rounding = 4e-16 * (spring + surface.damping * slip) * (slip + spring / surface.damping)
    assert (power + stored <= rounding).all()
    assert (np.hypot(*force[:2]) <= surface.friction * normal * (1.0 + 1e-12)).all()  # Coulomb's cone


@given(
    depth=st.floats(-1e-3, 1e-3),
    sinking=st.floats(-10, 10),
    stiffness=st.floats(100, 1e5),
    damping=st.floats(1, 1000),
)
def test_the_ground_pushes_and_never_pulls(depth, sinking, stiffness, damping):
    """N ≥ 0 at any speed of a foot pulled out, N = 0 above the ground, and k d + c ḋ under pressure."""
    point = ContactPoint(depth, sinking, ZERO)
    push = normal_force(point, surface=Surface(stiffness, damping, 0.5))
    assert push == max(0.0, stiffness * depth + damping * sinking) * (depth > 0)


def test_sinking_is_the_rate_of_the_depth():
    """d(t + h) − d(t − h) over 2h, for a rotating body over an inclined plane; the remainder of ṙ is slip in the plane."""
    ground = Ground(Vec3(0.1, -0.2, 0.05), rotate(quat_from_euler(0.2, -0.3, 0.0), UP))
    normal = np.array(ground.normal_W)
    p, v, omega = np.array([0.3, 0.1, 0.4]), np.array([1.0, -2.0, 0.5]), np.array([0.7, 3.0, -1.0])
    r = np.array([0.1, 0.2, -0.3])

    def point_position(t):
        rotated = rotation(quat_from_axis_angle(Vec3(*omega), float(np.linalg.norm(omega)) * t)).apply(r)
        return p + v * t + rotated, rotated

    def contact_at_time(t):
        return contact_point(Vec3(*(p + v * t)), Vec3(*v), Vec3(*omega), Vec3(*point_position(t)[1]), ground=ground)

    h = 1e-4
    point = contact_at_time(0.0)
    assert point.depth == pytest.approx(-(point_position(0.0)[0] - np.array(ground.point_W)) @ normal, rel=1e-14)
    assert point.penetration_rate == pytest.approx(
        (contact_at_time(h).depth - contact_at_time(-h).depth) / (2 * h), rel=1e-7
    )
    velocity = (point_position(h)[0] - point_position(-h)[0]) / (2 * h)
    assert np.array(point.v_slip_W) == pytest.approx(velocity - (velocity @ normal) * normal, rel=1e-7)
    assert np.array(point.v_slip_W) @ normal == pytest.approx(0.0, abs=1e-15)


# Moments -----------------------------------------------------------------------------------------------------------


def test_a_leg_off_centre_tips_the_body():
    """One leg on the ground at r: the torque is r × N n, here lifting the front right corner."""
    body = make_body(contact=ContactShape([Vec3(0.2, -0.1, -0.1)]))
    stiffness = body["contact"].surface.stiffness
    state = state_at_rest(body, UP * (0.1 - 1e-3))
    part = samara.wrench_breakdown(state, NO_COMMAND, body)["contact"]
    assert part.f_W == pytest.approx((0.0, 0.0, 1e-3 * stiffness), rel=1e-12)
    assert np.array(part.tau_B) == pytest.approx(np.cross([0.2, -0.1, -0.1], [0.0, 0.0, 1e-3 * stiffness]), rel=1e-12)


def test_legs_share_the_weight_by_the_lever_rule():
    """Standing on feet at x = 0.3 (two) and −0.1 (two), the near pair carries three quarters of the weight."""
    body = make_body(contact=ContactShape([Vec3(x, y, -0.1) for x in (0.3, -0.1) for y in (0.15, -0.15)]))
    settled = fly(body, state_at_rest(body, UP * 0.1), NO_COMMAND, 5.0, every=5000)[-1]
    state = record_state(body, settled)
    stiffness = body["contact"].surface.stiffness
    feet_W = rotation(state.q_WB).apply(np.array(body["contact"].points_B))
    loads = -stiffness * (settled[2] + feet_W[:, 2])
    weight = 2.0 * G
    assert loads == pytest.approx(np.array([1.0, 1.0, 3.0, 3.0]) * weight / 8.0, rel=1e-3)  # it tilts by one depth
    assert loads.sum() == pytest.approx(weight, rel=1e-12)
    # with the actual arms; the residual is the grip of feet that differ by a few hundredths of a millimetre in depth
    assert loads @ feet_W[:, :2] == pytest.approx(np.zeros(2), abs=1e-6)


@pytest.mark.parametrize(("overhang", "falls"), [(-0.01, False), (0.01, True)])
def test_a_body_tips_over_when_its_weight_leaves_the_feet(overhang, falls):
    """The foremost feet stand 1 cm before, or behind, the centre of mass."""
    points = [Vec3(x, y, -0.1) for x in (-overhang, -0.3) for y in (0.15, -0.15)]
    body = make_body(contact=ContactShape(points))
    states = record_states(body, fly(body, state_at_rest(body, UP * 0.1), NO_COMMAND, 1.0))
    nose_W = rotation(states.q_WB).apply([1.0, 0.0, 0.0])
    assert (nose_W[:, 2].min() < -0.3) == falls
    assert (np.abs(nose_W[:, 2]).max() < 0.01) == (not falls)


# The largest stable step -------------------------------------------------------------------------------------------


def growth(vehicle, components, dt, environment=samara.CALM):
    """The largest modulus of the eigenvalues of one real RK4 step's Jacobian."""
    step = traced_step(vehicle, dt, environment)
    x, u = casadi.SX.sym("x", step.size1_in(0)), casadi.SX.sym("u", step.size1_in(1))
    jacobian = casadi.Function("jacobian", [x, u], [casadi.jacobian(step(x, u), x)])
    return np.abs(np.linalg.eigvals(np.array(jacobian(components, np.array(zero_command(vehicle)))))).max()


def ground_equilibrium(vehicle):
    """The exact equilibrium at command 0: rotors idling, every leg compressed by its part of the weight."""
    load = vehicle.mass * vehicle["gravity"].acceleration - idle_thrust(vehicle)
    depth = load / (len(vehicle["contact"].points_B) * vehicle["contact"].surface.stiffness)
    idling = tuple(getattr(rotor.motor, "speed_min", 0.0) for rotor in vehicle.rotors)
    state = state_at_rest(vehicle, UP * (leg_height(vehicle) - depth))._replace(rotor_speed=idling)
    return np.array(samara.core.tree.flatten(state), dtype=float)


def stable_step(vehicle):
    contact = vehicle["contact"]
    return largest_stable_step(vehicle.mass, vehicle.inertia_B, contact.points_B, contact.surface)


@pytest.mark.long
@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_the_largest_stable_step_is_where_the_real_step_turns_unstable(name):
    """Just below it no mode of the standing vehicle grows from step to step; half a percent above, one does."""
    vehicle = samara.vehicle(name)
    vehicle = (
        vehicle.without_effect("damping") if vehicle.has("damping") else vehicle
    )  # of the air: the bound is without it
    equilibrium, largest = ground_equilibrium(vehicle), stable_step(vehicle)
    assert largest > 2.0 * DEFAULT_STEP
    assert growth(vehicle, equilibrium, 0.998 * largest) < 1.0 + 1e-12
    assert growth(vehicle, equilibrium, 1.005 * largest) > 1.01


def test_the_largest_stable_step_knows_the_grip_that_lets_go():
    """With little damping it is a foot in the air whose grip, relaxing with k/c, sets the limit."""
    body = make_body(contact=ContactShape(square_legs(0.1, 0.05)))
    contact = body["contact"]
    slack = contact._replace(surface=contact.surface._replace(damping=contact.surface.stiffness * 5e-4))
    vehicle = body.with_effect(COMPLIANT, slack)
    flying = np.array(samara.core.tree.flatten(state_at_rest(vehicle, UP)), dtype=float)
    flying[-12:] = 1e-4  # a grip that was just released
    largest = stable_step(vehicle)
    assert largest == pytest.approx(2.785293563 * 5e-4, rel=1e-8)  # RK4's limit on the negative axis
    assert growth(vehicle, flying, 0.999 * largest) < 1.0 + 1e-12
    assert growth(vehicle, flying, 1.001 * largest) > 1.0 + 1e-4


def test_a_grip_in_the_air_fades_and_stays_a_number_of_normal_size():
    """e^{−kt/c} down to 1e-20 m, but not to denormal numbers, which would slow every step by a factor of three."""
    body = make_body(contact=ContactShape(square_legs(0.1, 0.05)))
    surface = body["contact"].surface
    point = ContactPoint(-1.0, 0.0, ZERO)
    rate = grip_rate(point, Vec3(1e-4, 0.0, 0.0), 0.0, surface=surface)
    assert rate.x == pytest.approx(-1e-4 * surface.stiffness / surface.damping, rel=1e-14)
    assert grip_rate(point, Vec3(0.9e-20, 0.0, 0.0), 0.0, surface=surface) == (0.0, 0.0, 0.0)


def test_ned_simulator_stiffness_is_refused_on_a_crazyflie():
    """k 5000 N/m, c 600 N s/m per point are for 1.5 kg; on 28 g they need dt ≤ 9.78 µs, which the error states."""
    vehicle = samara.vehicle("crazyflie_documented")
    with pytest.raises(samara.VehicleError, match=r"contact\.stiffness = 5000 N/m.*dt <= .* s") as refused:
        samara.build_vehicle(
            "crazyflie_documented",
            mass=0.028,
            inertia=(1.4e-5, 1.4e-5, 2.17e-5),
            actuation="wrench",
            contact=ContactShape(vehicle["contact"].points_B, stiffness=5000.0, damping=600.0),
        )
    largest = float(re.search(r"dt <= (\S+) s", str(refused.value)).group(1))
    hard = vehicle.with_effect(COMPLIANT, Contact(vehicle["contact"].points_B, Surface(5000.0, 600.0, 0.8)))
    equilibrium = ground_equilibrium(hard)
    assert growth(hard, equilibrium, 0.995 * largest) < 1.0 + 1e-12
    assert growth(hard, equilibrium, 1.005 * largest) > 1.01
    # at the default step it would have thrown the drone off the floor
    thrown = fly(hard, state_at_rest(hard, UP * 0.02), NO_COMMAND, 1.0)
    settled = fly(vehicle, state_at_rest(vehicle, UP * 0.02), NO_COMMAND, 1.0)
    assert np.abs(thrown[:, 3:6]).max() > 10.0
    assert np.abs(settled[:, 3:6]).max() < 0.1
