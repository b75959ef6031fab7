"""Winds compiled into a flight: bit-identical to arrays, for every source, any count of drones, and the first dt = ∞."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from support.stage_runs import StageRun

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.scan import compile_scan_jax
from samara.compiler.scan import Templates
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.air.atmosphere import log_law
from samara.physics.multirotor import state_at_rest
from samara.plan.trajectory import hover
from samara.scenario.events import Event, at
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.stages.air import WindStage, independent_normals, sample_wind, wind_at_hubs
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, WindStep, WindSum, evaluate_wind, is_traced
from samara.wind.turbulence import Dryden, VonKarman
from samara.wind.wind_field import RecordedWind, WindField

jax.config.update("jax_enable_x64", True)

TICK = 0.02
LAYER = LogLaw(Vec3(7.0, 2.0, 0.0))
SWINGING = OrnsteinUhlenbeck(Vec3(2.0, 0.0, 0.0), sigma=Vec3(1.0, 0.7, 0.3), tau=Vec3(2.0, 1.0, 0.5))
FOR_ALL = {
    "none": NoWind(),
    "constant": Constant(Vec3(1.0, -2.0, 0.5)),
    "step": WindStep(Vec3(3.0, 0.0, 1.0), at=0.3, before_W=Vec3(0.0, 1.0, 0.0)),
    "gust": Gust(Vec3(4.0, -1.0, 2.0), start=0.1, duration=0.9),
    "turbulence": SWINGING,
    "sum": WindSum((Constant(Vec3(1.0, 0.0, 0.0)), Gust(Vec3(2.0, 0.0, 0.0), 0.1, 3.0), SWINGING)),
}
BY_PLACE = {
    "power law": PowerLaw(Vec3(4.0, -3.0, 0.0), exponent=0.2),
    "log law": LAYER,
    "dryden": Dryden(LAYER),
    "dryden, calm": Dryden(ZERO),
    "dryden in a gust": Dryden(WindSum((LAYER, FOR_ALL["gust"]))),
    "von karman": VonKarman(LAYER, 3.0),
    "sum": WindSum((SWINGING, Dryden(PowerLaw(Vec3(4.0, -3.0, 0.0))), FOR_ALL["gust"])),
}
EVERY = [*FOR_ALL.values(), *BY_PLACE.values()]
PERIOD_US = 130_000
DRAGGED = samara.switch_on(samara.vehicle("iris_documented"), "rotor_drag", coefficient=3e-5)


class NormalsProbe(WindSum):
    """Not a wind: the first, the fourth and the last normal of a sum of sources."""

    def sample_at(self, time, dt, normals, wind_state, p_W, v_W):
        return Vec3(normals[0], normals[3], normals[-1]), wind_state


def wind_run(wind, drones, **options):
    """Run only the stages of the wind."""
    state = state_at_rest(DRAGGED)
    defaults = {"drones": range(drones), "seed": 1, "period_us": PERIOD_US}
    return StageRun(WindStage(), vehicle=DRAGGED, state=state, wind=wind, **defaults, **options)


def sample_normals(wind, drones, tick):
    """The normals of a sample, (normals, drones): those of drone 0 for normals that all drones share."""
    rows = normals(1, "wind", np.arange(drones), tick, wind.normals_needed).T
    shared = [not is_independent for is_independent in independent_normals(wind)]
    rows[shared] = rows[shared, :1]
    return rows


def random_motion(drones, seed=0):
    """p_W, v_W, q_WB and ω_B, from below the ground to above 600 m; the last drone drifts with its local wind."""
    rng = np.random.default_rng(seed)
    motion = rng.uniform(-10.0, 10.0, (13, drones))
    motion[2] = rng.choice([-1.0, 0.005, 3.0, 40.0, 250.0, 450.0, 900.0], drones) + rng.uniform(0.0, 1.0, drones)
    motion[3:6, -1] = Vec3(*(float(x) for x in LAYER.sample_at(0.0, 0.0, (), (), Vec3(*motion[:3, -1]), ZERO)[0]))
    motion[6:10] /= np.linalg.norm(motion[6:10], axis=0)
    return motion


@pytest.mark.parametrize("drones", [1, 9])
@pytest.mark.parametrize("wind", EVERY, ids=[*FOR_ALL, *(f"{name}, by place" for name in BY_PLACE)])
def test_compiled_a_wind_is_bit_for_bit_that_of_arrays(wind, drones):
    """The formulas of `samara.core.ops` on arrays, time and dt too, against compiled code: wind and state, from dt = ∞ on"""
    run, wind_state = wind_run(wind, drones), wind.initial()
    run.group.slots["wind_disturbance"][2] = -0.5
    for tick in range(6):
        motion = random_motion(drones, tick)
        run.group.slots["state"][:13] = motion
        time, dt = np.full(drones, run.advance()), np.full(drones, 1e-6 * PERIOD_US if tick else math.inf)
        tick_normals = tuple(sample_normals(wind, drones, tick))
        wind_W, wind_state = evaluate_wind(
            wind, time, dt, tick_normals, wind_state, Vec3(*motion[:3]), Vec3(*motion[3:6])
        )
        expected = np.stack([np.broadcast_to(x, (drones,)) for x in wind_W + Vec3(0.0, 0.0, -0.5)])
        np.testing.assert_array_equal(run.group.environment.wind_W, expected)
        for row, leaf in zip(run.group.slots["wind_state"], flatten(wind_state), strict=True):
            np.testing.assert_array_equal(row, np.broadcast_to(leaf, (drones,)))
        assert np.isfinite(expected).all()


@pytest.mark.parametrize("wind", BY_PLACE.values(), ids=BY_PLACE)
def test_so_are_the_winds_at_the_hubs(wind):
    """At p + R r with the velocity v + R (ω × r), for five drones"""
    run, motion = wind_run(wind, 5, wind_per_rotor=True), random_motion(5)
    run.group.slots["state"][:13] = motion
    run.group.slots["wind_disturbance"][0] = 0.1
    for _ in range(3):
        time = run.advance()
    hubs_W = run.group.slots["hub_wind"]
    state = unflatten(wind.initial(), iter(run.group.slots["wind_state"]))
    vectors = Vec3(*motion[:3]), Vec3(*motion[3:6]), Quat(*motion[6:10]), Vec3(*motion[10:13])
    (expected,) = wind_at_hubs(np.full(5, time), *vectors, Vec3(0.1, 0.0, 0.0), state, source=wind, vehicle=DRAGGED)
    np.testing.assert_array_equal(hubs_W, np.stack(flatten(expected)))
    np.testing.assert_array_equal(run.group.environment.hub_wind_W, hubs_W)
    if wind is LAYER:
        for drone in range(5):
            q_WB = Quat(*motion[6:10, drone].tolist())
            heights = [motion[2, drone] + rotate(q_WB, rotor.r_B).z for rotor in DRAGGED.rotors]
            expected = [7.0 * log_law(height, reference_height=10.0, roughness=0.03) + 0.1 for height in heights]
            assert hubs_W[::3, drone] == pytest.approx(expected, rel=1e-12)


def test_a_hub_of_a_drone_that_turns_has_a_speed_of_its_own():
    """A wind equal to the velocity at its position: v + R (ω × r), from finite differences of p + R r along the rotation"""

    class Mirror(NoWind):
        traced = True

        def sample_at(self, time, dt, normals, wind_state, p_W, v_W):
            return v_W, wind_state

    omega_B, q_WB = Vec3(1.0, -2.0, 3.0), Quat(0.5, -0.5, 0.5, 0.5)
    run = wind_run(Mirror(), 1, wind_per_rotor=True)
    run.group.slots["state"][:13, 0] = [*(0.0, 0.0, 9.0), *(1.0, 2.0, 3.0), *q_WB, *omega_B]
    run.advance()
    h = 1e-5  # q(±h) = q ⊗ (1, ±½ ω h)
    for k, rotor in enumerate(DRAGGED.rotors):
        earlier_hub, later_hub = (rotate(q_WB * Quat(1.0, *(0.5 * t * x for x in omega_B)), rotor.r_B) for t in (-h, h))
        expected = np.array([1.0, 2.0, 3.0]) + np.array((later_hub - earlier_hub) / (2.0 * h))
        assert run.group.environment.hub_wind_W[3 * k : 3 * k + 3, 0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", ["gust", "turbulence", "dryden", pytest.param("von karman", marks=pytest.mark.long)])
def test_in_folded_scalars_of_jax_it_is_the_same_wind(name):
    """A scan of three samples, the first with dt = ∞, of eight drones: to rounding"""
    wind, n = (FOR_ALL | BY_PLACE)[name], 8
    motion = random_motion(n + 1)[:, :n]  # without the drifting one, whose airspeed is rounding

    def body(carry_state, constants, inputs_now):
        time, dt, tick_normals = inputs_now
        return sample_wind(time, dt, *constants, carry_state[0], ZERO, tick_normals, source=wind), ()

    count = wind.normals_needed
    scan = compile_scan_jax(
        body, Templates((wind.initial(), ZERO), (ZERO, ZERO), (0.0, 0.0, (0.0,) * count)), dtype="float64"
    )
    tick_normals = [normals(1, "wind", np.arange(n), tick, count).T for tick in range(3)]
    dts = [math.inf, TICK, TICK]
    inputs = np.stack(
        [np.vstack([np.full((1, n), 0.2 * k), np.full((1, n), dts[k]), tick_normals[k]]) for k in range(3)]
    )
    carry = np.zeros((len(flatten(wind.initial())) + 3, n))
    by_jax = np.asarray(scan(carry, list(motion[:6]), inputs, 3)[0])
    wind_state = wind.initial()
    for k in range(3):
        wind_W, wind_state = evaluate_wind(
            wind, 0.2 * k, dts[k], tuple(tick_normals[k]), wind_state, Vec3(*motion[:3]), Vec3(*motion[3:6])
        )
    expected = np.stack([np.broadcast_to(x, (n,)) for x in (*flatten(wind_state), *wind_W)])
    assert by_jax == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_the_numbers_of_a_source_may_be_inputs_of_the_program():
    """A wind whose speed and strength are inputs, as for flights that differ in them."""

    def body(carry_state, constants):
        (speed, sigma), wind_normals, height = constants
        wind = Dryden(PowerLaw(Vec3(speed, 0.0, 0.0)), sigma)
        return sample_wind(0.0, math.inf, Vec3(0.0, 0.0, height), ZERO, carry_state[0], ZERO, wind_normals, source=wind)

    machine = CompiledStep(body, (Dryden(ZERO).initial(), ZERO), ((1.0, 1.0), (0.0,) * 5, 10.0)).machine(3)
    wind_normals = normals(1, "wind", np.arange(3), 0, 5).T
    speeds, sigmas, heights = [3.0, 6.0, 9.0], [1.0, 2.0, 3.0], [2.0, 20.0, 500.0]
    machine.held_inputs[:] = np.vstack([speeds, sigmas, wind_normals, heights])
    machine.run()
    for index in range(3):
        single = Dryden(PowerLaw(Vec3(speeds[index], 0.0, 0.0)), sigmas[index])
        position = Vec3(0.0, 0.0, heights[index])
        wind_W, _ = single.sample_at(
            0.0, math.inf, tuple(wind_normals[:, index].tolist()), single.initial(), position, ZERO
        )
        assert machine.carry[-3:, index] == pytest.approx(list(wind_W), rel=1e-13, abs=1e-14)


def test_what_all_share_is_drawn_once():
    """In a sum: the normals of drone 0 for the shared wind, each drone's own for its local wind."""
    wind = BY_PLACE["sum"]
    assert independent_normals(wind) == (False,) * 3 + (True,) * 5
    run = wind_run(NormalsProbe((SWINGING, Dryden(ZERO))), 4)
    for tick in range(3):
        run.advance()
        for drone in range(4):
            first_normals, drone_normals = (normals(1, "wind", number, tick, 8) for number in (0, drone))
            expected = [first_normals[0], drone_normals[3], drone_normals[7]]
            assert run.group.environment.wind_W[:, drone].tolist() == expected


def test_which_winds_can_be_traced():
    """Tables are looked up and batches have parameters per drone: they are sampled in Python, and so are sources with them."""
    replay = RecordedWind([0.0, 1.0], np.zeros((2, 3)))
    field = WindField([0.0, 1.0], [0.0], [0.0], np.zeros((2, 1, 1, 3)))
    batch = Constant(Vec3(np.array([1.0, 2.0]), 0.0, 0.0))
    assert all(is_traced(wind) for wind in EVERY)
    assert not any(
        is_traced(wind) for wind in (replay, field, batch, WindSum((NoWind(), replay)), Dryden(field), Dryden(batch))
    )


def test_a_wind_that_is_added_to_keeps_its_state():
    """By hand: the turbulence continues from its state, with an extra sample at the event, after which the sum blows at once"""
    vehicle, start = samara.vehicle("crazyflie_documented"), Vec3(0.0, 0.0, 20.0)
    steady = Constant(Vec3(2.0, 1.0, 0.0))

    def add(setting, bus):
        return setting._replace(wind=WindSum((setting.wind, steady)))

    drone = Drone("d", vehicle, hover(start), start, airborne=True)
    scenario = Scenario("added", (drone,), 0.4, wind=SWINGING, rates=Rates(log=50.0), seed=3)
    run = samara.fly(replace(scenario, events=(Event(at(0.2), add),)))
    state, expected = SWINGING.initial(), []
    for tick in range(21):
        tick_normals = tuple(normals(3, "wind", 0, tick, 3).tolist())
        for _ in range(2 if tick == 10 else 1):
            wind_W, state = SWINGING.sample(TICK * tick, TICK if tick else math.inf, tick_normals, state)
        expected.append(wind_W + (steady.wind_W if tick >= 10 else ZERO))
    assert run.wind == pytest.approx(np.array(expected), rel=1e-14, abs=1e-14)
