"""The vehicle of a flight: an object in memory, a TOML file in recordings; written, parsed and checked once."""

import pickle
from collections import Counter
from dataclasses import replace

import pytest

import samara
from samara.record.load import load_run
from samara.record.streams import Attachments
from samara.vehicles import defaults as ground
from samara.vehicles import loader, writer

SHORT = 0.05  # [s]
SWARM = """
duration = 0.05
[[drones]]
name = "a"
vehicle = "own.toml"
start = [0.0, 0.0, 0.0]
tasks = [{type = "hover"}]
[[drones]]
name = "b"
vehicle = "own.toml"
start = [2.0, 0.0, 0.0]
tasks = [{type = "hover"}]
[[drones]]
name = "c"
vehicle = "own.toml"
start = [4.0, 0.0, 0.0]
tasks = [{type = "hover"}]
effects = {damping = false}
"""


@pytest.fixture
def calls(monkeypatch):
    """Count the calls by which vehicles are written, parsed, and their contact analysed; with an empty cache."""
    call_counts = Counter()

    def count(module, function):
        original = getattr(module, function)

        def wrapper(*arguments, **options):
            call_counts[function.strip("_")] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(module, function, wrapper)

    count(writer, "_toml")
    count(loader, "parse_document")
    count(ground, "standing_modes")
    ground.largest_stable_step.cache_clear()
    yield call_counts
    ground.largest_stable_step.cache_clear()


def fail_if_called(*arguments, **options):
    raise AssertionError("called during a flight in memory")


def test_a_flight_in_memory_neither_writes_nor_parses_nor_checks_its_vehicle(monkeypatch):
    """The shipped scenario's text is read; its vehicle was loaded before."""
    vehicle = samara.load_scenario("hover").drones[0].vehicle
    with monkeypatch.context() as context:
        for module, function in (
            (writer, "_toml"),
            (writer, "parse_vehicle"),
            (loader, "parse_vehicle"),
            (ground, "standing_modes"),
        ):
            context.setattr(module, function, fail_if_called)
        run = samara.fly("hover", settings={"duration": SHORT})
        assert run.vehicle is vehicle
        assert run.summary()
        assert "scenario.toml" in run.attachments
    text = run.attachments["vehicle/drone.toml"].decode()
    assert loader.parse_vehicle(text, "drone.toml") == vehicle


def test_a_scenario_object_flies_without_toml(monkeypatch):
    import tomllib

    scenario = samara.load_scenario("hover", {"duration": SHORT})
    monkeypatch.setattr(tomllib, "loads", fail_if_called)
    monkeypatch.setattr(writer, "_toml", fail_if_called)
    assert samara.fly(scenario).vehicle is scenario.drones[0].vehicle


def test_a_recorded_flight_writes_its_vehicle_once_and_verifies_that_text_once(calls, tmp_path):
    scenario = samara.load_scenario("swarm", {"duration": SHORT, "drones.count": 3})
    calls.clear()
    run = samara.fly(scenario, out=tmp_path / "run.mcap")
    assert (calls["toml"], calls["parse_document"]) == (1, 1)
    assert all(drone_record.vehicle is scenario.drones[0].vehicle for drone_record in run.drone_records)
    calls.clear()
    loaded = load_run(tmp_path / "run.mcap")
    assert (calls["toml"], calls["parse_document"]) == (0, 1)
    assert all(drone_record.vehicle == scenario.drones[0].vehicle for drone_record in loaded.drone_records)


def test_a_run_saved_later_has_the_bytes_of_one_recorded_in_flight(tmp_path):
    scenario = samara.load_scenario("swarm", {"duration": SHORT, "drones.count": 2})
    recorded = samara.fly(scenario, out=tmp_path / "run.mcap")
    in_memory = samara.fly(scenario)
    names = ["scenario.toml", *(f"vehicle/{drone.name}.toml" for drone in scenario.drones)]
    assert list(in_memory.attachments) == list(recorded.attachments) == names
    assert dict(in_memory.attachments) == dict(recorded.attachments)


def test_contact_is_checked_once_for_all_drones_of_a_vehicle(calls, tmp_path):
    """Three tables name one file; one of them switches an effect off, which leaves the contact unchanged."""
    samara.save_vehicle(samara.vehicle("crazyflie_documented"), tmp_path / "own.toml")
    ground.largest_stable_step.cache_clear()
    calls.clear()
    samara.vehicle(tmp_path / "own.toml")
    single_count = calls["standing_modes"]
    assert single_count > 0
    ground.largest_stable_step.cache_clear()
    calls.clear()
    (tmp_path / "swarm.toml").write_text(SWARM)
    run = samara.fly(tmp_path / "swarm.toml", out=tmp_path / "run.mcap")
    assert (
        calls["standing_modes"] == single_count + 2
    )  # each of the two files in the recording is verified by parsing it
    assert run["a"].vehicle is run["b"].vehicle
    assert not run["c"].vehicle.has("damping")


def test_a_vehicle_with_python_effects_flies_and_is_recorded_without_a_file(tmp_path):
    scenario = samara.load_scenario("hover", {"duration": SHORT})
    tethered = scenario.drones[0].vehicle.with_effect(samara.Effect("tether"))
    scenario = replace(scenario, drones=(replace(scenario.drones[0], vehicle=tethered),))
    run = samara.fly(scenario, out=tmp_path / "run.mcap")
    assert run.vehicle is tethered
    assert list(run.attachments) == ["scenario.toml"]
    in_memory = samara.fly(scenario).attachments
    assert "vehicle/drone.toml" not in in_memory
    assert len(in_memory) == 1


def test_attachments_survive_pickling():
    """Vehicles are pickled as texts, because identities are valid in one process only."""
    vehicle = samara.vehicle("iris")
    files = pickle.loads(pickle.dumps(Attachments({"iris.toml": vehicle, "notes.txt": b"windy"})))
    assert loader.parse_vehicle(files["iris.toml"].decode(), "iris.toml") == vehicle
    assert files["notes.txt"] == b"windy"
