"""Actions on a flight between two instants, and the recording of a flight that is interrupted."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.record.diff import first_difference
from samara.scenario.events import fail_motor, wind_step
from samara.sim.fly import create_recorder, final_log_line, load_recorded_run
from samara.sim.replay import replay
from samara.sim.simulation import Simulation


def drop_outputs(run):
    """Drop the outputs: after an action at a logged instant two environments have one time, and outputs follow the last."""
    return replace(
        run,
        drone_records=tuple(
            replace(track, tables={name: table for name, table in track.tables.items() if name != "derived"})
            for track in run.drone_records
        ),
    )


@pytest.mark.parametrize("at_us", [1_000_000, 996_000, 1_010_000, 1_008_000])
def test_an_action_at_any_instant_is_recorded_and_replays_bit_for_bit(tmp_path, at_us):
    """At ticks of the log, the wind, the autopilot, and at the end of a block: another wind, then a dead motor."""
    scenario, actions = samara.load_scenario("hover", {"duration": 1.2}), {at_us - 40_000: wind_step((4.0, 0.0, 0.0))}
    actions[at_us] = fail_motor(0)
    with create_recorder(scenario, tmp_path / "run.mcap", overwrite=True) as recorder:
        simulation = Simulation(scenario, recorder.write_blocks)
        while simulation.advance():
            if simulation.time_us in actions:
                simulation.apply_action(actions[simulation.time_us])
        recorder.write_blocks([], [final_log_line(simulation)])
    run = load_recorded_run(recorder, scenario, "")
    times = run.drone_records[0].tables["state"].times_us
    np.testing.assert_array_equal(times, np.arange(0, 1_200_001, 10_000))
    assert first_difference(drop_outputs(run), drop_outputs(replay(run))) is None


def test_the_flight_before_a_controller_failure_is_recorded(tmp_path):
    """The controller raises at 0.6 s: every row before that is recorded."""

    def broken(state, reference, vehicle, controller_state, time):
        if time >= 0.6:
            raise RuntimeError("no more")
        return (0.5,) * 4

    with pytest.raises(RuntimeError, match="no more"):
        samara.fly("hover", controller=broken, out=tmp_path / "run.mcap", settings={"duration": 2.0})
    table = samara.load_run(tmp_path / "run.mcap").drone_records[0].tables["state"]
    np.testing.assert_array_equal(table.times_us, np.arange(0, 600_000, 10_000))
