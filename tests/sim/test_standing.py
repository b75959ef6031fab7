"""Standing from the first instant: an IMU reads 1 g, the feet carry the weight as statics says, and nothing moves."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Quat, Vec3, dot, quat_from_euler, rotate, rotate_inverse
from samara.core.tree import flatten
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import derivative, empty_command
from samara.physics.types import CALM
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.scenario.world import Placed, World
from samara.sensors.imu import perfect
from samara.sensors.registry import part
from samara.sim.fly import fly
from samara.sim.initial_state import initial_state
from samara.vehicles.build import with_effects
from samara.vehicles.defaults import clearance
from samara.vehicles.loader import vehicle_names
from samara.vehicles.payload import Payload, with_payload
from samara.world.obstacles import Box, HeightMap

IMU = part("bmi088")._replace(numbers=perfect(part("bmi088").numbers)).sensor()
SLOPE = Ground(ZERO, rotate(quat_from_euler(0.2, -0.25, 0.0), Vec3(0.0, 0.0, 1.0)))
GRID = np.linspace(-3.0, 3.0, 25)
HILL = HeightMap(GRID, GRID, 0.2 * np.cos(0.8 * GRID)[:, None] * np.cos(0.5 * GRID)[None, :])


def parked(vehicle, start_W=ZERO, **more):
    return Drone("parked", vehicle, trajectory.hover(start_W), start_W=start_W, armed=False, **more)


def watched(vehicle, seconds=0.1, start_W=ZERO, **world):
    """A drone that is left alone: what its IMU says, and where it is."""
    drone = parked(vehicle, start_W, yaw=0.4, sensors=(IMU,))
    track = fly(Scenario("parked", (drone,), seconds, rates=Rates(sensor=250.0, log=250.0), **world)).tracks[0]
    return track, track.tables["imu"].rows[:, :3]


@pytest.mark.parametrize("name", vehicle_names())
def test_a_drone_on_the_ground_reads_one_g_from_its_first_sample(name):
    """f = (0, 0, g) at t = 0, and to 0.3 % while the rotors come up to idle; what they lift then, ΣT/(n k), it rises."""
    vehicle = with_effects(samara.vehicle(name), {"thrust_curve": False})
    track, force = watched(vehicle)
    g = vehicle["gravity"].acceleration
    assert force[0] == pytest.approx((0.0, 0.0, g), abs=1e-11)
    assert force == pytest.approx(np.tile((0.0, 0.0, g), (len(force), 1)), abs=0.003 * g)
    speeds = track.rotor_speed[-1]
    lift = sum(r.k_thrust * w * w * r.axis_B.z for r, w in zip(vehicle.rotors, speeds, strict=True))
    contact = vehicle["contact"]
    risen = lift / (len(contact.points_B) * contact.surface.stiffness)
    assert track.position[-1] - track.position[0] == pytest.approx((0.0, 0.0, risen), abs=0.05 * risen + 1e-12)


def test_what_is_higher_than_the_feet_carries_nothing():
    """A hull of sixteen points above the feet: it stands as it does without, on a slope too."""
    bare = samara.vehicle("iris")
    feet = bare["contact"].points_B
    ring = (0.25 * math.pi * k for k in range(16))
    hull = tuple(Vec3(0.2 * math.cos(a), 0.2 * math.sin(a), 0.5 * feet[0].z) for a in ring)
    cased = bare.replace({"contact.points_B": feet + hull})
    for ground in (CALM.ground, SLOPE):
        environment = CALM._replace(ground=ground)
        alone, inside = (initial_state(parked(own), environment) for own in (bare, cased))
        assert flatten((inside.p_W, inside.q_WB)) == pytest.approx(flatten((alone.p_W, alone.q_WB)), abs=1e-12)
        still = derivative(inside, empty_command(cased), cased, environment)
        assert np.abs(flatten((still.v_W, still.omega_B))).max() < 1e-9


def place_of(ground):
    """A scenario's ground by its name: where a drone starts there, and the world it is in."""
    if ground == "slope":
        return ZERO, {"environment": CALM._replace(ground=SLOPE)}
    if ground == "hill":
        start = HILL.below(Vec3(0.8, 0.6, 0.0)).point_W
        return Vec3(*(float(x) for x in start)), {"world": World(terrain=HILL)}
    table = Placed("table", Box(Vec3(2.0, 0.0, 0.4), Vec3(0.5, 0.5, 0.4)))
    return Vec3(2.0, 0.1, 0.8), {"world": World(solids=(table,))}


@pytest.mark.parametrize("ground", ["slope", "hill", "table"])
@pytest.mark.parametrize("name", ["iris", "hakoniwa"])
def test_on_slopes_hills_and_tables_too(name, ground):
    """Rotors standing: |f| = g straight up at every sample, and no motion at all beyond rounding."""
    vehicle, (start_W, world) = samara.vehicle(name), place_of(ground)
    track, force = watched(vehicle, 0.5, start_W, **world)
    up = rotate_inverse(Quat(*track.attitude[0].tolist()), Vec3(0.0, 0.0, vehicle["gravity"].acceleration))
    assert force == pytest.approx(np.tile(up, (len(force), 1)), abs=1e-6)
    assert np.abs(track.position - track.position[0]).max() < 1e-9
    assert np.abs(track.position[0] - np.array(start_W)).max() < 1.01 * clearance(vehicle)
    assert (np.degrees(track.tilt[0]) > 5.0) == (ground != "table")
    assert track.euler[0, 2] == pytest.approx(0.4, abs=0.05)  # its yaw is kept


@pytest.mark.parametrize("ground", [Ground(), SLOPE], ids=["level", "slope"])
def test_the_feet_share_a_load_beside_the_centre_by_the_law_of_the_lever(ground):
    """Σ N = m g cos α, Σ r × F = 0 with the feet's normal forces and grips; the foot near the load carries the most."""
    vehicle = with_payload(samara.vehicle("iris"), Payload(0.4, Vec3(0.06, 0.05, -0.02)))
    environment = CALM._replace(ground=ground)
    state = initial_state(parked(vehicle), environment)
    rate = derivative(state, empty_command(vehicle), vehicle, environment)
    assert (*rate.v_W, *rate.omega_B) == pytest.approx((0.0,) * 6, abs=1e-9)
    k, grips = vehicle["contact"].surface.stiffness, state.effects[vehicle.index("contact")]
    feet = [rotate(state.q_WB, point_B) for point_B in vehicle["contact"].points_B]
    normal = [k * dot(ground.point_W - state.p_W - r_W, ground.normal_W) for r_W in feet]
    pushes = [ground.normal_W * n - grip * k for n, grip in zip(normal, grips, strict=True)]
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert sum(normal) == pytest.approx(weight * ground.normal_W.z, rel=1e-12)
    torque = sum(np.cross(r_W, push) for r_W, push in zip(feet, pushes, strict=True))
    assert torque == pytest.approx(np.zeros(3), abs=1e-11 * weight)
    assert int(np.argmax(normal)) == 0 or ground is SLOPE  # front left
    assert min(normal) > 0.0


def test_what_starts_above_the_ground_falls_and_what_cannot_hold_slides():
    """5 cm up: free fall from the first instant. On 45° with μ = 0.8 < tan 45° there is no standing: it starts as told."""
    vehicle = samara.vehicle("iris")
    high = initial_state(parked(vehicle, Vec3(0.0, 0.0, 0.05)))
    assert high.p_W == (0.0, 0.0, 0.05 + clearance(vehicle))
    assert derivative(high, (0.0,) * 4, vehicle).v_W.z == pytest.approx(-9.80665, rel=1e-12)
    steep = CALM._replace(ground=Ground(ZERO, Vec3(math.sqrt(0.5), 0.0, math.sqrt(0.5))))
    assert initial_state(parked(vehicle), steep).p_W == (0.0, 0.0, clearance(vehicle))


def test_what_would_fall_over_is_not_held_up():
    """A load outside the feet tips it: no standing, the flight begins as it would have."""
    tipping = with_payload(samara.vehicle("iris"), Payload(3.0, Vec3(0.6, 0.0, 0.0)))
    state = initial_state(parked(tipping))
    assert state.q_WB == (1.0, 0.0, 0.0, 0.0)
    assert derivative(state, (0.0,) * 4, tipping).v_W.z < -9.0
