"""Winds compiled into a flight: the same bits as on arrays, whatever the source, the number of drones, and the first dt = ∞."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from support.stages_alone import CompiledBlowing

from samara.backends.jax_scan import compile_scan_jax
from samara.backends.machine import CompiledStep
from samara.backends.scan import Templates
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.core.random import normals
from samara.core.tree import flatten
from samara.physics.air.boundary_layer import log_law
from samara.sim.blowing import Blowing, drawn_by, own_draws, wind_on_one
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, Step, Sum, is_local, is_traced, wind_at
from samara.wind.table import Field, Replay
from samara.wind.turbulence import Dryden, VonKarman

jax.config.update("jax_enable_x64", True)

TICK = 0.02
LAYER = LogLaw(Vec3(7.0, 2.0, 0.0))
SWINGING = OrnsteinUhlenbeck(Vec3(2.0, 0.0, 0.0), sigma=Vec3(1.0, 0.7, 0.3), tau=Vec3(2.0, 1.0, 0.5))
FOR_ALL = {
    "none": NoWind(),
    "constant": Constant(Vec3(1.0, -2.0, 0.5)),
    "step": Step(Vec3(3.0, 0.0, 1.0), at=0.3, before_W=Vec3(0.0, 1.0, 0.0)),
    "gust": Gust(Vec3(4.0, -1.0, 2.0), start=0.1, duration=0.9),
    "turbulence": SWINGING,
    "sum": Sum((Constant(Vec3(1.0, 0.0, 0.0)), Gust(Vec3(2.0, 0.0, 0.0), 0.1, 3.0), SWINGING)),
}
BY_PLACE = {
    "power law": PowerLaw(Vec3(4.0, -3.0, 0.0), exponent=0.2),
    "log law": LAYER,
    "dryden": Dryden(LAYER),
    "dryden, calm": Dryden(ZERO),
    "dryden in a gust": Dryden(Sum((LAYER, FOR_ALL["gust"]))),
    "von karman": VonKarman(LAYER, 3.0),
    "sum": Sum((SWINGING, Dryden(PowerLaw(Vec3(4.0, -3.0, 0.0))), FOR_ALL["gust"])),
}
EVERY = [*FOR_ALL.values(), *BY_PLACE.values()]


def places(drones, seed=0):
    """p_W, v_W, q_WB and ω_B, from below the ground to above 600 m; the last drone drifts with the wind of its place."""
    rng = np.random.default_rng(seed)
    moving = rng.uniform(-10.0, 10.0, (13, drones))
    moving[2] = rng.choice([-1.0, 0.005, 3.0, 40.0, 250.0, 450.0, 900.0], drones) + rng.uniform(0.0, 1.0, drones)
    moving[3:6, -1] = Vec3(*(float(x) for x in LAYER.sample_at(0.0, 0.0, (), (), Vec3(*moving[:3, -1]), ZERO)[0]))
    moving[6:10] /= np.linalg.norm(moving[6:10], axis=0)
    return moving


@pytest.mark.parametrize("drones", [1, 9])
@pytest.mark.parametrize("wind", EVERY, ids=[*FOR_ALL, *(f"{name}, by place" for name in BY_PLACE)])
def test_compiled_a_wind_is_bit_for_bit_that_of_arrays(wind, drones):
    """The formulas of `samara.ops` on arrays, time and dt too, against machine code: wind and memory, from dt = ∞ on"""
    local = is_local(wind)
    lanes, compiled, memory = drones if local else 1, CompiledBlowing(wind, drones, wind.initial()), wind.initial()
    for tick in range(6):
        time, dt = 0.13 * tick, TICK if tick else math.inf
        moving, drawn = places(drones, tick), drawn_by(wind, drones, seed=1, tick=tick)
        told = compiled.sample(time, dt, moving[:6] if local else None, Vec3(0.0, 0.0, -0.5), drawn)
        wind_W, memory = wind_at(
            *(wind, np.full(lanes, time), np.full(lanes, dt), tuple(drawn), memory),
            *(Vec3(*moving[:3]), Vec3(*moving[3:6])),
        )
        expected = np.stack([np.broadcast_to(x, (drones,)) for x in wind_W + Vec3(0.0, 0.0, -0.5)])
        np.testing.assert_array_equal(told, expected)
        for own, other in zip(flatten(compiled.memory), flatten(memory), strict=True):
            np.testing.assert_array_equal(np.broadcast_to(own, (lanes,)), np.broadcast_to(other, (lanes,)))
        assert np.isfinite(told).all()


@pytest.mark.parametrize("wind", BY_PLACE.values(), ids=BY_PLACE)
def test_so_are_the_winds_at_the_hubs(wind):
    """At p + R r, where the velocity is v + R (ω × r), of two drones among five"""
    hubs, chosen, moving = (Vec3(0.2, 0.1, 0.03), Vec3(-0.3, 0.2, 0.0)), np.array([1, 4]), places(5)
    by_hand, compiled = (kind(wind, 5, wind.initial()) for kind in (Blowing, CompiledBlowing))
    drawn = drawn_by(wind, 5, seed=3, tick=7)
    for own in (by_hand, compiled):
        own.sample(0.4, math.inf, moving[:6], ZERO, drawn)
    given = (0.4, moving[:, chosen], chosen, Vec3(0.1, 0.0, 0.0), hubs)
    felt = compiled.at_hubs(*given)
    assert felt.shape == (6, 2)
    assert felt == pytest.approx(
        by_hand.at_hubs(*given), rel=1e-14, abs=1e-14
    )  # cos of the gust's phase on a float is libm's
    if wind is LAYER:
        for lane, drone in enumerate(chosen):
            q_WB = Quat(*moving[6:10, drone].tolist())
            heights = [moving[2, drone] + rotate(q_WB, r_B).z for r_B in hubs]
            expected = [7.0 * log_law(height, at=10.0, roughness=0.03) + 0.1 for height in heights]
            assert felt[::3, lane] == pytest.approx(expected, rel=1e-12)


def test_a_hub_of_a_drone_that_turns_has_a_speed_of_its_own():
    """A wind that is the velocity of who feels it: v + R (ω × r), from finite differences of p + R r along the turn"""

    class Mirror(NoWind):
        traced = True

        def sample_at(self, time, dt, normals, memory, p_W, v_W):
            return v_W, memory

    r_B, omega_B, q_WB = Vec3(0.3, -0.2, 0.1), Vec3(1.0, -2.0, 3.0), Quat(0.5, -0.5, 0.5, 0.5)
    moving = np.array([*(0.0, 0.0, 9.0), *(1.0, 2.0, 3.0), *q_WB, *omega_B])[:, None]
    felt = CompiledBlowing(Mirror(), 1, ()).at_hubs(0.0, moving, np.array([0]), ZERO, (r_B,))[:, 0]
    h = 1e-5  # q(±h) = q ⊗ (1, ±½ ω h)
    before, after = (rotate(q_WB * Quat(1.0, *(0.5 * t * x for x in omega_B)), r_B) for t in (-h, h))
    assert felt == pytest.approx(np.array([1.0, 2.0, 3.0]) + np.array((after - before) / (2.0 * h)), abs=1e-8)


@pytest.mark.parametrize("kind", ["gust", "turbulence", "dryden", pytest.param("von karman", marks=pytest.mark.long)])
def test_in_folded_scalars_of_jax_it_is_the_same_wind(kind):
    """A scan of three samples, the first with dt = ∞, of eight drones: to rounding"""
    wind, n = (FOR_ALL | BY_PLACE)[kind], 8
    moving = places(n + 1)[:, :n]  # not the one that drifts: √ of an airspeed that is rounding alone

    def body(own, held, given):
        time, dt, drawn = given
        return wind_on_one(wind, own[0], time, dt, *held, ZERO, drawn), ()

    needed = wind.normals_needed
    scan = compile_scan_jax(
        body, Templates((wind.initial(), ZERO), (ZERO, ZERO), (0.0, 0.0, (0.0,) * needed)), dtype="float64"
    )
    drawn = [normals(1, "wind", np.arange(n), tick, needed).T for tick in range(3)]
    dts = [math.inf, TICK, TICK]
    inputs = np.stack([np.vstack([np.full((1, n), 0.2 * k), np.full((1, n), dts[k]), drawn[k]]) for k in range(3)])
    carry = np.zeros((len(flatten(wind.initial())) + 3, n))
    by_jax = np.asarray(scan(carry, list(moving[:6]), inputs, 3)[0])
    memory = wind.initial()
    for k in range(3):
        wind_W, memory = wind_at(wind, 0.2 * k, dts[k], tuple(drawn[k]), memory, Vec3(*moving[:3]), Vec3(*moving[3:6]))
    expected = np.stack([np.broadcast_to(x, (n,)) for x in (*flatten(memory), *wind_W)])
    assert by_jax == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_the_numbers_of_a_source_may_be_inputs_of_the_program():
    """A wind whose speed and strength are given when it is run, as for flights that differ in them"""

    def body(own, held):
        (speed, sigma), drawn, height = held
        wind = Dryden(PowerLaw(Vec3(speed, 0.0, 0.0)), sigma)
        return wind_on_one(wind, own[0], 0.0, math.inf, Vec3(0.0, 0.0, height), ZERO, ZERO, drawn)

    machine = CompiledStep(body, (Dryden(ZERO).initial(), ZERO), ((1.0, 1.0), (0.0,) * 5, 10.0)).machine(3)
    drawn = normals(1, "wind", np.arange(3), 0, 5).T
    speeds, sigmas, heights = [3.0, 6.0, 9.0], [1.0, 2.0, 3.0], [2.0, 20.0, 500.0]
    machine.held[:] = np.vstack([speeds, sigmas, drawn, heights])
    machine.run()
    for lane in range(3):
        alone = Dryden(PowerLaw(Vec3(speeds[lane], 0.0, 0.0)), sigmas[lane])
        place = Vec3(0.0, 0.0, heights[lane])
        wind_W, _ = alone.sample_at(0.0, math.inf, tuple(drawn[:, lane].tolist()), alone.initial(), place, ZERO)
        assert machine.carry[-3:, lane] == pytest.approx(list(wind_W), rel=1e-13, abs=1e-14)


def test_what_all_share_is_drawn_once():
    """Of a sum: the normals of drone 0 for what blows on all, its own for what each meets"""
    wind = BY_PLACE["sum"]
    assert own_draws(wind) == (False,) * 3 + (True,) * 5
    rows = drawn_by(wind, 4, seed=2, tick=9)
    for drone in range(4):
        assert rows[:3, drone].tolist() == normals(2, "wind", 0, 9, 8)[:3].tolist()
        assert rows[3:, drone].tolist() == normals(2, "wind", drone, 9, 8)[3:].tolist()


def test_which_winds_can_be_traced():
    """Tables are looked up, batches have numbers for each drone: they are asked in Python, and so is what holds them"""
    replay = Replay([0.0, 1.0], np.zeros((2, 3)))
    field = Field([0.0, 1.0], [0.0], [0.0], np.zeros((2, 1, 1, 3)))
    batch = Constant(Vec3(np.array([1.0, 2.0]), 0.0, 0.0))
    assert all(is_traced(wind) for wind in EVERY)
    assert not any(
        is_traced(wind) for wind in (replay, field, batch, Sum((NoWind(), replay)), Dryden(field), Dryden(batch))
    )


def test_going_on_with_a_memory_of_one_or_of_all():
    """What was sampled for all alike goes on in every lane; what had lanes keeps them"""
    one, each = SWINGING, Dryden(LAYER)
    alone = CompiledBlowing(one, 3, one.initial())
    first = alone.sample(0.0, math.inf, None, ZERO, drawn_by(one, 3, seed=1, tick=0))
    both = CompiledBlowing(Sum((one, LAYER)), 3, (alone.memory, ()))
    after = both.sample(TICK, 0.0, places(3)[:6], ZERO, np.zeros((3, 3)))
    layer = CompiledBlowing(LAYER, 3, ()).sample(TICK, 0.0, places(3)[:6], ZERO, np.zeros((0, 3)))
    assert after - layer == pytest.approx(first, abs=1e-14)
    own = CompiledBlowing(each, 3, each.initial())
    own.sample(0.0, math.inf, places(3)[:6], ZERO, drawn_by(each, 3, seed=1, tick=0))
    kept = Blowing(replace(each), 3, own.memory)
    np.testing.assert_array_equal(np.stack(flatten(kept.memory)), np.stack(flatten(own.memory)))
