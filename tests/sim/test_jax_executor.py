"""The JAX executor: stages run at their ticks, independently for each flight, with random numbers from the flight's seed."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")

from samara.core.ops import where
from samara.core.random import derive_key, normals
from samara.sim.executors.jax import FlightProgram, RecordRequest, compile_flight_jax
from samara.sim.executors.jax import run_ticks as flown_ticks
from samara.sim.stage import RandomInputs, Stage

SEEDS = np.array([4, 9, 4, 2**40 + 1])
TICK_US, TICKS, NORMALS = 1000, 4, 5
SLOW, LATE = 2, 1  # ticks between two updates, and before the first


def gusts(total, normals):
    return (tuple(value + (k + 1) * x for k, (value, x) in enumerate(zip(total, normals, strict=True))),)


def clear(flag, mark, count):
    """Clear a flag that is set, and count these updates."""
    return 0.0, where(flag > 0.5, mark + 10.0, mark), where(flag > 0.5, count + 1.0, count)


def raise_flag(flag, clock, every):
    """Set the flag at every `every`-th tick of the flight."""
    clock = clock + 1.0
    return where(clock >= every, 1.0, flag), where(clock >= every, 0.0, clock)


def is_clear(flag, mark, count):
    return flag < 0.5


def move(x, v, *, vehicle):
    return (x + v,)


PROGRAM = FlightProgram(
    (
        Stage("gusts", "slow", gusts, ("gusts",), ("gusts",), normals=RandomInputs("gusts", NORMALS)),
        Stage("noise", "fast", gusts, ("noise",), ("noise",), normals=RandomInputs("noise", NORMALS), delay=LATE),
        Stage("flag", "fast", raise_flag, ("flag", "clock", "every"), ("flag", "clock")),
        Stage("clear", "fast", clear, ("flag", "mark", "count"), ("flag", "mark", "count"), skip_when=is_clear),
    ),
    Stage("physics", "physics", move, ("x", "v"), ("x",), (("vehicle", None),)),
    {
        "gusts": (0.0,) * NORMALS,
        "noise": (0.0,) * NORMALS,
        "flag": 0.0,
        "clock": 0.0,
        "every": 1.0,
        "mark": 0.0,
        "count": 0.0,
        "x": 0.0,
        "v": 0.0,
    },
    {"physics": TICK_US // 2, "fast": TICK_US, "slow": SLOW * TICK_US},
    TICK_US,
    0,
    TICKS * TICK_US,
)
EVERY, MARK, SPEED = np.array([1.0, 2.0, 4.0, 100.0]), np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, -1.0, 2.0, 8.0])


@pytest.fixture(scope="module")
def flown():
    run = compile_flight_jax(PROGRAM, RecordRequest(), dtype="float64")
    n = len(SEEDS)
    values = {name: [np.full(n, 0.0)] * np.size(template) for name, template in PROGRAM.templates.items()}
    values |= {"every": [EVERY], "mark": [MARK], "v": [SPEED]}
    keys = {
        source: tuple(np.array([derive_key(int(seed), source) for seed in SEEDS], dtype=np.uint32).T)
        for source in PROGRAM.sources
    }  # `derive_keys` is compared with these in test_draws_jax.py; compiling it takes a second
    leaves_by_slot = {}
    for (slot, _), leaf in zip(PROGRAM.written, run(values, keys, {}).final, strict=True):
        leaves_by_slot.setdefault(slot, []).append(np.asarray(leaf))
    return {slot: np.array(leaves) for slot, leaves in leaves_by_slot.items()}


@pytest.mark.parametrize(("source", "ticks"), [("gusts", (0, 1)), ("noise", (1, 2, 3))])
def test_every_flight_draws_the_normals_of_its_seed_source_and_tick(flown, source, ticks):
    """They are those of `samara.core.random`, indexed by the ticks of the stage's clock."""
    weights = np.arange(1.0, NORMALS + 1.0)
    for flight, seed in enumerate(SEEDS):
        expected = sum(weights * normals(int(seed), source, 0, tick, NORMALS) for tick in ticks)
        np.testing.assert_allclose(flown[source][:, flight], expected, atol=1e-13)


def test_flights_of_one_seed_are_the_same_and_of_others_are_not(flown):
    for source in ("gusts", "noise"):
        np.testing.assert_array_equal(flown[source][:, 0], flown[source][:, 2])
        for other in (1, 3):
            assert (flown[source][:, 0] != flown[source][:, other]).all()
    assert (flown["gusts"] != flown["noise"]).all()


def test_only_the_flags_that_are_set_are_cleared(flown):
    """Flights whose flags are set at every, every second, the fourth and no tick of four."""
    assert flown["count"][0].tolist() == [4.0, 2.0, 1.0, 0.0]
    assert flown["mark"][0].tolist() == (MARK + 10.0 * np.array([4.0, 2.0, 1.0, 0.0])).tolist()
    assert flown["flag"][0].tolist() == [0.0] * 4


def test_ticks_are_counted_continuously_and_recorded_before_every_second():
    """x ← 10 x + k writes the index of each tick as a digit."""
    end, records = flown_ticks(5, lambda k, x: 10.0 * x + k, 1.0, lambda x: x, 2)
    assert float(end) == 101234.0 and np.asarray(records).tolist() == [1.0, 101.0, 10123.0]


def test_physics_takes_its_steps_between_ticks(flown):
    assert flown["x"][0].tolist() == (2 * TICKS * SPEED).tolist()


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        (lambda x: x, "stage 'bad': update returned a FoldingScalar; expected a tuple"),
        (lambda x: (x, x), r"stage 'bad': update returned trees of \[1, 1\] numbers"),
        (lambda x, y: (x,), "stage 'bad': update: missing .*'y'; expected a function of"),
    ],
)
def test_a_malformed_stage_is_one_sentence(update, sentence):
    with pytest.raises(ValueError, match=sentence):
        program = replace(PROGRAM, stages=(Stage("bad", "fast", update, ("x",), ("x",)),))
        values = {name: [np.zeros(1)] * np.size(template) for name, template in PROGRAM.templates.items()}
        compile_flight_jax(program, RecordRequest(), dtype="float64")(values, {}, {})
