"""Stored recordings load, are plotted, exported and replayed, bit for bit.

The hashes are of the states flown by the code that recorded them.
"""

import csv
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support.repository import RECORDINGS

import samara
from samara.documents.conventions import bus_current_a
from samara.physics.multirotor import state_names
from samara.physics.types import Environment
from samara.record.export import export_csv
from samara.record.recorder import Recorder, Stream
from samara.record.recording import RecordingError, read_recording
from samara.scenario.flight_events import Occurrence, OccurrenceType
from samara.scenario.snapshot import BUS_SCHEMA_VERSION
from samara.sim.fly import fingerprint
from samara.view.report.report import embedded_scenario, fly_command, scenario_text

HERE = RECORDINGS
FINGERPRINTS = {
    "sag": "3129fb227ed8c2a85c9e7105aeb7f51dad37b83fe2ee6a2b150ffacd325f1169",
    "load": "b3dbfd1c24e6c4f41ebbfc65bbdc5ece4aa2962250b8ce3fa56d70e0975bdc31",
    "fall": "8918965ee6519937c2688ba3879373b1521b894bfa9343299adf95501ac8fd95",
}


@pytest.fixture(scope="module", params=FINGERPRINTS)
def stored_run(request):
    return samara.load_run(HERE / f"{request.param}.mcap")


def test_the_states_and_those_of_a_replay_equal_the_recorded_ones_bit_for_bit(stored_run):
    assert fingerprint(stored_run) == FINGERPRINTS[stored_run.scenario]
    assert fingerprint(samara.replay(stored_run)) == FINGERPRINTS[stored_run.scenario]


def test_columns_have_the_names_of_a_current_flight(stored_run):
    for drone_record in stored_run.drone_records:
        assert drone_record.tables["state"].fields == state_names(drone_record.vehicle)
        assert not [name for table in drone_record.tables.values() for name in table.fields if "effects" in name]
    assert stored_run.metadata["schema"] == str(BUS_SCHEMA_VERSION)


def test_voltage_and_current_follow_from_the_battery_equations():
    """The battery's voltage law at the last row: V = OCV(charge) − V₁ − I R₀ with one of twelve cells gone."""
    drone_record = samara.load_run(HERE / "sag.mcap").drone_records[0]
    (battery,) = drone_record.vehicle["battery"]
    state, outputs = drone_record.tables["state"], drone_record.tables["derived"]
    open_circuit = np.interp(state["battery.charge"][-1], battery.table_charge, battery.table_voltage) * 11.0 / 12.0
    voltage = open_circuit - state["battery.polarisation"][-1] - battery.resistance * outputs["current"][-1]
    assert outputs["voltage"][-1] == pytest.approx(voltage, rel=1e-12)
    assert outputs["motor_current"][-1].sum() == pytest.approx(outputs["current"][-1], rel=1e-14)
    assert dict(zip(outputs.fields, outputs.units, strict=True))["voltage"] == "V"


def test_airspeed_is_the_speed_relative_to_the_recorded_wind():
    drone_record = samara.load_run(HERE / "load.mcap").drone_records[0]
    air_speed = np.linalg.norm(drone_record.velocity - drone_record.wind, axis=1)
    assert drone_record.tables["derived"]["airspeed"] == pytest.approx(air_speed, rel=1e-12)


def test_settings_are_separate_from_the_text_of_the_scenario():
    run = samara.load_run(HERE / "load.mcap")
    text, settings = scenario_text(run)
    assert settings == {"wind.wind_W": [3.0, 0.0, 0.0]} and "# set" not in text
    assert embedded_scenario(run).wind.sample(0.0, 0.0, (), ())[0].x == 3.0
    assert fly_command(run.scenario, text, settings) == "samara fly scenario.toml --set 'wind.wind_W=[3.0, 0.0, 0.0]'"


def test_a_crash_is_an_occurrence():
    run = samara.load_run(HERE / "fall.mcap")
    assert run.crashed == ("first",)
    status = run["first"].tables["status"]
    assert status.times_us.tolist() == [0, 760_000] and status["crashed"].tolist() == [0.0, 1.0]
    assert not run["second"].tables["status"]["crashed"].any()
    assert run.occurrences == (Occurrence(760_000, 0, OccurrenceType.CRASHED),)


def test_stored_flights_are_plotted_and_exported(stored_run, tmp_path):
    plt.close(stored_run.plot())
    stored_run.save(tmp_path / "again.mcap")
    loaded = samara.load_run(tmp_path / "again.mcap")
    assert fingerprint(loaded) == FINGERPRINTS[stored_run.scenario]
    paths = export_csv(read_recording(HERE / f"{stored_run.scenario}.mcap"), tmp_path)
    for drone_record in stored_run.drone_records:
        with (tmp_path / f"{drone_record.name}.state.csv").open() as file:
            names = [re.sub(r" \[[^\]]*\]$", "", heading) for heading in next(csv.reader(file))]
        assert names == ["time", "time_us", *state_names(drone_record.vehicle)]
        assert tmp_path / f"{drone_record.name}.derived.csv" in paths


@pytest.mark.parametrize("schema", [str(BUS_SCHEMA_VERSION + 1), str(BUS_SCHEMA_VERSION - 1), "new", "-3", None])
def test_other_schemas_are_refused_in_one_sentence(tmp_path, schema):
    stream = Stream("/a/state", ("x",), ("m",), "samara.State")
    path = tmp_path / "other.mcap"
    with Recorder(path, [stream], {"drones": "[]"} | ({"schema": schema} if schema else {})) as recorder:
        recorder.write({"/a/state": (np.array([0]), np.zeros((1, 1)))})
    with pytest.raises(RecordingError, match=rf"schema is {schema or 'none'}; expected {BUS_SCHEMA_VERSION}") as error:
        read_recording(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize("number", ["0", "2", "3", "one"])
def test_other_formats_are_refused_in_one_sentence(tmp_path, number, monkeypatch):
    monkeypatch.setattr("samara.record.recorder.FORMAT", number)
    path = tmp_path / "other.mcap"
    with Recorder(path, [Stream("/a/state", ("x",), ("m",), "samara.State")]):
        pass
    monkeypatch.undo()
    with pytest.raises(RecordingError, match=rf"format is {number}; expected 1") as error:
        read_recording(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_a_current_flight_records_supply_airspeed_and_status(tmp_path):
    """The recorded current is that of the NED simulator, and every status row is a change."""
    scenario = tmp_path / "drop.toml"
    scenario.write_text(
        'schema = 1\nname = "drop"\nduration = 1.0\n[[drones]]\nname = "d"\nvehicle = "iris"\nstart = [0, 0, 1]\n'
        'airborne = true\n[[events]]\nat = 0.1\ndo = "disarm"\n'
    )
    run = samara.fly(
        scenario, settings={"wind.model": "constant", "wind.wind_W": [1.0, 0.0, 0.0]}, out=tmp_path / "d.mcap"
    )
    drone_record = run.drone_records[0]
    assert run.metadata["schema"] == str(BUS_SCHEMA_VERSION)
    assert json.loads(run.metadata["settings"]) == {"wind.model": "constant", "wind.wind_W": [1.0, 0.0, 0.0]}
    assert b"# set" not in run.attachments["scenario.toml"]
    state = samara.State.from_numpy(drone_record.tables["state"].rows[0], layout="wxyz", vehicle=drone_record.vehicle)
    environment = Environment(wind_W=samara.Vec3(1.0, 0.0, 0.0))
    outputs = drone_record.tables["derived"]
    assert outputs["current"][0] == pytest.approx(
        bus_current_a(state, tuple(drone_record.command[0]), drone_record.vehicle, environment), rel=1e-13
    )
    assert outputs["current"][-1] < outputs["current"][0]
    assert outputs["airspeed"][0] == pytest.approx(1.0, rel=1e-6)
    status = drone_record.tables["status"].rows
    assert run.crashed == ("d",) and (np.abs(np.diff(status, axis=0)).sum(axis=1) > 0.0).all()


@pytest.mark.parametrize(
    ("name", "unit"), [("battery.charge", "1"), ("battery.polarisation", "V"), ("contact[2].z", "m")]
)
def test_states_of_effects_have_the_declared_names_and_units(name, unit):
    table = samara.load_run(HERE / "sag.mcap").drone_records[0].tables["state"]
    assert dict(zip(table.fields, table.units, strict=True))[name] == unit


def test_an_effect_named_like_a_part_of_the_state_gets_a_unique_name():
    effect = samara.Effect("p_W", initial=lambda vehicle: (1.0, 2.0))
    names = state_names(samara.vehicle("crazyflie").with_effect(effect))
    assert len(set(names)) == len(names) and names[-2:] == ("p_W_[0]", "p_W_[1]")
