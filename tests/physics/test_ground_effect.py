"""Near a surface: the published formulas by another road, any plane, and a real Crazyflie over the floor."""

import math

import jax
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import samara
from samara.core.algebra import IDENTITY, Quat, Vec3, direction, normalize, quat_from_euler, rotate
from samara.core.tree import flatten
from samara.physics.air.ground_effect import (
    CEILING_EFFECT,
    GROUND_EFFECT,
    Ceiling,
    GroundEffect,
    ceiling_ratio,
    cheeseman_bennett,
    image_inflow,
    max_rotor_distance,
)
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Environment
from samara.sim.plant import Plant, set_plant_state

RADIUS, LEGS = 0.0231, 0.03  # of a Crazyflie 2.1: rotor radius, and rotor height on the ground [m]


def crazyflie(mass=0.032, **parameters):
    """A Crazyflie 2.1 with ground effect, with its weight in the experiments."""
    vehicle = samara.vehicle("crazyflie_documented").replace({"mass": mass, "rotors.radius": RADIUS})
    parameters = {"body_lift": 2.0, "body_distance": max_rotor_distance(vehicle)} | parameters
    return vehicle.with_effect(GROUND_EFFECT, GroundEffect(**parameters))


FLOOR = Ground()


def ratio(vehicle, height, q_WB=IDENTITY, ground=FLOOR):
    """(T∞ + ΔT of the ground) / T∞ along the body's z, at the rotor speeds of free hover"""
    state, command = samara.hover(vehicle.without_effect("ground_effect"))
    place = ground.point_W + ground.normal_W * height
    state = state_at_rest(vehicle, place, q_WB)._replace(rotor_speed=state.rotor_speed)
    parts = samara.wrench_breakdown(state, command, vehicle, Environment(ground=ground))
    return 1.0 + parts["ground_effect"].f_B.z / parts["rotors"].f_B.z, parts["ground_effect"]


def published_ratio(z, radius, d, b, body_lift):
    """Sanchez-Cuevas, Heredia and Ollero's equation for a square of four rotors, as printed."""
    inflow = (
        (radius / (4 * z)) ** 2
        + radius**2 * z / math.sqrt((d**2 + 4 * z**2) ** 3)
        + radius**2 / 2 * z / math.sqrt((2 * d**2 + 4 * z**2) ** 3)
        + 2 * radius**2 * z / math.sqrt((b**2 + 4 * z**2) ** 3) * body_lift
    )
    return 1 / (1 - inflow)


@pytest.mark.parametrize("z", [0.02, 0.03, 0.05, 0.1, 0.4])
def test_the_images_of_four_rotors_are_the_published_equation(z):
    """The sum over images, each rotor with every image, is the square's equation; without body lift, and with it."""
    for body_lift in (0.0, 2.0):
        actual, added = ratio(crazyflie(body_lift=body_lift), z)
        expected = published_ratio(z, RADIUS, 0.046 * math.sqrt(2), 0.092, body_lift)
        assert actual == pytest.approx(min(expected, 2.0), rel=1e-12)
        assert list(added.tau_B) == pytest.approx([0.0] * 3, abs=1e-15)


def test_far_neighbours_leave_cheeseman_and_bennett():
    """One isolated rotor: 1/(1 − (R/4h)²); its image induces (R/4h)² of its velocity."""
    up = Vec3(0.0, 0.0, 1.0)
    for h in (0.1, 0.3, 1.0):
        assert image_inflow(Vec3(0.0, 0.0, 0.0), h, up, up, radius=0.2) == pytest.approx(
            (0.2 / (4 * h)) ** 2, rel=1e-13
        )
        assert cheeseman_bennett(h, radius=0.2) == pytest.approx(1 / (1 - (0.2 / (4 * h)) ** 2), rel=1e-13)
    assert image_inflow(Vec3(50.0, 0.0, 0.0), 0.1, up, up, radius=0.2) < 1e-7


def test_the_image_is_a_source_in_free_air():
    """A rotor as a source of strength πR²v, half of it down: the flow of its image cancels its normal flow at the ground, so
    no air passes through the ground; along the axis it falls with the square of the distance."""
    up, radius, h = Vec3(0.0, 0.0, 1.0), 0.1, 0.3
    for x in (0.0, 0.2, 0.7):
        from_below = image_inflow(Vec3(x, 0.0, -h), h, up, up, radius=radius)  # felt on the ground
        strength = radius**2 / 4
        assert from_below == pytest.approx(strength * h / math.hypot(x, h) ** 3, rel=1e-12)


def test_any_plane_will_do():
    """Rotating drone and ground together gives the same body wrench; world z has no influence."""
    vehicle = crazyflie()
    level = ratio(vehicle, 0.04)[1]
    for q in (quat_from_euler(0.7, -0.4, 2.0), normalize(Quat(0.1, 0.9, -0.3, 0.2))):
        ground = Ground(Vec3(3.0, -2.0, 5.0), rotate(q, Vec3(0.0, 0.0, 1.0)))
        rotated = ratio(vehicle, 0.04, q, ground)[1]
        assert np.array(rotated.f_B) == pytest.approx(np.array(level.f_B), rel=1e-9, abs=1e-15)
        assert np.array(rotated.tau_B) == pytest.approx(np.array(level.tau_B), abs=1e-15)


def test_a_tilted_drone_is_levelled_by_the_ground():
    """The lower rotors gain more: a torque against the tilt. Upside down, blowing away from the ground, it is 0."""
    vehicle = crazyflie()
    rolled = ratio(vehicle, 0.06, quat_from_euler(0.2, 0.0, 0.0))[1]
    assert rolled.tau_B.x < -1e-7
    inverted = ratio(vehicle, 0.06, quat_from_euler(math.pi, 0.0, 0.0))[1]
    assert list(inverted.f_B) == pytest.approx([0.0] * 3, abs=1e-15)


def test_rolled_over_a_slope_every_rotor_counts_by_the_height_of_its_own_hub():
    """Σ (R²/4)(r·a)/|r|³ from every image to every hub, by positions in the world, against the effect in body axes"""
    vehicle, q_WB = crazyflie(body_lift=0.0), quat_from_euler(0.3, -0.2, 0.7)
    ground = Ground(Vec3(1.0, -2.0, 0.5), direction(Vec3(0.1, -0.2, 1.0)))
    center = ground.point_W + ground.normal_W * 0.07
    hubs = [np.array(center + rotate(q_WB, rotor.r_B)) for rotor in vehicle.rotors]
    point, normal, axis = (np.array(x) for x in (ground.point_W, ground.normal_W, rotate(q_WB, Vec3(0.0, 0.0, 1.0))))
    thrust = samara.hover(vehicle.without_effect("ground_effect"))[0].rotor_speed[0] ** 2 * vehicle.rotors[0].k_thrust
    gains = []
    for hub in hubs:
        away = [hub - (other - 2.0 * np.dot(other - point, normal) * normal) for other in hubs]
        blown = sum(RADIUS**2 / 4.0 * max(r @ axis, 0.0) / np.linalg.norm(r) ** 3 for r in away)
        gains.append(thrust * (1.0 / (1.0 - blown) - 1.0))
    felt = ratio(vehicle, 0.07, q_WB, ground)[1]
    assert felt.f_B.z == pytest.approx(sum(gains), rel=1e-12)
    levers = [np.cross(rotor.r_B, (0.0, 0.0, gain)) for rotor, gain in zip(vehicle.rotors, gains, strict=True)]
    assert list(felt.tau_B) == pytest.approx(list(sum(levers)), rel=1e-11, abs=1e-18)


def test_it_fades_and_stays_finite():
    """It is 0 at 2 m, grows towards the ground, and at most doubles the thrust."""
    vehicle = crazyflie()
    gains = [ratio(vehicle, height)[0] for height in (-0.01, 0.0, 0.001, 0.01, 0.03, 0.1, 0.5, 2.0)]
    assert gains == sorted(gains, reverse=True) and gains[0] == 2.0
    assert gains[-1] == pytest.approx(1.0, abs=2e-4)


def test_under_a_ceiling_by_momentum_theory():
    """Solved, not quoted: air enters through the gap's side at u = v r/2h, so the ceiling is pulled down by the mean of
    ½ρu²; momentum and Bernoulli then fix the far wake; at the same power T v = T∞ v∞."""
    density, radius, power = 1.2, 0.1, 10.0
    area = math.pi * radius**2

    def hover(suction):
        """Thrust at that power, with a suction of suction · ½ρv²A on the ceiling."""

        def excess(v):
            wake = brentq(lambda w: 0.5 * w**2 - v * w - 0.5 * suction * v**2, 1e-9, 1e3 * v + 1.0)
            return 0.5 * density * area * wake**2 * v - power

        v = brentq(excess, 1e-3, 100.0)
        return power / v

    for gap in (0.03, 0.05, 0.1, 0.5):
        r = np.linspace(0.0, radius, 20001)
        mean_square = np.trapezoid((r / (2 * gap)) ** 2 * 2 * r, r) / radius**2
        assert ceiling_ratio(gap, radius=radius) == pytest.approx(hover(mean_square) / hover(0.0), rel=1e-7)


def test_a_ceiling_pulls_a_drone_up_and_only_from_below():
    vehicle = crazyflie().without_effect("ground_effect").with_effect(CEILING_EFFECT, Ceiling(Vec3(0.0, 0.0, 3.0)))
    state, command = samara.hover(vehicle.without_effect("ceiling_effect"))
    lifts = []
    for z in (0.0, 2.9, 2.97, 2.99, 3.1):
        hovering = state_at_rest(vehicle, Vec3(0.0, 0.0, z))._replace(rotor_speed=state.rotor_speed)
        lifts.append(samara.wrench_breakdown(hovering, command, vehicle)["ceiling_effect"].f_B.z)
    assert 0.0 < lifts[0] < 1e-6 and lifts[:4] == sorted(lifts[:4]) and lifts[4] == 0.0
    assert lifts[2] == pytest.approx(vehicle.mass * 9.80665 * (ceiling_ratio(0.03, radius=RADIUS) - 1.0), rel=1e-3)


def test_hover_near_the_ground_needs_less():
    """At √(1/ratio) of the speed all rates vanish, by the complete equation of motion."""
    vehicle = crazyflie()
    free, command = samara.hover(vehicle.without_effect("ground_effect"), p_W=(0.0, 0.0, 0.05))
    slower = tuple(ratio(vehicle, 0.05)[0] ** -0.5 * speed for speed in free.rotor_speed)
    rate = samara.derivative(state_at_rest(vehicle, free.p_W)._replace(rotor_speed=slower), command, vehicle)
    assert list(rate.v_W) == pytest.approx([0.0] * 3, abs=1e-9)


@pytest.mark.long
def test_it_is_machine_code_and_jax_like_the_rest():
    """One step near the ground, tilted: the compiled plant, JAX under jit, and floats."""
    vehicle = crazyflie()
    free, command = samara.hover(vehicle.without_effect("ground_effect"))
    state = state_at_rest(vehicle, Vec3(0.1, 0.2, 0.05), quat_from_euler(0.1, -0.2, 0.3))._replace(
        rotor_speed=free.rotor_speed
    )
    by_float = flatten(samara.step(state, command, vehicle, dt=1e-3))
    plant = Plant(vehicle)
    set_plant_state(plant, 0, state)
    plant.command[:, 0] = command
    plant.advance(0, 1000)
    assert plant.state[:, 0] == pytest.approx(by_float, rel=1e-12, abs=1e-15)
    rates = jax.jit(lambda state: samara.derivative(state, command, vehicle))(state)
    assert [float(x) for x in flatten(rates)] == pytest.approx(
        flatten(samara.derivative(state, command, vehicle)), rel=1e-10, abs=1e-11
    )


def measured_lift(folder):
    """Heights of the rotors [m] and extra lift [g], without the bin in which the legs touch."""
    table = np.genfromtxt(folder / "data" / "interaction" / "ground_effect_cf21.csv", delimiter=",", names=True)
    z = 0.5 * (table["z_m_lo"] + table["z_m_hi"])
    return (z - 0.05 + LEGS)[1:], table["median_dFz_g"][1:]


def extra_lift(vehicle, heights):
    """W (1 − 1/ratio) [g]: hover in ground effect needs less thrust; the difference was measured."""
    return np.array([1e3 * vehicle.mass * (1 - 1 / ratio(vehicle, h)[0]) for h in heights])


def test_a_real_crazyflie_over_the_floor(shared_folder, record_property):
    """Neural-Swarm2's flights: 1.5 g RMSE without, 0.54 g with the published constants, 0.47 g with a fitted K_b.

    Rotor height is z − 0.05 + 0.03: the body rests at z = 0.05 m, with its rotors 0.03 m high. With b between
    opposite rotors, as published, the best K_b is 2.04, close to the published 2. With b the length of an arm,
    from the rotors to the centre of the body, K_b = 1.25 fits better.
    """
    heights, lift = measured_lift(shared_folder)

    def rmse(vehicle):
        return math.sqrt(np.mean((extra_lift(vehicle, heights) - lift) ** 2))

    def best(**parameters):
        minimum = minimize_scalar(
            lambda k: rmse(crazyflie(body_lift=k, **parameters)), bounds=(0.1, 5.0), method="bounded"
        )
        return minimum.x, minimum.fun

    none, images, with_body = math.sqrt(np.mean(lift**2)), rmse(crazyflie(body_lift=0.0)), rmse(crazyflie())
    fitted, of_arm = best(), best(body_distance=0.046)
    record_property("rmse_g", str((none, images, with_body, fitted, of_arm)))
    print(f"none {none:.3f}  images {images:.3f}  published {with_body:.3f}  fitted {fitted}  arm {of_arm}")
    assert none == pytest.approx(1.50, abs=0.01)
    assert with_body < 0.6 < images < none
    assert fitted[0] == pytest.approx(2.0, abs=0.1)
    assert of_arm[1] < 0.5
