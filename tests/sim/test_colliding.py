"""Solids in a flight: nothing passes through, nothing gains energy, a standing drone stays, and a replay repeats impacts."""

import math
from dataclasses import replace

import casadi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.stage_runs import put_ground_below

import samara
from samara.control.mpc import MPC
from samara.core.algebra import EAST, IDENTITY, UP, ZERO, Quat, Vec3, dot, quat_from_euler, rotate
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Collider, Material, apply_impulse, collision_impulse
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.motion.body import kinetic_energy
from samara.physics.multirotor import state_at_rest
from samara.plan import trajectory
from samara.record.load import load_run
from samara.scenario.file import ScenarioError, parse_scenario
from samara.scenario.flight_events import ContactTarget, OccurrenceType, PartType
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.scenario.world import Obstacle, World, sphere_obstacles, world_from_json, world_json
from samara.sensors.registry import part
from samara.sim.collide.clearance import part_arrays
from samara.sim.collide.collisions import CollisionWorld, rigid_body_state
from samara.sim.collide.impacts import DroneStep as Meeting
from samara.sim.collide.impacts import bounce_drones, first_drone_hit, place_drone_parts
from samara.sim.collide.parts import collision_parts
from samara.sim.fly import fly
from samara.sim.plant import Plant, plant_state, set_plant_state
from samara.sim.replay import replay
from samara.sim.simulation import Simulation
from samara.world.obstacles import HeightMap, Ray, ray_distance

IRIS = samara.vehicle("iris_documented")
FREE = IRIS.without_effect(*(effect.name for effect in IRIS.structure.effects if effect.name not in ("rotors", "body")))
FOOTED = IRIS.without_effect(
    *(effect.name for effect in IRIS.structure.effects if effect.name not in ("rotors", "contact"))
)
SLOW = Rates(control=50.0, estimator=50.0, wind=50.0, scenario=50.0, log=50.0, sensor=50.0)
TABLE = Obstacle("table", Box(Vec3(0.0, 0.0, 0.75), Vec3(0.6, 0.6, 0.02)))
DOWN = quat_from_euler(0.0, math.pi / 2.0, 0.0)


def world(*solids, **options):
    return World(
        tuple(solid if isinstance(solid, Obstacle) else Obstacle(str(k), solid) for k, solid in enumerate(solids)),
        **options,
    )


def plant_at(vehicle, *states, integrator="rk4", physics_us=1000):
    plant = Plant(vehicle, n=len(states), integrator=integrator, physics_us=physics_us)
    for column, state in enumerate(states):
        set_plant_state(plant, column, state)
    return plant


def moving(vehicle, p_W, v_W, q_WB=IDENTITY, omega_B=ZERO):
    return state_at_rest(vehicle, p_W, q_WB)._replace(v_W=v_W, omega_B=omega_B)


def idle(start, *, vehicle=IRIS, name="iris", **options):
    return Drone(name, vehicle, trajectory.hover(start), start_W=start, armed=False, **options)


def log_messages(run):
    return [line.message for line in run.logs]


# Solids ------------------------------------------------------------------------------------------------------------


def test_without_solids_no_collision_code_runs(monkeypatch):
    """A world without solids is integrated by the plants alone, bit for bit, without collision code."""
    scenario = Scenario("fall", (idle(Vec3(0.0, 0.0, 1.0)),), 0.3)
    expected = fly(scenario).position

    def never(*arguments):
        raise AssertionError("called")

    monkeypatch.setattr("samara.sim.collide.collisions.CollisionWorld", never)
    assert "ground" not in [entry.name for entry in Simulation(scenario).fleet.stages]
    assert (fly(scenario).position == expected).all()
    with pytest.raises(AssertionError, match="called"):
        fly(replace(scenario, world=world(TABLE)))


@pytest.mark.parametrize("integrator", ["rk4", pytest.param("rk45", marks=pytest.mark.long)])
@pytest.mark.parametrize("angle", [0.0, 0.6, 1.3])
@pytest.mark.parametrize("kind", ["sheet", "plane"])
def test_nothing_passes_at_twenty_metres_per_second_in_steps_of_four_milliseconds(kind, angle, integrator):
    """A step is 80 mm and the sheet 1 mm: no part of the drone is ever behind it, tumbling or not."""
    direction = Vec3(math.cos(angle), 0.0, math.sin(angle))
    solid = {
        "sheet": Box(Vec3(2.0, 0.0, 5.0), Vec3(0.0005, 50.0, 50.0)),
        "plane": Ground(Vec3(2.0, 0.0, 5.0), Vec3(-1.0, 0.0, 0.0)),
    }[kind]
    tumbling = moving(IRIS, Vec3(0.0, 0.0, 5.0), direction * 20.0, omega_B=Vec3(3.0, -8.0, 5.0))
    plant = plant_at(IRIS, tumbling, integrator=integrator, physics_us=4000)
    collider = CollisionWorld(world(solid), [plant], [[0]])
    collisions, parts = [], part_arrays(collision_parts(IRIS))
    for k in range(120):
        collisions += collider.advance(4000 * k, 4000 * (k + 1))
        body = rigid_body_state(plant.state[:, 0])
        centre_W, axis_W = place_drone_parts(body, parts)
        assert centre_W.x.max() < 2.0 + 1e-3
        if kind == "plane":  # a rim may rotate into a thin sheet: at 20 rad/s it moves 10 mm in a step
            assert (centre_W.x + parts.disc * np.sqrt(1.0 - axis_W.x**2)).max() < 2.0 + 2e-3
    assert collisions and collisions[0].speed > 3.0


def room(side, restitution, friction):
    walls = []
    for k in range(3):
        for sign in (-1.0, 1.0):
            normal = [0.0, 0.0, 0.0]
            normal[k] = sign
            walls.append(
                Obstacle(
                    f"{k}{sign}", Ground(Vec3(*normal) * (0.5 * side), -Vec3(*normal)), Material(restitution, friction)
                )
            )
    return walls


def energy(state, vehicle):
    return kinetic_energy(state.v_W, state.omega_B, mass=vehicle.mass, inertia_B=vehicle.inertia_B)


@pytest.mark.parametrize(("restitution", "friction"), [(1.0, 0.0), (0.6, 0.5), (0.0, 1.0)])
def test_a_body_in_a_room_never_gains_energy_and_conserves_it_in_elastic_impacts(restitution, friction):
    """Without gravity, air and rotors a body bounces from wall to wall. E = ½mv² + ½ω·Jω"""
    crate = Obstacle("crate", Box(Vec3(0.6, 0.4, 0.2), Vec3(0.2, 0.2, 0.3), quat_from_euler(0.3, 0.2, 0.9)))
    crate = crate._replace(material=Material(restitution, friction))
    start = moving(FREE, Vec3(-0.6, 0.1, 0.0), Vec3(3.0, 2.0, -1.0), omega_B=Vec3(1.0, 4.0, -2.0))
    plant = plant_at(FREE, start)
    collider, collisions = CollisionWorld(World((*room(2.4, restitution, friction), crate)), [plant], [[0]]), []
    last_energy = energy(start, FREE)
    initial_energy = last_energy
    for k in range(500):
        collisions += collider.advance(4000 * k, 4000 * (k + 1))
        current_energy = energy(plant_state(plant, 0), FREE)
        assert current_energy <= last_energy * (1.0 + 1e-9)
        last_energy = current_energy
    assert len(collisions) > 4 and np.abs(plant.state[:3]).max() < 1.2
    if restitution == 1.0:
        assert current_energy == pytest.approx(initial_energy, rel=1e-3)  # hits slower than 5 cm/s do not bounce
    else:
        assert current_energy < 0.8 * initial_energy


def test_two_free_bodies_collide_by_hakoniwas_equation():
    """Head on, without friction: both parts of the impulse are `collision_impulse`, and momentum is conserved to rounding."""
    one = moving(FOOTED, Vec3(-1.0, 0.02, 5.01), Vec3(4.0, 0.0, 0.0))
    other = moving(FOOTED, Vec3(1.0, 0.0, 5.0), Vec3(-2.0, 0.0, 0.0))
    plant = plant_at(FOOTED, one, other)
    collider = CollisionWorld(world(collisions=True, drone=Material(0.7, 0.0)), [plant], [[0, 1]])
    before = [plant_state(plant, column) for column in (0, 1)]
    for k in range(400):
        collisions = collider.advance(1000 * k, 1000 * (k + 1))
        after = [plant_state(plant, column) for column in (0, 1)]
        if collisions:
            break
        before = after
    mass, inertia_B = FOOTED.mass, FOOTED.inertia_B
    assert list((after[0].v_W + after[1].v_W) * mass) == pytest.approx([2.0 * mass, 0.0, 0.0], abs=1e-12)
    # Every impulse is along x, at the rim of a propeller: one after the other by Hakoniwa's equation.
    motion = [(state.v_W, ZERO) for state in before]
    for collision in collisions:
        drone_index, other_index, side = collision.drone, collision.other, 1.0 if collision.drone == 0 else -1.0
        r_W = collision.part.centre_B + Vec3(side * collision.part.radius, 0.0, 0.0)
        arms = r_W, before[drone_index].p_W + r_W - before[other_index].p_W
        drone_body, other_body = (
            Collider(*motion[drone], arm, IDENTITY, mass, inertia_B)
            for drone, arm in zip((drone_index, other_index), arms, strict=True)
        )
        impulse = collision_impulse(drone_body, other_body, Vec3(-1.0, 0.0, 0.0), 0.7)
        for drone, body, push in ((drone_index, drone_body, impulse), (other_index, other_body, -impulse)):
            hit = apply_impulse(body, push)
            motion[drone] = hit.v_W, hit.omega_W
    for end_state, (v_W, omega_W) in zip(after, motion, strict=True):
        assert list(end_state.v_W) == pytest.approx(list(v_W), abs=0.05)
        assert list(end_state.omega_B) == pytest.approx(list(omega_W), abs=0.5)


@pytest.mark.parametrize("restitution", [1.0, 0.5])
def test_a_point_that_bounces_keeps_its_time(restitution):
    """d/v to the wall and e v afterwards: x = d − e v (T − d/v), although the wall is hit within a step"""
    point = replace(FREE, rotors=tuple(rotor._replace(radius=0.0) for rotor in FREE.rotors))
    plant = plant_at(point, moving(point, ZERO, Vec3(3.0, 0.0, 0.0)))
    wall = Obstacle("wall", Ground(Vec3(0.5, 0.0, 0.0), Vec3(-1.0, 0.0, 0.0)), Material(restitution, 0.0))
    collider = CollisionWorld(world(wall), [plant], [[0]])
    for k in range(100):
        collider.advance(4000 * k, 4000 * (k + 1))
    assert plant.state[0, 0] == pytest.approx(0.5 - restitution * 3.0 * (0.4 - 0.5 / 3.0), abs=1e-9)
    assert plant.state[3, 0] == pytest.approx(-3.0 * restitution, rel=1e-12)


def drone_step(p_W, v_W):
    start = moving(FOOTED, p_W, v_W)
    return Meeting(start, start._replace(p_W=p_W + v_W * 0.01), FOOTED, collision_parts(FOOTED))


def test_a_slower_drone_ahead_is_hit_and_a_faster_one_is_not():
    """The relative speed counts: 1 m/s ahead of 4 m/s is hit at 3 m/s, in both orders; 4 ahead of 1 never."""
    behind, ahead = Vec3(-0.56, 0.0, 5.0), Vec3(0.0, 0.0, 5.0)
    for one, other in (
        (drone_step(behind, EAST * 4.0), drone_step(ahead, EAST)),
        (drone_step(ahead, EAST), drone_step(behind, EAST * 4.0)),
    ):
        assert first_drone_hit(one, other).speed == pytest.approx(3.0, rel=1e-12)
    assert first_drone_hit(drone_step(behind, EAST), drone_step(ahead, EAST * 4.0)) is None


def test_overlapping_drones_are_separated_about_their_common_centre():
    one, other = drone_step(Vec3(-0.55, 0.0, 5.0), EAST), drone_step(Vec3(0.0, 0.0, 5.0), EAST * -1.0)
    hit = first_drone_hit(one, other)
    assert hit.depth == pytest.approx(2 * 0.2785 - 0.55, abs=1e-9)
    one_state, other_state = bounce_drones(one, other, hit, Material(0.5, 0.0))
    assert other_state.p_W.x - one_state.p_W.x == pytest.approx(2 * 0.2785, abs=1e-9)
    assert other_state.p_W.x + one_state.p_W.x == pytest.approx(-0.55, abs=1e-12)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0)])
def test_the_order_of_drones_makes_no_difference(order):
    """Three in a row collide; permuting them permutes the result, bit for bit."""
    states = [
        moving(FOOTED, Vec3(-1.2, 0.0, 5.0), Vec3(5.0, 0.0, 0.0)),
        moving(FOOTED, Vec3(0.0, 0.0, 5.0), ZERO),  # hit at two points simultaneously
        moving(FOOTED, Vec3(1.0, -0.05, 5.0), Vec3(-1.0, 0.0, 0.0)),
    ]
    plants = [plant_at(FOOTED, states[k]) for k in order]
    permuted = CollisionWorld(world(collisions=True), plants, [[k] for k in order])
    ordered_plant = plant_at(FOOTED, *states)
    ordered = CollisionWorld(world(collisions=True), [ordered_plant], [[0, 1, 2]])
    hits = 0
    for k in range(120):
        hits += len(permuted.advance(4000 * k, 4000 * (k + 1)))
        ordered.advance(4000 * k, 4000 * (k + 1))
    assert hits > 1
    for column, plant in zip(order, plants, strict=True):
        assert (plant.state[:, 0] == ordered_plant.state[:, column]).all()


# Standing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["rk4", pytest.param("rk45", marks=pytest.mark.long)])
def test_a_drone_on_a_box_stays_there_for_a_minute(integrator):
    """No jitter and no energy gain: after a second the height changes by less than a micrometre, without collisions."""
    seconds = 60.0 if integrator == "rk4" else 3.0
    run = fly(
        Scenario("rest", (idle(Vec3(0.3, 0.2, 0.77)),), seconds, rates=SLOW, world=world(TABLE), integrator=integrator)
    )
    late = run.position[100:]
    assert np.ptp(late, axis=0).max() < 1e-6
    assert late[-1, 2] == pytest.approx(0.77 + 0.13 - IRIS.mass * 9.81 / (4 * 1250.0), abs=1e-4)
    assert np.abs(run.velocity[100:]).max() < 1e-6
    assert log_messages(run) == ["landed"]


def test_it_lands_on_a_table_and_falls_off_its_edge():
    """Above the table it stands at the table's height; with two feet beyond the edge it tips; beyond it, it falls."""
    on = fly(Scenario("on", (idle(Vec3(0.4, 0.0, 0.8)),), 1.5, rates=SLOW, world=world(TABLE)))
    off = fly(Scenario("off", (idle(Vec3(0.63, 0.0, 0.8)),), 1.5, rates=SLOW, world=world(TABLE)))
    assert on.position[-1, 2] == pytest.approx(0.9, abs=0.01) and log_messages(on) == ["landed"]
    half = fly(Scenario("half", (idle(Vec3(0.55, 0.0, 0.8)),), 0.5, rates=SLOW, world=world(TABLE)))
    assert on.tilt.max() < math.radians(1.0) and half.tilt.max() > math.radians(15.0)
    assert off.position[-1, 2] < 0.5
    assert any("struck obstacle table (box)" in line for line in log_messages(off))


@pytest.mark.parametrize("degrees", [25.0, 45.0])
def test_on_a_slope_it_stands_or_slides_by_its_friction_angle(degrees):
    """tan 25° < μ = 0.8 < tan 45°. Sliding: s = ½ g (sin α − μ cos α) t²"""
    slope = math.radians(degrees)
    attitude = quat_from_euler(0.0, slope, 0.0)
    normal = rotate(attitude, UP)
    vehicle = IRIS.without_effect("drag") if IRIS.has("drag") else IRIS
    resting = normal * (0.13 - IRIS.mass * 9.81 * math.cos(slope) / (4 * 1250.0))
    plant = plant_at(vehicle, state_at_rest(vehicle, resting, attitude))
    slope_world = world(Ground(ZERO, normal))
    collider = CollisionWorld(slope_world, [plant], [[0]])
    collisions = []
    for k in range(100):
        put_ground_below(plant, slope_world, Ground(Vec3(0.0, 0.0, -50.0)))
        collisions += collider.advance(5000 * k, 5000 * (k + 1))
    displacement = Vec3(*plant.state[:3, 0].tolist()) - resting
    down = rotate(attitude, Vec3(1.0, 0.0, 0.0))
    slide = dot(displacement, down)
    expected = 0.5 * 9.81 * (math.sin(slope) - 0.8 * math.cos(slope)) * 0.5**2 if degrees > 40.0 else 0.0
    assert slide == pytest.approx(expected, rel=0.05, abs=0.01)
    assert abs(dot(displacement, normal)) < 2e-3
    assert not collisions


@pytest.mark.long
def test_a_press_against_a_wall_does_not_stop_the_clock():
    """A drone that presses on a wall with many parts moves as it does in steps a quarter as long."""
    drone = Drone("iris", IRIS, trajectory.hover(Vec3(6.0, 0.0, 2.0)), start_W=Vec3(1.5, 0.0, 2.0), airborne=True)
    wall = Obstacle("wall", Box(Vec3(3.0, 0.0, 2.0), Vec3(0.01, 3.0, 2.0)))
    runs = [
        fly(Scenario("press", (drone,), 1.2, rates=Rates(physics=rate), world=world(wall))) for rate in (1000.0, 4000.0)
    ]
    pitch = [run.euler[:, 1] for run in runs]
    assert np.abs(pitch[0] - pitch[1]).max() < math.radians(5.0) < pitch[0].max() - pitch[0].min()
    assert (np.abs(np.diff(pitch[0][-20:])) > 0.0).any()


# In a scenario -----------------------------------------------------------------------------------------------------

BUMP = """
name = "bump"
duration = 0.74
propeller_strike = "{strike}"
collisions = true

[[obstacles]]
name = "wall"
shape = "box"
centre = [2.0, 0.0, 1.0]
size = [0.2, 4.0, 4.0]

[[drones]]
name = "iris"
vehicle = "iris_documented"
start = [0.8, 0, 1]
airborne = true
[[drones.tasks]]
type = "waypoints"
points = [[4, 0, 1]]
speed = 3.0

[[drones]]
name = "late"
vehicle = "iris_documented"
start = [-0.1, 0.1, 1.05]
airborne = true
[[drones.tasks]]
type = "waypoints"
points = [[4, 0.1, 1.05]]
speed = 5.0
"""


@pytest.mark.parametrize("integrator", ["rk4", pytest.param("rk45", marks=pytest.mark.long)])
def test_a_strike_is_logged_and_breaks_the_propeller_and_a_replay_repeats_the_impacts(tmp_path, integrator):
    """Two drones against a wall and each other: occurrences, log, `crashed`, the dead motor; and every state of the replay."""
    text = f'integrator = "{integrator}"\n' + BUMP.format(strike="break")
    run = fly(parse_scenario(text, "bump.toml"), out=tmp_path / "bump.mcap")
    strikes = [event for event in run.occurrences if event.type is OccurrenceType.COLLIDED]
    walls = [event for event in strikes if event.target is ContactTarget.OBSTACLE and event.part is PartType.PROPELLER]
    assert walls and {event.target_index for event in walls} == {0}
    assert (
        set(run.crashed)
        == {"iris", "late"}
        == {run.drone_records[event.drone].name for event in run.occurrences if event.type is OccurrenceType.CRASHED}
    )
    pairs = [
        (event.drone, event.target_index, event.part, event.part_index)
        for event in strikes
        if event.target is ContactTarget.DRONE
    ]
    assert pairs and pairs == [
        (event.target_index, event.drone, event.part, event.part_index)
        for event in strikes
        if event.target is ContactTarget.OTHER_DRONE
    ]
    broken = {event.part_index for event in strikes if event.drone == 0 and event.part is PartType.PROPELLER}
    power = run["iris"].tables["environment"]["motor_effectiveness"][-1]
    dead = [k for k in range(4) if power[k] == 0.0]
    assert dead and set(dead) <= broken and len(dead) == min(len(broken), 3)
    assert dead == sorted(
        event.part_index for event in run.occurrences if event.drone == 0 and event.type is OccurrenceType.MOTOR_FAILED
    )
    impacts = [event for event in run.occurrences if event.type in (OccurrenceType.COLLIDED, OccurrenceType.CRASHED)]
    logged = [
        event
        for event in impacts
        if event.type is OccurrenceType.CRASHED or event.target is not ContactTarget.OTHER_DRONE
    ]
    assert sorted(map(run.describe, logged)) == sorted(line.message for line in run.logs if line.level == "warning")
    assert run.describe(walls[0]).startswith(f"iris: propeller {walls[0].part_index} struck obstacle wall (box) at ")
    loaded = load_run(tmp_path / "bump.mcap")
    assert loaded.occurrences == run.occurrences
    replayed = replay(loaded)
    for track, other in zip(run.drone_records, replayed.drone_records, strict=True):
        assert (track.tables["state"].rows == other.tables["state"].rows).all()
    if integrator == "rk4":
        reported = fly(parse_scenario(BUMP.format(strike="report"), "bump.toml", {"duration": 0.61}))
        assert reported["iris"].tables["environment"]["motor_effectiveness"].min() == 1.0


def test_a_world_is_written_and_read_bit_for_bit():
    hill = HeightMap.from_grid([[0.0, 0.1], [0.3, 1.0 / 3.0]], 0.7)
    original = world(
        TABLE, Obstacle("a", Sphere(Vec3(0.1, 0.2, 0.3), 0.4), Material(0.1, 0.9)), Capsule(ZERO, UP, 0.1), Ground(), hill,
        terrain=hill, collisions=True, propeller_strike="break",
    )  # fmt: skip
    assert world_from_json(world_json(original)) == original


@pytest.mark.long
def test_a_sphere_of_the_world_is_an_obstacle_for_ilqr():
    """One description: the solid of the world, enlarged by the drone's radius."""
    sphere_world = world(TABLE, Sphere(Vec3(0.6, 0.05, 1.0), 0.2))
    (ball,) = sphere_obstacles(sphere_world, margin=0.1)
    assert ball == Sphere(Vec3(0.6, 0.05, 1.0), pytest.approx(0.3))
    MPC(samara.vehicle("crazyflie_documented"), horizon=5, obstacles=[ball])


# Height maps -------------------------------------------------------------------------------------------------------

HILL = HeightMap.from_grid(
    (1.5 * np.exp(-((np.arange(-6, 7)[:, None]) ** 2 + np.arange(-5, 6)[None, :] ** 2) / 6.0)), 1.0, (-6.0, -5.0)
)


def test_standing_on_the_slope_of_a_map_is_standing_on_its_plane():
    """z = 0.2 x as a map and as a plane: the same flight, to a micrometre."""
    x = np.linspace(-5.0, 5.0, 11)
    slope = HeightMap(x, x, 0.2 * x[:, None] + 0.0 * x[None, :])
    plane = Ground(ZERO, Vec3(-0.2, 0.0, 1.0) / math.sqrt(1.04))
    calm = samara.physics.types.CALM
    drone = idle(Vec3(1.0, 0.3, 0.25))
    by_map = fly(Scenario("map", (drone,), 2.0, world=World(terrain=slope)))
    by_plane = fly(Scenario("plane", (drone,), 2.0, environment=calm._replace(ground=plane)))
    assert np.abs(by_map.position - by_plane.position).max() < 1e-6
    assert by_map.position[-1, 2] == pytest.approx(0.2 * by_map.position[-1, 0] + 0.13 * math.sqrt(1.04), abs=0.01)
    assert log_messages(by_map) == log_messages(by_plane) == ["landed"]


def test_a_range_finder_measures_the_hill_below():
    """Straight down from 3 m over the hill's flank: 3 − h(x, y), in flight over it, within a tick of the wind."""
    finder = part("vl53l1x", noise=0.0, noise_growth=0.0, resolution=0.0).sensor(q_BS=DOWN)
    drone = Drone(
        "iris", IRIS, trajectory.line(Vec3(-4.0, 0.5, 3.0), Vec3(4.0, 0.5, 3.0), speed=1.0), Vec3(-4.0, 0.5, 3.0),
        airborne=True, sensors=(finder,),
    )  # fmt: skip
    run = fly(Scenario("hill", (drone,), 6.0, rates=Rates(sensor=100.0), world=World(terrain=HILL)))
    table = run.drone_records[0].tables["range_finder"]
    rows = np.searchsorted(
        run.tables["state"].times_us if hasattr(run, "tables") else run.drone_records[0].tables["state"].times_us,
        table.times_us,
    )
    p = run.position[np.clip(rows, 0, len(run.position) - 1)]
    height = p[:, 2] - HILL.tangent_plane(Vec3(*p.T)).point_W.z
    is_level = run.tilt[np.clip(rows, 0, len(run.position) - 1)] < math.radians(2.0)
    assert is_level.sum() > 40 and np.ptp(height[is_level]) > 1.0
    assert table["distance"].ravel()[is_level] == pytest.approx(height[is_level], abs=0.06)


@pytest.mark.long
def test_a_range_finder_detects_the_solids_of_the_scenario():
    """Forward and down, compiled, among all convex types and a map: equal to `ray_distance`, without error."""
    solids = (TABLE.solid, Sphere(Vec3(3.0, 0.3, 1.0), 0.5), Capsule(Vec3(2.0, -1.0, 0.0), Vec3(2.0, -1.0, 3.0), 0.1))
    state = samara.hover(IRIS, Vec3(0.0, 0.2, 1.9))[0]
    for mounting in (DOWN, quat_from_euler(0.0, 0.3, 0.0), quat_from_euler(0.0, 0.2, -0.5)):
        for obstacles in (solids, (*solids, HILL)):
            finder = part("vl53l1x", noise=0.0, noise_growth=0.0, resolution=0.0).sensor(q_BS=mounting)
            drone = Drone("iris", IRIS, trajectory.hover(state.p_W), state.p_W, airborne=True, sensors=(finder,))
            simulation = Simulation(Scenario("see", (drone,), 0.1, rates=Rates(sensor=100.0), world=world(*obstacles)))
            simulation.advance()
            (sensor_rows,) = simulation.groups[0].sensors
            assert sensor_rows.sensor.traced is (len(obstacles) == 3)
            ray = Ray(state.p_W, rotate(mounting, Vec3(1.0, 0.0, 0.0)))
            nearest = min(ray_distance(ray, solid) for solid in (Ground(), *obstacles))
            assert sensor_rows.reading[0, 0] == pytest.approx(min(nearest, 4.0), abs=1e-6)


def test_a_map_is_the_same_on_every_backend():
    """The cell found by NumPy and JAX, batched and under jit, and unrolled by CasADi: height and normal, also outside."""
    x, y = np.random.default_rng(3).uniform(-8.0, 8.0, (2, 200))
    p_W = Vec3(x, y, np.full(200, 4.0))
    expected = np.stack([*HILL.tangent_plane(p_W).point_W, *HILL.tangent_plane(p_W).normal_W])
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        by_jax = jax.jit(lambda p: HILL.tangent_plane(p))(Vec3(*(jnp.asarray(leaf) for leaf in p_W)))
        assert np.stack([*by_jax.point_W, *by_jax.normal_W]) == pytest.approx(expected, abs=1e-12)
        rays = jax.jit(lambda p: ray_distance(Ray(p, Vec3(0.6, 0.0, -0.8)), HILL))(
            Vec3(*(jnp.asarray(leaf) for leaf in p_W))
        )
    ray = Ray(p_W, Vec3(0.6, 0.0, -0.8))
    assert np.asarray(rays) == pytest.approx(ray_distance(ray, HILL), abs=1e-6)
    symbol = casadi.SX.sym("p", 3)
    plane = HILL.tangent_plane(Vec3(*(symbol[k] for k in range(3))))
    code = casadi.Function("h", [symbol], [casadi.vertcat(*plane.point_W, *plane.normal_W)])
    unrolled = np.array([np.array(code(leaf)).ravel() for leaf in np.stack(p_W, axis=1)]).T
    assert unrolled == pytest.approx(expected, abs=1e-12)
    h = 1e-6
    slope = (
        HILL.tangent_plane(p_W + Vec3(h, 0.0, 0.0)).point_W.z - HILL.tangent_plane(p_W + Vec3(-h, 0.0, 0.0)).point_W.z
    ) / (2 * h)
    assert -expected[3] / expected[5] == pytest.approx(slope, abs=1e-6)


# Files -------------------------------------------------------------------------------------------------------------

HEAD = 'duration = 1.0\n[[drones]]\nname = "iris"\nvehicle = "iris_documented"\nstart = [0, 0, 1]\n'


def test_a_map_is_read_from_a_file_and_travels_with_the_recording(tmp_path):
    """.npy, .csv and inline rows are one map; a recording without the file replays bit for bit."""
    rows = [[0.0, 0.1, 0.2], [0.3, 0.4, 0.5]]
    np.save(tmp_path / "hill.npy", np.array(rows))
    np.savetxt(tmp_path / "hill.csv", rows, delimiter=",")
    maps = [
        parse_scenario(
            f"{HEAD}[ground]\n{line}\nspacing = 2.0\norigin = [-1, -2]\n", "a.toml", None, tmp_path
        ).world.terrain
        for line in ('height_map = "hill.npy"', 'height_map = "hill.csv"', f"heights = {rows}")
    ]
    assert maps[0] == maps[1] == maps[2] == HeightMap([-1.0, 1.0], [-2.0, 0.0, 2.0], rows)
    ball = '[[obstacles]]\nshape = "sphere"\ncentre = [0.1, 0, 0.2]\nradius = 0.3\n'
    text = f'{HEAD}armed = false\n[ground]\nheight_map = "hill.npy"\nspacing = 2.0\n{ball}'
    run = fly(parse_scenario(text, "a.toml", None, tmp_path), out=tmp_path / "a.mcap")
    (tmp_path / "hill.npy").unlink()
    replayed = replay(load_run(tmp_path / "a.mcap"))
    assert (replayed.drone_records[0].tables["state"].rows == run.drone_records[0].tables["state"].rows).all()
    assert any("struck obstacle 0 (sphere)" in line for line in log_messages(run))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[obstacles]]\nshape = "cube"', r"obstacles\[0\].shape = 'cube': expected one of plane, sphere, capsule, box, "),
        ('[[obstacles]]\nshape = "sphere"\ncentre = [0, 0, 9]', r"obstacles\[0\].radius is missing"),
        ('[[obstacles]]\nshape = "sphere"\ncentre = [0, 0, 9]\nradius = -1', "radius = -1: expected a number above 0"),
        ('[[obstacles]]\nshape = "box"\ncentre = [0, 0, 9]\nsize = [1, 0, 1]', r"size\[1\] = 0: expected a number above 0"),
        ('[[obstacles]]\nshape = "plane"\nnormal = [0, 0, 0]', "expected a direction"),
        ('[[obstacles]]\nshape = "plane"\nrestitution = 2', r"restitution = 2.0: expected a number from 0 to 1"),
        ('[[obstacles]]\nshape = "box"\ncentre = [0, 0, 1]\nsize = [1, 1, 1]', r"iris starts inside obstacle 0 \(box\)"),
        ('[[obstacles]]\nshape = "height_map"\nfile = "none.npy"', r"obstacles\[0\].file = 'none.npy': expected a file beside"),
        (
            '[[obstacles]]\nshape = "height_map"\nspacing = 1.0',
            r"expected either a file \(.npz, .npy, .csv\) or rows of `heights`",
        ),
        ("[ground]\nheights = [[0, 1], [2]]\nspacing = 1", "heights: expected lists of equal length"),
        ("[ground]\nheights = [[5, 5], [5, 5]]\nspacing = 1", "iris starts at a height of 1 m, below the ground; expected 5 m"),
        ("propeller_strike = 1", "propeller_strike = 1: expected one of report, break"),
    ],
)  # fmt: skip
def test_an_error_in_the_file_is_one_sentence(text, sentence):
    document = f"{text}\n{HEAD}" if "=" in text.split("\n")[0] else f"{HEAD}{text}\n"
    with pytest.raises(ScenarioError, match=sentence) as raised:
        parse_scenario(document, "a.toml")
    assert str(raised.value).count("\n") == 0


@pytest.mark.long
def test_a_thousand_drones_that_may_collide_fly():
    """A grid of hovering Crazyflies, a metre apart: the pairs are checked, and no step is repeated."""
    crazyflie = samara.vehicle("crazyflie_documented")
    states = [samara.hover(crazyflie, Vec3(float(k % 32), float(k // 32), 1.0))[0] for k in range(1000)]
    plant = plant_at(crazyflie, *states)
    collider = CollisionWorld(world(collisions=True), [plant], [range(1000)])
    assert collider.advance(0, 4000) == []
    assert Quat(*plant.state[6:10, 0]).w == pytest.approx(1.0)
