"""Uncontrolled drones thrown at solids: the pure functions in JAX against the collisions on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.stage_runs import put_ground_below

import samara
from samara.compiler.jax.arrays import precision
from samara.compiler.jax.folding_scalar import (
    FoldingScalar,
    fold_over_others,
    fold_tree,
    new_trace,
    rk4_loop,
    unfold_leaves,
)
from samara.core.algebra import IDENTITY, ZERO, Vec3, quat_from_euler
from samara.core.tree import flatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.ground.solids import Box, Sphere
from samara.physics.multirotor import complete_environment, derivative, state_at_rest, zero_command
from samara.scenario.world import Obstacle, World
from samara.sim.collide.collisions import CollisionWorld
from samara.sim.collide.parts import collision_parts, hull_box, part_shapes
from samara.sim.plant import Plant, set_plant_state
from samara.world.collision import (
    CollisionInertia,
    Impact,
    advance_with_impacts,
    build_obstacles,
    parts_table,
)
from samara.world.drone_collision import Swarm, advance_drones_with_impacts
from samara.world.ground import ground_below

IRIS = samara.vehicle("iris_documented")
VEHICLE = IRIS.without_effect(
    *(effect.name for effect in IRIS.structure.effects if effect.name not in ("rotors", "contact"))
)
SOLIDS = (
    Obstacle("wall", Box(Vec3(3.0, 0.0, 2.0), Vec3(0.01, 2.0, 2.0)), Material(0.5, 0.3)),
    Obstacle(
        "edge", Box(Vec3(10.0, 0.0, 1.0), Vec3(0.5, 2.0, 0.5), quat_from_euler(0.0, 0.6, 0.2)), Material(0.3, 0.4)
    ),
    Obstacle("table", Box(Vec3(20.0, 0.0, 0.75), Vec3(0.8, 0.8, 0.02)), Material(0.2, 0.5)),
    Obstacle("ball", Sphere(Vec3(30.0, 0.0, 2.0), 0.4), Material(0.7, 0.1)),
)
TOPS = tuple(placed.solid for placed in SOLIDS if isinstance(placed.solid, Box))
STARTS = {
    "wall": (Vec3(2.5, 0.1, 2.0), Vec3(8.0, 0.5, 1.0), quat_from_euler(0.3, 0.2, 0.4), Vec3(1.0, -2.0, 0.5)),
    "edge": (Vec3(9.87, 0.1, 2.2), Vec3(-0.5, 0.0, -4.0), quat_from_euler(0.1, -0.2, 1.0), ZERO),
    "table": (Vec3(20.05, -0.1, 1.0), Vec3(0.3, 0.1, -1.5), IDENTITY, Vec3(0.1, 0.2, 0.0)),
    "ball": (Vec3(30.2, 0.1, 3.0), Vec3(0.0, -0.2, -5.0), quat_from_euler(-0.4, 0.1, 0.0), Vec3(0.0, 3.0, 0.0)),
    "nothing": (Vec3(0.0, 0.0, 5.0), Vec3(1.0, 0.0, 0.0), IDENTITY, ZERO),
}
STEPS, STEP_US = 250, 1000


def starts():
    return [
        state_at_rest(VEHICLE, p_W, q_WB)._replace(v_W=v_W, omega_B=omega_B)
        for p_W, v_W, q_WB, omega_B in STARTS.values()
    ]


def fly_on_cpu():
    """Return the states after every step (steps, components, drones), and the collisions."""
    world = World(SOLIDS)
    plant = Plant(VEHICLE, n=len(STARTS), integrator="rk4", physics_us=STEP_US)
    for column, state in enumerate(starts()):
        set_plant_state(plant, column, state)
    collider = CollisionWorld(world, [plant], [range(len(STARTS))])
    states, collisions = [], []
    for step in range(STEPS):
        put_ground_below(plant, world, Ground())
        collisions += collider.advance(step * STEP_US, (step + 1) * STEP_US)
        states.append(plant.state.copy())
    return np.array(states), collisions


def fly_in_jax():
    """Return the same states, and the impacts (steps, fields of an `Impact`, drones)."""
    solids = [placed.solid for placed in SOLIDS]
    obstacles = build_obstacles(solids, [placed.material for placed in SOLIDS])
    parts = parts_table(part_shapes(collision_parts(VEHICLE)))
    feet_B, template = VEHICLE["contact"].points_B, state_at_rest(VEHICLE)
    calm, command = complete_environment(VEHICLE), zero_command(VEHICLE)

    def fly(state, duration, ground):
        environment = calm._replace(ground=ground)
        return rk4_loop(lambda x: derivative(x, command, VEHICLE, environment), state, duration)

    def step(leaves, _):
        state = fold_tree(template, leaves, new_trace(jnp.dtype("float64")))
        ground = ground_below(state.p_W, state.q_WB, ground=Ground(), tops=TOPS, feet_B=feet_B)
        next_state, impact = advance_with_impacts(
            fly,
            state,
            STEP_US * 1e-6,
            ground,
            parts=parts,
            obstacles=obstacles,
            ground=ground,
            inertia=CollisionInertia(VEHICLE.mass, VEHICLE.inertia_B),
        )
        next_state = [jnp.broadcast_to(x, leaves[0].shape) for x in unfold_leaves(next_state)]
        return next_state, (
            jnp.stack(next_state),
            jnp.stack([jnp.broadcast_to(x, leaves[0].shape) for x in unfold_leaves(impact)]),
        )

    with precision("float64"):
        start = [jnp.asarray(row) for row in np.array([flatten(state) for state in starts()]).T]
        run = jax.jit(
            lambda leaves: jax.lax.scan(step, leaves, None, length=STEPS)[1],
            compiler_options={"xla_disable_hlo_passes": "fusion"},
        )
        states, impacts = run(start)
    return np.asarray(states), np.asarray(impacts)


@pytest.mark.long
def test_paths_impacts_and_bounces_are_those_of_the_cpu():
    expected, strikes = fly_on_cpu()
    states, impacts = fly_in_jax()
    parts, impact = collision_parts(VEHICLE), Impact(*np.moveaxis(impacts, 1, 0))
    for drone, name in enumerate(STARTS):
        drone_strikes = [strike for strike in strikes if strike.drone == drone]
        steps = [strike.time_us // STEP_US for strike in drone_strikes]
        first_step = min(steps, default=STEPS)
        error = np.abs(states[:, :, drone] - expected[:, :, drone]).max(axis=1)
        assert error[:first_step].max(initial=0.0) < 1e-12, name
        assert error.max() < 1e-10, name  # through every impact and after it
        assert np.flatnonzero(impact.count[:, drone]).tolist() == sorted(set(steps)), name
        for step in sorted(set(steps)):
            simultaneous = [strike for strike in drone_strikes if strike.time_us // STEP_US == step]
            assert impact.count[step, drone] == len(simultaneous), name
            assert parts[int(impact.part[step, drone])] == simultaneous[0].part, name
            assert impact.solid[step, drone] == simultaneous[0].solid, name
            assert impact.speed[step, drone] == pytest.approx(simultaneous[0].speed, abs=1e-9), name
            assert impact.max_speed[step, drone] == pytest.approx(
                max(strike.speed for strike in simultaneous), abs=1e-9
            ), name
            assert 0.0 <= impact.fraction[step, drone] <= 1.0, name
    assert {strike.drone for strike in strikes} == {
        0,
        1,
        3,
    }  # the table is the ground there: the contact model handles it
    assert impact.fraction[~(impact.count > 0.0)].min() > 1.0
    top, table = 0.77, list(STARTS).index("table")
    assert states[-1, 2, table] > top and states[-1, 5, table] > -0.5  # not below it, as in free fall


# Collisions between drones ---------------------------------------------------------------------------------------------

FREE = IRIS.without_effect(*(effect.name for effect in IRIS.structure.effects if effect.name not in ("rotors", "body")))
DRONE_MATERIAL = Material(0.5, 0.3)
FLIGHTS = {
    "head-on": [(Vec3(-0.4, 0.0, 5.0), Vec3(3.0, 0.0, 0.0)), (Vec3(0.4, 0.05, 5.02), Vec3(-2.0, 0.0, 0.0))],
    "from above": [(Vec3(0.1, 0.1, 5.4), Vec3(0.0, 0.0, -4.0)), (Vec3(0.0, 0.0, 5.0), Vec3(0.0, 0.5, 1.0))],
    "a miss": [(Vec3(-0.4, 0.0, 5.0), Vec3(3.0, 0.0, 0.0)), (Vec3(0.4, 0.9, 5.0), Vec3(-2.0, 0.0, 0.0))],
}
LONE = (Vec3(0.0, 4.0, 5.0), Vec3(1.0, 0.0, 0.0))  # far from the other drones; it hits the ball
BALL = Obstacle("ball", Sphere(Vec3(0.4, 4.0, 5.0), 0.1), Material(0.6, 0.2))
TURNS = (Vec3(1.0, 2.0, -1.0), Vec3(-2.0, 0.5, 1.0), ZERO)
COLLISION_STEPS = 100


def collision_starts():
    """Return states (components, drones, flights)."""
    flights = [[*pair, LONE] for pair in FLIGHTS.values()]
    return np.array(
        [
            [
                flatten(
                    state_at_rest(FREE, p_W, quat_from_euler(0.1, -0.2, 0.3 * k))._replace(v_W=v_W, omega_B=TURNS[k])
                )
                for k, (p_W, v_W) in enumerate(drones)
            ]
            for drones in flights
        ],
        dtype=float,
    ).transpose(2, 1, 0)


def collide_on_cpu(starts):
    """Return the states after every step (steps, components, drones, flights), and the collisions of each flight."""
    states, strikes = [], []
    for flight in range(starts.shape[2]):
        plant = Plant(FREE, n=3, integrator="rk4", physics_us=STEP_US)
        plant.state[:] = starts[:, :, flight]
        collider = CollisionWorld(World((BALL,), collisions=True, drone=DRONE_MATERIAL), [plant], [range(3)])
        flight_strikes, path = [], []
        for step in range(COLLISION_STEPS):
            flight_strikes += collider.advance(step * STEP_US, (step + 1) * STEP_US)
            path.append(plant.state.copy())
        states.append(path)
        strikes.append(flight_strikes)
    return np.array(states).transpose(1, 2, 3, 0), strikes


def collide_in_jax(starts):
    parts = collision_parts(FREE)
    calm, command = complete_environment(FREE), zero_command(FREE)

    def fly(state, duration, inputs):
        return rk4_loop(lambda x: derivative(x, command, FREE, calm), state, duration)

    def step(leaves, _):
        trace = new_trace(jnp.dtype("float64"))
        index = FoldingScalar(jnp.broadcast_to(jnp.arange(3.0)[:, None], leaves[0].shape), trace)
        next_state, impact = advance_drones_with_impacts(
            fly,
            fold_tree(state_at_rest(FREE), leaves, trace),
            STEP_US * 1e-6,
            (),
            index=index,
            swarm=Swarm(3, hull_box(state_at_rest(FREE), parts).half, DRONE_MATERIAL, fold_over_others),
            parts=parts_table(part_shapes(parts)),
            obstacles=build_obstacles([BALL.solid], [BALL.material]),
            ground=Ground(),
            inertia=CollisionInertia(FREE.mass, FREE.inertia_B),
        )
        rows, impacts = (
            [jnp.broadcast_to(x, leaves[0].shape) for x in unfold_leaves(tree)] for tree in (next_state, impact)
        )
        return rows, (jnp.stack(rows), jnp.stack(impacts))

    with precision("float64"):
        run = jax.jit(
            lambda leaves: jax.lax.scan(step, leaves, None, length=COLLISION_STEPS)[1],
            compiler_options={"xla_disable_hlo_passes": "fusion"},
        )
        states, impacts = run([jnp.asarray(row) for row in starts])
    return np.asarray(states), np.asarray(impacts)


@pytest.mark.long
def test_drones_that_meet_bounce_as_on_the_cpu():
    starts = collision_starts()
    expected, strikes = collide_on_cpu(starts)
    states, impacts = collide_in_jax(starts)
    assert np.abs(states - expected).max() < 1e-10
    impact, parts = Impact(*np.moveaxis(impacts, 1, 0)), collision_parts(FREE)
    for flight, name in enumerate(FLIGHTS):
        assert any(strike.other >= 0 for strike in strikes[flight]) == (name != "a miss")
        assert any(strike.solid == 0 for strike in strikes[flight] if strike.drone == 2)
        for drone in range(3):
            drone_strikes = [strike for strike in strikes[flight] if drone in (strike.drone, strike.other)]
            steps = sorted({strike.time_us // STEP_US for strike in drone_strikes})
            assert np.flatnonzero(impact.count[:, drone, flight]).tolist() == steps
            for step in steps:
                at_step = [
                    strike for strike in drone_strikes if strike.time_us // STEP_US == step
                ]  # not in their order
                record = Impact(*(field[step, drone, flight] for field in impact))
                assert record.count == len(at_step)
                assert record.max_speed == pytest.approx(max(strike.speed for strike in at_step), abs=1e-9)
                first = min(at_step, key=lambda strike: abs(strike.speed - record.speed))
                assert record.speed == pytest.approx(first.speed, abs=1e-9)
                assert parts[int(record.part)] == first.part and record.solid == first.solid
                assert (record.own_part == 1.0) == (first.drone == drone)
                assert record.other == (first.other if first.drone == drone else first.drone)
