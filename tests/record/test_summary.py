"""Summaries of flights: errors in the air, landing errors, lengths in a suitable unit."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.record.metrics.summary import format_length, format_value, summary_table
from samara.record.run import check_expectations
from samara.scenario.scenario import Expectations


@pytest.fixture(scope="module")
def landing():
    """A drone that hovers low over the ground and lands, close to its reference."""
    scenario = samara.load_scenario("hover", {"duration": 6.0, "drones.vehicle": "iris", "drones.airborne": True,
                                              "drones.start": [0, 0, 0.6]})  # fmt: skip
    event = replace(scenario.events[0], trigger=samara.scenario.events.at(0.5))
    drone = replace(scenario.drones[0], task=samara.plan.trajectory.hover((0.0, 0.0, 0.6)))
    return samara.fly(replace(scenario, drones=(drone,), events=(event,)))


def shift_positions(run, stream, offset):
    """Return the run with the positions of one stream moved."""
    drone_record = run.drone_records[0]
    table = drone_record.tables[stream]
    rows = table.rows.copy()
    rows[:, [table.fields.index(f"p_W.{axis}") for axis in "xyz"]] += np.broadcast_to(offset, (len(rows), 3))
    return replace(
        run, drone_records=(replace(drone_record, tables={**drone_record.tables, stream: replace(table, rows=rows)}),)
    )


@pytest.mark.parametrize(
    ("metres", "text"),
    [
        (0.0, "0.00 mm"), (1.25e-5, "0.01 mm"), (0.00999, "9.99 mm"), (0.01, "1.00 cm"), (0.4567, "45.67 cm"),
        (1.0, "1.00 m"), (912.0, "912.00 m"), (12_345.0, "12.35 km"), (-0.004, "-4.00 mm"), (math.nan, "nan mm"),
    ],
)  # fmt: skip
def test_a_length_has_the_unit_of_its_size(metres, text):
    assert format_length(metres) == format_value(metres, "m") == text


def test_a_summary_is_numbers_with_units_and_prints_as_a_table(landing):
    table = landing.summary()
    assert (table["tilt, largest"].value, table["tilt, largest"].unit) == (math.degrees(landing.tilt.max()), "°")
    assert table["final position"].value == tuple(landing.position[-1])
    assert table["final charge"].value == 100.0 * landing.charge[-1]
    lines = str(table).splitlines()
    assert [line.split("  ")[0] for line in lines] == list(table)
    assert all(line.endswith(table[name].text) for line, name in zip(lines, table, strict=True))
    assert summary_table([table, {}], "–")[0] == ("vehicle", "iris", "–")
    with pytest.raises(KeyError, match="no metric 'pizza'; there are 'vehicle', "):
        table["pizza"]


def test_a_landing_is_evaluated_by_its_horizontal_error(landing):
    """The last reference is below the ground, which presses the drone onto it: no error. 0.2 m beside it is 0.2 m."""
    assert landing.landed and landing.reference_position[-1, 2] < -0.1
    assert "final position error" not in landing.summary()
    assert landing.summary()["landing error, horizontal"].value < 0.01
    landing_error = shift_positions(landing, "reference", (0.12, -0.16, 0.0)).summary()["landing error, horizontal"]
    assert landing_error.value == pytest.approx(0.2, abs=0.01)
    status = landing.drone_records[0].tables["status"]
    rows = np.where(np.array(status.fields) == "landed", 0.0, status.rows)
    raised_run = shift_positions(landing, "state", (0.0, 0.0, 0.5))
    tables = {**raised_run.drone_records[0].tables, "status": replace(status, rows=rows)}
    raised_run = replace(raised_run, drone_records=(replace(raised_run.drone_records[0], tables=tables),))
    assert not raised_run.landed
    distance = np.linalg.norm(raised_run.position[-1] - raised_run.reference_position[-1])
    assert raised_run.summary()["final position error"].value == pytest.approx(distance)


def test_contact_points_determine_whether_a_drone_is_airborne(landing):
    """Level and over level ground: at least the height of its legs, to the millimetre of contact compression."""
    legs = -min(point.z for point in landing.vehicle["contact"].points_B)
    clearance = landing.position[:, 2] - legs
    assert landing.airborne[clearance > 2e-3].all()
    assert not landing.airborne[clearance <= 0.0].any() and (clearance <= 0.0).any()
    environment = landing.drone_records[0].tables["environment"]
    rows = environment.rows.copy()
    column = environment.fields.index("ground.point_W.z")
    rows[:, column] = 0.3  # raise the plane: a drone that was 0.3 m up stands on it
    raised = replace(
        landing.drone_records[0],
        tables={**landing.drone_records[0].tables, "environment": replace(environment, rows=rows)},
    )
    assert raised.airborne.sum() < landing.airborne.sum()
    assert not raised.airborne[clearance <= 0.3].any()


def test_the_height_of_the_legs_is_not_an_error():
    """At take-off the reference is at the ground and the body on its legs; the error counts from lift-off."""
    run = samara.fly("hover", settings={"duration": 3.0, "drones.vehicle": "iris"})
    legs = -min(point.z for point in run.vehicle["contact"].points_B)
    assert run.error[0] == pytest.approx(legs, abs=1e-2)  # the feet carry its weight, and give way a little
    flying = (run.position[:, 2] > legs + 1e-3) & (run.reference_position[:, 2] >= legs)
    assert run.summary()["position error, RMS"].value == pytest.approx(np.sqrt(np.mean(run.error[flying] ** 2)))
    assert run.summary()["position error, largest"].value == run.error[flying].max() < legs
    (checked,) = check_expectations(run, Expectations(no_crash=False, max_error=0.9 * legs))
    assert checked.satisfied and f"{run.error[flying].max():.3f} m" in checked.text


def test_an_autopilot_that_gets_positions_only_has_no_tracking_error(landing):
    """PX4 and ArduPilot plan the path to a position; Betaflight's sticks follow the reference."""
    for controller, follows_reference in (("px4", False), ("ardupilot", False), ("betaflight", True)):
        table = replace(landing.drone_records[0], controller=controller).summary()
        assert ("position error, RMS" in table) is follows_reference
        assert "landing error, horizontal" in table
        failsafe_table = replace(
            shift_positions(landing, "reference", (7.0, 0.0, 8.0)).drone_records[0], controller=controller
        ).summary()
        assert (
            "landing error, horizontal" in failsafe_table
        ) is follows_reference  # the position was the failsafe's choice


def test_a_drone_that_never_took_off_is_reported():
    run = samara.fly("hover", settings={"duration": 0.05})
    assert run.summary()["took off"].text == "never"
    assert "position error, RMS" not in run.summary()
    assert "took off never" in repr(run)


def test_a_run_and_a_vehicle_print_as_a_few_lines(landing):
    assert repr(landing).startswith("Run hover: 1 drone, 6.0 s, ")
    assert "drone: iris flown by geometric, ends at " in repr(landing)
    assert len(str(landing).splitlines()) == 2
    large_run = replace(
        landing, drone_records=tuple(replace(landing.drone_records[0], name=f"d{k}") for k in range(100))
    )
    assert repr(large_run).splitlines()[-1] == "  and 94 more drones" and len(repr(large_run).splitlines()) == 8
    text = str(landing.vehicle)
    assert text.startswith("iris: ") and "mass             1.5 kg" in text and len(text.splitlines()) < 14


def test_a_stream_as_a_data_frame(landing):
    pandas = pytest.importorskip("pandas")
    frame = landing.to_pandas("command")
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.to_numpy().tolist() == landing.command_time.tolist()
    assert np.array_equal(frame.to_numpy(), landing.command)
    assert landing.to_pandas()["p_W.z"].to_numpy().tolist() == landing.position[:, 2].tolist()
    assert landing.to_pandas().attrs["units"]["v_W.x"] == "m/s"
    with pytest.raises(KeyError, match="no stream 'pizza'; there are state, "):
        landing.to_pandas("pizza")


def test_a_flight_that_ends_early_reports_the_simulated_time():
    """In real time or not, the last progress report is the end of the flight, from which the factor is computed."""
    from samara.sim.fly import _fly_to_end
    from samara.sim.simulation import Simulation

    scenario = samara.load_scenario("hover", {"duration": 1.0})
    for realtime in (False, True):
        simulation = Simulation(scenario, lambda blocks, lines: None)
        progress = []

        def stop(now, total, simulation=simulation, progress=progress):
            progress.append((now, total))
            simulation.fleet.end_reason = "enough"

        _fly_to_end(simulation, realtime, stop)
        assert progress[-1] == (simulation.time_us / 1e6, 1.0) and simulation.time_us < 900_000


@pytest.mark.parametrize(
    ("joules", "text"), [(999.0, "999 J"), (1000.0, "1 kJ"), (2340.0, "2.34 kJ"), (-5000.0, "-5 kJ")]
)
def test_a_thousand_joules_are_a_kilojoule(joules, text):
    assert format_value(joules, "J") == text
