"""The numbers told of a flight: errors while it flies, a landing by where it stands, lengths in a unit of their size."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.record.metrics.summary import formatted, length, summary_table
from samara.record.run import check_expectations
from samara.scenario.scenario import Expect


@pytest.fixture(scope="module")
def landing():
    """A drone that hovers low over the ground and lands, 0.2 m beside where it was asked to be."""
    scenario = samara.load_scenario("hover", {"duration": 6.0, "drones.vehicle": "iris", "drones.airborne": True,
                                              "drones.start": [0, 0, 0.6]})  # fmt: skip
    event = replace(scenario.events[0], trigger=samara.scenario.events.at(0.5))
    drone = replace(scenario.drones[0], task=samara.plan.trajectory.hover((0.0, 0.0, 0.6)))
    return samara.fly(replace(scenario, drones=(drone,), events=(event,)))


def shifted(run, stream, by):
    """The run with the positions of one stream moved."""
    track = run.tracks[0]
    table = track.tables[stream]
    rows = table.rows.copy()
    rows[:, [table.fields.index(f"p_W.{axis}") for axis in "xyz"]] += np.broadcast_to(by, (len(rows), 3))
    return replace(run, tracks=(replace(track, tables={**track.tables, stream: replace(table, rows=rows)}),))


@pytest.mark.parametrize(
    ("metres", "text"),
    [
        (0.0, "0.00 mm"), (1.25e-5, "0.01 mm"), (0.00999, "9.99 mm"), (0.01, "1.00 cm"), (0.4567, "45.67 cm"),
        (1.0, "1.00 m"), (912.0, "912.00 m"), (12_345.0, "12.35 km"), (-0.004, "-4.00 mm"), (math.nan, "nan mm"),
    ],
)  # fmt: skip
def test_a_length_has_the_unit_of_its_size(metres, text):
    assert length(metres) == formatted(metres, "m") == text


def test_a_summary_is_numbers_with_units_and_prints_as_a_table(landing):
    own = landing.summary()
    assert (own["tilt, largest"].value, own["tilt, largest"].unit) == (math.degrees(landing.tilt.max()), "°")
    assert own["final position"].value == tuple(landing.position[-1])
    assert own["charge left"].value == 100.0 * landing.charge[-1]
    lines = str(own).splitlines()
    assert [line.split("  ")[0] for line in lines] == list(own)
    assert all(line.endswith(own[name].text) for line, name in zip(lines, own, strict=True))
    assert summary_table([own, {}], "–")[0] == ("vehicle", "iris", "–")
    with pytest.raises(KeyError, match="no metric 'pizza'; there are 'vehicle', "):
        own["pizza"]


def test_a_landing_is_judged_by_where_it_stands(landing):
    """Its last reference is under the ground, so that it is pressed onto it: no error. 0.2 m beside it is 0.2 m."""
    assert landing.landed and landing.reference_position[-1, 2] < -0.1
    assert "final position error" not in landing.summary()
    assert landing.summary()["landing error, horizontal"].value < 0.01
    beside = shifted(landing, "reference", (0.12, -0.16, 0.0)).summary()["landing error, horizontal"]
    assert beside.value == pytest.approx(0.2, abs=0.01)
    status = landing.tracks[0].tables["status"]
    rows = np.where(np.array(status.fields) == "landed", 0.0, status.rows)
    up = shifted(landing, "state", (0.0, 0.0, 0.5))
    tables = {**up.tracks[0].tables, "status": replace(status, rows=rows)}
    up = replace(up, tracks=(replace(up.tracks[0], tables=tables),))
    assert not up.landed
    off = np.linalg.norm(up.position[-1] - up.reference_position[-1])
    assert up.summary()["final position error"].value == pytest.approx(off)


def test_feet_tell_who_is_in_the_air(landing):
    """Level and over level ground: as high as its legs at least, within the millimetre by which contact gives way."""
    legs = -min(point.z for point in landing.vehicle["contact"].points_B)
    high = landing.position[:, 2] - legs
    assert landing.in_the_air[high > 2e-3].all()
    assert not landing.in_the_air[high <= 0.0].any() and (high <= 0.0).any()
    slanted = landing.tracks[0].tables["environment"]
    rows = slanted.rows.copy()
    at = slanted.fields.index("ground.point_W.z")
    rows[:, at] = 0.3  # a plane that is higher: what was 0.3 m up stands on it
    raised = replace(landing.tracks[0], tables={**landing.tracks[0].tables, "environment": replace(slanted, rows=rows)})
    assert raised.in_the_air.sum() < landing.in_the_air.sum()
    assert not raised.in_the_air[high <= 0.3].any()


def test_the_height_of_the_legs_is_no_error():
    """A lift-off begins with the reference at the ground and the body on its legs; only what follows is counted."""
    run = samara.fly("hover", settings={"duration": 3.0, "drones.vehicle": "iris"})
    legs = -min(point.z for point in run.vehicle["contact"].points_B)
    assert run.error[0] == pytest.approx(legs, abs=1e-2)  # the feet carry its weight, and give way a little
    flying = (run.position[:, 2] > legs + 1e-3) & (run.reference_position[:, 2] >= legs)
    assert run.summary()["tracking error, RMS"].value == pytest.approx(np.sqrt(np.mean(run.error[flying] ** 2)))
    assert run.summary()["tracking error, largest"].value == run.error[flying].max() < legs
    (checked,) = check_expectations(run, Expect(no_crash=False, max_error=0.9 * legs))
    assert checked.satisfied and f"{run.error[flying].max():.3f} m" in checked.text


def test_an_autopilot_that_was_told_places_has_no_tracking_error(landing):
    """PX4 and ArduPilot find their own way to a place; Betaflight's sticks follow the reference itself."""
    for controller, followed in (("px4", False), ("ardupilot", False), ("betaflight", True)):
        own = replace(landing.tracks[0], controller=controller).summary()
        assert ("tracking error, RMS" in own) is followed
        assert "landing error, horizontal" in own
        unasked = replace(shifted(landing, "reference", (7.0, 0.0, 8.0)).tracks[0], controller=controller).summary()
        assert ("landing error, horizontal" in unasked) is followed  # a failsafe's choice is no error


def test_a_drone_that_never_rose_says_so():
    run = samara.fly("hover", settings={"duration": 0.05})
    assert run.summary()["took off"].text == "never"
    assert "tracking error, RMS" not in run.summary()
    assert "took off never" in repr(run)


def test_a_run_and_a_vehicle_print_as_a_few_lines(landing):
    assert repr(landing).startswith("Run hover: 1 drone, 6.0 s, ")
    assert "drone: iris flown by geometric, ends at " in repr(landing)
    assert len(str(landing).splitlines()) == 2
    many = replace(landing, tracks=tuple(replace(landing.tracks[0], name=f"d{k}") for k in range(100)))
    assert repr(many).splitlines()[-1] == "  and 94 more drones" and len(repr(many).splitlines()) == 8
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
    with pytest.raises(KeyError, match="drone has no stream 'pizza'; there are state, "):
        landing.to_pandas("pizza")


def test_a_flight_that_ends_early_tells_the_time_it_flew():
    """By the clock or not, the last word of progress is where the flight ended, and the factor is made of it."""
    from samara.sim.fly import _to_the_end
    from samara.sim.simulation import Simulation

    scenario = samara.load_scenario("hover", {"duration": 1.0})
    for realtime in (False, True):
        simulation = Simulation(scenario, lambda blocks, lines: None)
        said = []

        def stop(now, total, simulation=simulation, said=said):
            said.append((now, total))
            simulation.fleet.ended = "enough"

        _to_the_end(simulation, realtime, stop)
        assert said[-1] == (simulation.time_us / 1e6, 1.0) and simulation.time_us < 900_000


@pytest.mark.parametrize(
    ("joules", "text"), [(999.0, "999 J"), (1000.0, "1 kJ"), (2340.0, "2.34 kJ"), (-5000.0, "-5 kJ")]
)
def test_a_thousand_joules_are_a_kilojoule(joules, text):
    assert formatted(joules, "J") == text
