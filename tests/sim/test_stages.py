"""Stages: named views on the arrays, and a custom stage in a flight, whose effect is recorded and replayed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.plan.trajectory import hover
from samara.scenario.scenario import Drone, Scenario
from samara.sim import fly
from samara.sim.group import named_rows
from samara.sim.simulation import Simulation
from samara.sim.stage import PythonStage, Stage, insert

UPWARD = 2.0  # [m/s]


class ThermalStage(PythonStage):
    """Rising air that replaces the wind of the source."""

    rate = "wind"

    def __init__(self) -> None:
        self.instants_us: list[int] = []

    def update(self, fleet):
        self.instants_us.append(fleet.time_us)
        for group in fleet.groups:
            group.environment.wind_W[2] = UPWARD
        fleet.environment_changed = True


def falling_drone(name="d"):
    """A falling drone with its motors off."""
    start = Vec3(0.0, 0.0, 50.0)
    return Drone(name, samara.vehicle("iris"), hover(start), start_W=start, airborne=True, armed=False)


@pytest.mark.parametrize("name", ["iris", "hakoniwa", "rigid_body_quadrotor"])
def test_a_view_is_the_rows_that_flattening_gives(name):
    """Row k of an array is leaf k of the tuple; a named view is those rows, and writing to it writes to them."""
    vehicle = samara.vehicle(name)
    for template in (state_at_rest(vehicle), complete_environment(vehicle)):
        rows = np.arange(2.0 * len(flatten(template))).reshape(-1, 2)
        view, first_row = named_rows(rows, template), 0
        for field, branch in template._asdict().items():
            field_rows, size = getattr(view, field), len(flatten(branch))
            if isinstance(field_rows, np.ndarray):
                assert np.shares_memory(field_rows, rows) or not size
                np.testing.assert_array_equal(field_rows, rows[first_row : first_row + size])
            first_row += size
    environment = named_rows(rows, complete_environment(vehicle))
    environment.ground.normal_W[:] = -1.0
    assert (rows == -1.0).sum() == 6


def test_a_custom_stage_runs_at_its_clock_and_its_effect_is_recorded_and_replayed():
    """Free fall in rising air of constant density: m v̇ = −m g − k (v − w), so it falls w (1 − e^{−k t/m}) slower than in calm
    air, and a replay has the same air.
    """
    scenario, thermal = Scenario("fall", (falling_drone(),), 1.0), ThermalStage()

    def without_density(standard):
        return tuple(stage for stage in standard if stage.name != "density")

    calm = samara.fly(scenario, stages=without_density)
    run = samara.fly(scenario, stages=lambda standard: insert(without_density(standard), thermal, after="wind"))
    assert thermal.instants_us == list(range(0, 1_000_001, 20_000))
    assert (run.wind[:, 2] == UPWARD).all()
    iris = samara.vehicle("iris")
    speed_difference = run.velocity[-1, 2] - calm.velocity[-1, 2]
    assert speed_difference == pytest.approx(UPWARD * (1.0 - np.exp(-iris["drag"].linear.z / iris.mass)), rel=1e-9)
    np.testing.assert_array_equal(samara.replay(run).position, run.position)


def test_a_fleet_has_the_states_of_all_groups_in_the_order_of_the_scenario():
    """A hexarotor and a quadrotor are two groups; the fleet's arrays have them in the order of the scenario."""
    drones = (
        falling_drone("a"),
        Drone("b", samara.vehicle("hexarotor_x"), hover(Vec3(3.0, 0.0, 5.0)), Vec3(3.0, 0.0, 5.0), airborne=True),
    )
    simulation = Simulation(Scenario("two", drones, 0.1))
    fleet = simulation.fleet
    assert len(fleet.groups) == 2
    np.testing.assert_array_equal(fleet.p_W[0], [0.0, 3.0])
    for _ in range(20):
        simulation.advance()
    bus = simulation.bus()
    for index, drone in enumerate(bus.drones):
        np.testing.assert_array_equal(fleet.v_W[:, index], drone.state.v_W)
        np.testing.assert_array_equal(fleet.q_WB[:, index], drone.state.q_WB)
        np.testing.assert_array_equal(fleet.omega_B[:, index], drone.state.omega_B)
    simulation.close()


def test_an_unknown_entry_is_an_error():
    with pytest.raises(ValueError, match=r"no stage 'winds': expected one of .*wind, wake"):
        Simulation(
            Scenario("fall", (falling_drone(),), 1.0),
            stages=lambda standard: insert(standard, ThermalStage(), after="winds"),
        )


def test_an_unknown_clock_is_an_error():
    stage = ThermalStage()
    stage.rate = "winds"
    with pytest.raises(ValueError, match="stage 'thermal': rate 'winds'; expected one of scenario, wind"):
        Simulation(Scenario("fall", (falling_drone(),), 1.0), stages=lambda standard: (*standard, stage))


def test_an_interrupted_flight_passes_its_rows_to_the_sink():
    """The rows of the program are counted by the clock, independently of the row count in a table."""
    flushed = []
    simulation = Simulation(Scenario("fall", (falling_drone(),), 1.0), lambda blocks, lines: flushed.extend(blocks))
    for _ in range(10):
        simulation.advance()
    (group,) = simulation.groups
    group.tables["state"].count += 1
    simulation.flush()
    simulation.close()
    counts = {block.topics: len(block.times_us) for block in flushed}
    assert counts["/d/derived",] == counts["/d/state",] == simulation.time_us // 10_000 + 1


@pytest.mark.parametrize(
    ("arranged", "sentence"),
    [
        (lambda standard: standard[:-1], "no stage 'log': expected it among the stages"),
        (lambda standard: (*standard, print), "<built-in function print> among the stages; expected records of"),
    ],
)
def test_an_invalid_sequence_is_an_error_in_one_sentence(arranged, sentence):
    with pytest.raises(ValueError, match=sentence):
        samara.fly(Scenario("fall", (falling_drone(),), 1.0), stages=arranged)


WIND = ("environment.wind_W",)
MALFORMED = [
    (
        Stage("scalar", "wind", lambda p: p.x, ("state.p_W",), WIND),
        "stage 'scalar': update returned a (TapeScalar|float);",
    ),
    (
        Stage("two", "wind", lambda p: (p, p), ("state.p_W",), WIND),
        r"stage 'two': update returned trees of \[3, 3\] numbers",
    ),
    (Stage("small", "wind", lambda p: (p.x,), ("state.p_W",), WIND), r"environment.wind_W \(3\)"),
    (
        Stage("reads", "wind", lambda p, q: (p,), ("state.p_W",), WIND),
        "stage 'reads': update: missing .*q.; expected",
    ),
    (
        Stage("wind", "wind", lambda p: (p,), ("state.p_W",), WIND),
        "two stages 'wind': expected stages of different names",
    ),
    (Stage("step", "physics", lambda p: (p,), ("state.p_W",), WIND), "stage 'step': rate = 'physics': expected one of"),
    (Stage("text", "wind", lambda p: (p,), "state.p_W", WIND), "stage 'text': reads = 'state.p_W': expected a tuple"),
    (
        Stage("slot", "wind", lambda p: (p,), ("state.p",), WIND),
        "slot 'state' has no part 'state.p'; expected one of p_W",
    ),
    (
        Stage("never", "wind", lambda p: (p,), ("state.p_W",), WIND, every=0),
        "stage 'never': every = 0: expected an integer",
    ),
    (
        Stage("list", "wind", lambda p, *, k: (p,), ("state.p_W",), WIND, (("k", [1]),)),
        "stage 'list': parameters: unhashable",
    ),
]


@pytest.mark.parametrize("backend", ["llvm", "python"])
@pytest.mark.parametrize(("stage", "sentence"), MALFORMED, ids=[stage.name for stage, _ in MALFORMED])
def test_a_malformed_stage_is_one_sentence(stage, sentence, backend):
    scenario = Scenario("fall", (falling_drone(),), 0.1)
    with pytest.raises(ValueError, match=sentence):
        samara.fly(scenario, backend=backend, stages=lambda standard: insert(standard, stage, after="wind"))


def block_times(scenario, fly=lambda simulation: simulation.run()):
    """Return the last time of each block that a flight passes to the sink [s]."""
    times = []
    fly(Simulation(scenario, lambda blocks, lines: times.append(blocks[0].times_us[-1] / 1e6)))
    return times


def test_blocks_are_long_for_few_drones_without_python():
    """The overhead of a block is worth long blocks; with a Python controller they are short, so that progress is visible."""
    single = samara.load_scenario("hover", {"duration": 9.5})
    assert block_times(single) == [8.0, 9.5]
    assert block_times(samara.load_scenario("swarm", {"duration": 2.5, "drones.count": 8})) == [1.0, 2.0, 2.5]

    def hold(state, reference, vehicle, controller_state):
        return samara.hover(vehicle)[1], controller_state

    by_python = replace(single, duration=2.5, drones=tuple(replace(drone, controller=hold) for drone in single.drones))
    assert block_times(by_python) == [1.0, 2.0, 2.5]


def test_in_real_time_every_second_is_flushed(monkeypatch):
    """A killed process loses at most one second, as without a clock."""
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(fly, "time", SimpleNamespace(perf_counter=lambda: next(clock)))  # never ahead of it
    scenario = samara.load_scenario("hover", {"duration": 2.5})
    assert block_times(scenario, lambda simulation: fly._fly_in_real_time(simulation, lambda time, total: None)) == [
        1.0,
        2.0,
        2.5,
    ]
