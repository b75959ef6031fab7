"""At rest on the ground from the first instant: an IMU reads 1 g, the feet carry the weight by statics, and nothing moves."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Quat, Vec3, dot, quat_from_euler, rotate, rotate_inverse
from samara.core.tree import flatten
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import derivative, zero_command
from samara.physics.types import CALM
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.scenario.world import Obstacle, World
from samara.sensors.imu import ideal_part
from samara.sensors.registry import part
from samara.sim.fly import fly
from samara.sim.initial_state import initial_state
from samara.vehicles.build import with_effects
from samara.vehicles.defaults import clearance
from samara.vehicles.loader import vehicle_names
from samara.vehicles.payload import Payload, with_payload
from samara.world.obstacles import Box, HeightMap

IMU = part("bmi088")._replace(parameters=ideal_part(part("bmi088").parameters)).sensor()
SLOPE = Ground(ZERO, rotate(quat_from_euler(0.2, -0.25, 0.0), Vec3(0.0, 0.0, 1.0)))
GRID = np.linspace(-3.0, 3.0, 25)
HILL = HeightMap(GRID, GRID, 0.2 * np.cos(0.8 * GRID)[:, None] * np.cos(0.5 * GRID)[None, :])


def parked_drone(vehicle, start_W=ZERO, **options):
    return Drone("parked", vehicle, trajectory.hover(start_W), start_W=start_W, armed=False, **options)


def fly_parked(vehicle, seconds=0.1, start_W=ZERO, **surroundings):
    """Fly an unarmed drone; return its track and the specific force of its IMU."""
    drone = parked_drone(vehicle, start_W, yaw=0.4, sensors=(IMU,))
    track = fly(
        Scenario("parked", (drone,), seconds, rates=Rates(sensor=250.0, log=250.0), **surroundings)
    ).drone_records[0]
    return track, track.tables["imu"].rows[:, :3]


@pytest.mark.parametrize("name", vehicle_names())
def test_a_drone_on_the_ground_reads_one_g_from_its_first_sample(name):
    """f = (0, 0, g) at t = 0, and to 0.3 % while the rotors spin up to idle; their thrust raises it by ΣT/(n k)."""
    vehicle = with_effects(samara.vehicle(name), {"thrust_curve": False})
    track, force = fly_parked(vehicle)
    g = vehicle["gravity"].acceleration
    assert force[0] == pytest.approx((0.0, 0.0, g), abs=1e-11)
    assert force == pytest.approx(np.tile((0.0, 0.0, g), (len(force), 1)), abs=0.003 * g)
    speeds = track.rotor_speed[-1]
    thrust = sum(r.k_thrust * w * w * r.axis_B.z for r, w in zip(vehicle.rotors, speeds, strict=True))
    contact = vehicle["contact"]
    rise = thrust / (len(contact.points_B) * contact.surface.stiffness)
    assert track.position[-1] - track.position[0] == pytest.approx((0.0, 0.0, rise), abs=0.05 * rise + 1e-12)


def test_points_above_the_feet_carry_no_load():
    """A hull of sixteen points above the feet does not change how it stands, on a slope too."""
    base = samara.vehicle("iris")
    feet = base["contact"].points_B
    ring = (0.25 * math.pi * k for k in range(16))
    hull = tuple(Vec3(0.2 * math.cos(a), 0.2 * math.sin(a), 0.5 * feet[0].z) for a in ring)
    with_hull = base.replace({"contact.points_B": feet + hull})
    for ground in (CALM.ground, SLOPE):
        environment = CALM._replace(ground=ground)
        expected, state = (initial_state(parked_drone(vehicle), environment) for vehicle in (base, with_hull))
        assert flatten((state.p_W, state.q_WB)) == pytest.approx(flatten((expected.p_W, expected.q_WB)), abs=1e-12)
        rate = derivative(state, zero_command(with_hull), with_hull, environment)
        assert np.abs(flatten((rate.v_W, rate.omega_B))).max() < 1e-9


def start_and_world(ground):
    """Return the start on a ground given by name, and the world with it."""
    if ground == "slope":
        return ZERO, {"environment": CALM._replace(ground=SLOPE)}
    if ground == "hill":
        start = HILL.tangent_plane(Vec3(0.8, 0.6, 0.0)).point_W
        return Vec3(*(float(x) for x in start)), {"world": World(terrain=HILL)}
    table = Obstacle("table", Box(Vec3(2.0, 0.0, 0.4), Vec3(0.5, 0.5, 0.4)))
    return Vec3(2.0, 0.1, 0.8), {"world": World(obstacles=(table,))}


@pytest.mark.parametrize("ground", ["slope", "hill", "table"])
@pytest.mark.parametrize("name", ["iris", "hakoniwa"])
def test_a_drone_stands_on_slopes_hills_and_tables(name, ground):
    """With rotors at rest: |f| = g straight up at every sample, and no motion beyond rounding."""
    vehicle, (start_W, world) = samara.vehicle(name), start_and_world(ground)
    track, force = fly_parked(vehicle, 0.5, start_W, **world)
    up = rotate_inverse(Quat(*track.attitude[0].tolist()), Vec3(0.0, 0.0, vehicle["gravity"].acceleration))
    assert force == pytest.approx(np.tile(up, (len(force), 1)), abs=1e-6)
    assert np.abs(track.position - track.position[0]).max() < 1e-9
    assert np.abs(track.position[0] - np.array(start_W)).max() < 1.01 * clearance(vehicle)
    assert (np.degrees(track.tilt[0]) > 5.0) == (ground != "table")
    assert track.euler[0, 2] == pytest.approx(0.4, abs=0.05)  # the yaw is unchanged


@pytest.mark.parametrize("ground", [Ground(), SLOPE], ids=["level", "slope"])
def test_the_feet_share_a_load_beside_the_centre_by_the_law_of_the_lever(ground):
    """Σ N = m g cos α, Σ r × F = 0 with the feet's normal forces and grips; the foot near the load carries the most."""
    vehicle = with_payload(samara.vehicle("iris"), Payload(0.4, Vec3(0.06, 0.05, -0.02)))
    environment = CALM._replace(ground=ground)
    state = initial_state(parked_drone(vehicle), environment)
    rate = derivative(state, zero_command(vehicle), vehicle, environment)
    assert (*rate.v_W, *rate.omega_B) == pytest.approx((0.0,) * 6, abs=1e-9)
    k, grips = vehicle["contact"].surface.stiffness, state.effects[vehicle.index("contact")]
    feet = [rotate(state.q_WB, point_B) for point_B in vehicle["contact"].points_B]
    normal = [k * dot(ground.point_W - state.p_W - r_W, ground.normal_W) for r_W in feet]
    foot_forces = [ground.normal_W * n - grip * k for n, grip in zip(normal, grips, strict=True)]
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert sum(normal) == pytest.approx(weight * ground.normal_W.z, rel=1e-12)
    torque = sum(np.cross(r_W, foot_force) for r_W, foot_force in zip(feet, foot_forces, strict=True))
    assert torque == pytest.approx(np.zeros(3), abs=1e-11 * weight)
    assert int(np.argmax(normal)) == 0 or ground is SLOPE  # front left
    assert min(normal) > 0.0


def test_a_drone_above_the_ground_falls_and_one_on_a_steep_slope_slides():
    """5 cm up: free fall from the first instant. On 45° with μ = 0.8 < tan 45° it cannot stand: the start is unchanged."""
    vehicle = samara.vehicle("iris")
    high = initial_state(parked_drone(vehicle, Vec3(0.0, 0.0, 0.05)))
    assert high.p_W == (0.0, 0.0, 0.05 + clearance(vehicle))
    assert derivative(high, (0.0,) * 4, vehicle).v_W.z == pytest.approx(-9.80665, rel=1e-12)
    steep = CALM._replace(ground=Ground(ZERO, Vec3(math.sqrt(0.5), 0.0, math.sqrt(0.5))))
    assert initial_state(parked_drone(vehicle), steep).p_W == (0.0, 0.0, clearance(vehicle))


def test_a_drone_that_would_tip_over_is_not_supported():
    """A load outside the feet tips it: it cannot stand, and the start is unchanged."""
    tipping = with_payload(samara.vehicle("iris"), Payload(3.0, Vec3(0.6, 0.0, 0.0)))
    state = initial_state(parked_drone(tipping))
    assert state.q_WB == (1.0, 0.0, 0.0, 0.0)
    assert derivative(state, (0.0,) * 4, tipping).v_W.z < -9.0
