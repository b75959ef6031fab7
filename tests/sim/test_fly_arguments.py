"""The arguments of `samara.fly` that change a scenario: names, paths, objects and functions mean the same flight."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from support.command import call
from support.trained_policies import trained_policy

import samara
from samara.control.registry import controller_spec
from samara.scenario.changes import Changes, change_scenario
from samara.sensors.registry import EXACT, part
from samara.sensors.site import HOME
from samara.sim.fly import fingerprint
from samara.wind.sources import Constant, NoWind
from samara.wind.turbulence import Dryden

CHANGED = ("vehicle", "controller", "wind", "sensors", "seed", "duration")
SHORT = {"duration": 0.4}
SHIPPED = [name for name in samara.scenario_names() if not name.endswith("autopilot")]
CONTROLLER_FILE = """
from samara.control.geometric import geometric

calls = {}


def follow(state, reference, vehicle, controller_state):
    if vehicle not in calls:
        calls[vehicle] = geometric(vehicle)
    return calls[vehicle](state, reference, vehicle, controller_state)
"""


def states(run):
    return [record.tables["state"].rows for record in run.drone_records]


def assert_same_flight(*runs):
    for run in runs[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(states(runs[0]), states(run), strict=True))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with a scenario that has every changed value written in it, and with what the arguments name."""
    monkeypatch.chdir(tmp_path)
    Path("scenarios").mkdir()
    samara.save_vehicle(samara.vehicle("crazyflie", mass=0.031), "mine.toml")
    samara.save_vehicle(samara.vehicle("crazyflie", mass=0.031), "scenarios/mine.toml")
    Path("follow.py").write_text(CONTROLLER_FILE)
    Path("scenarios/written.toml").write_text(
        """
duration = 0.4
seed = 11
wind = { model = "dryden", speed = 5, from_deg = 270 }

[[drones]]
vehicle = "mine.toml"
start = [0.0, 0.0, 1.0]
airborne = true
controller = "pid"
sensors = ["bmi088", "vicon"]
tasks = [{ type = "hover", duration = 1.0 }]
"""
    )
    Path("scenarios/bare.toml").write_text(
        """
duration = 3.0
seed = 2

[[drones]]
vehicle = "iris"
start = [0.0, 0.0, 1.0]
airborne = true
tasks = [{ type = "hover", duration = 1.0 }]
"""
    )
    return tmp_path


def changes_of_every_kind():
    vehicle = samara.vehicle("mine.toml")
    return {
        "texts": {"vehicle": "mine.toml", "controller": "pid", "wind": "dryden:5", "sensors": "bmi088,vicon"},
        "paths and tables": {
            "vehicle": Path("mine.toml"),
            "controller": "pid",
            "wind": {"model": "dryden", "speed": 5, "from_deg": 270},
            "sensors": ["bmi088", {"part": "vicon"}],
        },
        "objects": {
            "vehicle": vehicle,
            "controller": controller_spec("pid"),
            "wind": Dryden.from_direction(5.0, np.deg2rad(270.0)),
            "sensors": [part("bmi088").sensor(), part("vicon").sensor()],
        },
    }


def test_every_kind_of_argument_is_the_scenario_with_it_written_in(files):
    """On a path and on a `Scenario`, and in a batch: the same bits as the file that states the same."""
    written = samara.fly("scenarios/written.toml")
    final = states(written)[0][-1]
    for changes in changes_of_every_kind().values():
        for scenario in ("scenarios/bare.toml", samara.load_scenario("scenarios/bare.toml")):
            assert_same_flight(written, samara.fly(scenario, **changes, seed=11, duration=0.4))
            flights = samara.fly_many(scenario, 2, **changes, seed=10, duration=0.4)
            assert [float(x[1]) for x in samara.core.tree.flatten(flights.final)] == final.tolist()


def test_the_command_flies_what_python_flies(files, monkeypatch, capsys):
    words = ("--vehicle", "mine.toml", "--controller", "pid", "--wind", "dryden:5", "--sensors", "bmi088,vicon")
    words += ("--seed", "11", "--duration", "0.4", "--no-report", "-o", "flown")
    status, _, err = call(monkeypatch, capsys, "fly", "scenarios/bare.toml", *words)
    assert (status, err) == (0, "")
    assert_same_flight(samara.fly("scenarios/written.toml"), samara.load_run("flown/run.mcap"))


def test_functions_fly_on_names_objects_batches_and_the_command_line(files, monkeypatch, capsys):
    from samara.scenario.changes import load_function

    follow = load_function("follow.py:follow")
    run = samara.fly("hover", controller=follow, **SHORT)
    scenario = samara.load_scenario("hover")
    assert_same_flight(
        run,
        samara.fly("hover", controller="follow.py:follow", **SHORT),
        samara.fly(scenario, controller=follow, **SHORT),
        samara.fly(scenario, controller="follow.py:follow", **SHORT),
    )
    flights = samara.fly_many("hover", 1, controller=follow, **SHORT)
    assert [float(x[0]) for x in samara.core.tree.flatten(flights.final)] == states(run)[0][-1].tolist()
    words = (
        "--controller",
        "follow.py:follow",
        "--duration",
        "0.4",
        "--set",
        "expect={}",
        "--no-report",
        "-o",
        "flown",
    )
    assert call(monkeypatch, capsys, "fly", "hover", *words)[0] == 0
    recorded = samara.load_run("flown/run.mcap")
    assert_same_flight(run, recorded, samara.replay(recorded))
    assert json.loads(recorded.metadata["drones"])[0]["controller"] == "follow"


def test_a_policy_folder_is_a_controller(files):
    policy = trained_policy()
    arguments = {"vehicle": policy.vehicle, "controller": policy.folder, **SHORT}
    run = samara.fly("hover", **arguments)
    assert_same_flight(
        run,
        samara.fly(samara.load_scenario("hover"), **arguments),
        samara.fly("hover", **{**arguments, "controller": controller_spec("policy", file=policy.folder)}),
    )
    assert any(name.startswith("policy/") for name in run.attachments)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_vehicle_or_sensors_change_a_shipped_scenario_and_its_object_alike(name):
    """With the effects, downwash, batteries and estimators that the scenario adds to its vehicles."""

    def outcome(scenario, **changes):
        try:
            changed = change_scenario(scenario, Changes(duration=0.1, **changes))
        except ValueError as error:
            return str(error).split(":")[-1]
        return fingerprint(samara.fly(changed)), changed.rates

    for changes in (
        {"vehicle": "iris"},
        {"vehicle": samara.vehicle("iris")},
        {"sensors": ["bmi088", "vicon"]},
        {"sensors": "none"},
        {"wind": 3},
    ):
        assert outcome(name, **changes) == outcome(samara.load_scenario(name), **changes)


def test_a_vehicle_object_keeps_the_effects_of_the_scenario(tmp_path):
    path = tmp_path / "low.toml"
    samara.fly("stack", vehicle=samara.vehicle("iris"), duration=0.1, out=tmp_path / "stack.mcap")
    run = samara.load_run(tmp_path / "stack.mcap")
    assert all(record.vehicle.has("downwash") for record in run.drone_records)
    assert_same_flight(run, samara.replay(run))
    run = samara.fly("low_battery", vehicle=samara.vehicle("iris"), duration=0.1)
    assert run.drone_records[0].vehicle["battery"] == samara.load_scenario("low_battery").drones[0].vehicle["battery"]
    assert not path.exists()


@pytest.mark.parametrize(
    ("wind", "wind_W"),
    [
        (4, (4.0, 0.0, 0.0)),
        ("4", (4.0, 0.0, 0.0)),
        (np.float64(4.0), (4.0, 0.0, 0.0)),
        ((1, -2, 0.5), (1.0, -2.0, 0.5)),
        (np.array([1.0, -2.0, 0.5]), (1.0, -2.0, 0.5)),
        (Constant(samara.Vec3(0.0, 3.0, 0.0)), (0.0, 3.0, 0.0)),
        ("constant:4", (4.0, 0.0, 0.0)),
        ({"speed": 4, "from_deg": 180}, (0.0, 4.0, 0.0)),
    ],
)
def test_winds(wind, wind_W):
    for scenario in ("hover", samara.load_scenario("hover")):
        assert change_scenario(scenario, Changes(wind=wind)).wind.wind_W == pytest.approx(wind_W, abs=1e-12)


def test_no_wind_and_the_speed_of_the_scenarios_wind():
    for scenario in ("wind", samara.load_scenario("wind")):
        assert isinstance(change_scenario(scenario, Changes(wind="none")).wind, NoWind)
        several = [{"speed": 3}, {"model": "gust", "speed": 2, "start": 1, "duration": 1}]
        assert len(change_scenario(scenario, Changes(wind=several)).wind.sources) == 2
    base = {"wind": {"model": "constant", "speed": 6, "from_deg": 180}}
    for scenario, settings in (("hover", base), (samara.load_scenario("hover", base), {})):
        wind = change_scenario(scenario, Changes(wind="dryden"), settings).wind
        assert wind.mean.wind_W == pytest.approx((0.0, 6.0, 0.0), abs=1e-12)


def test_sensors_may_be_removed_and_may_be_objects():
    exact = EXACT["imu"](HOME)
    for scenario in ("sensors", samara.load_scenario("sensors")):
        bare = change_scenario(scenario, Changes(sensors="none")).drones[0]
        assert bare.sensors == () and bare.estimator.name == "truth"
        drone = change_scenario(scenario, Changes(sensors=exact)).drones[0]
        assert drone.sensors == (exact,) and drone.estimator.name == "truth"


def test_arguments_take_precedence_over_settings():
    settings = {"drones.vehicle": "crazyflie", "drones.yaw_deg": 90.0, "duration": 9.0, "wind.from_deg": 180}
    scenario = change_scenario("hover", Changes(vehicle="iris", wind=4, duration=2), settings)
    assert scenario.drones[0].vehicle.name == "iris" and scenario.drones[0].yaw == np.deg2rad(90.0)
    assert scenario.duration == 2.0 and scenario.wind.wind_W == pytest.approx((0.0, 4.0, 0.0), abs=1e-12)
    with pytest.raises(ValueError, match="settings apply to a scenario given by name or path"):
        samara.fly(scenario, settings={"duration": 1.0})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vehicle": "irsi"}, r"no vehicle 'irsi'; expected .*; did you mean iris.*\?"),
        ({"vehicle": 3}, "vehicle = 3: expected a shipped name, the path of a .toml file or a Vehicle"),
        ({"controller": "geometrc"}, r"no controller 'geometrc'; expected .*; did you mean geometric\?"),
        ({"controller": 3}, "controller = 3: expected a name, a policy folder or a function"),
        ({"controller": "missing.py:f"}, "missing.py:f: there is no file missing.py; expected file.py:function"),
        ({"wind": "drydn:3"}, r"wind = 'drydn:3': no wind model 'drydn'; did you mean dryden\?"),
        ({"wind": "dryden"}, r"wind = 'dryden': the scenario has no wind speed; expected one, such as 'dryden:6'"),
        ({"wind": "strong"}, r"wind = 'strong': expected a speed \[m/s\], such as 4, or one of the models none, "),
        ({"wind": (1, 2)}, r"wind = \(1, 2\): expected a speed \[m/s\], three components, "),
        ({"wind": True}, "wind = True: expected a speed"),
        ({"wind": -3}, r"wind\[0\].speed = -3.0: expected a number from 0 to 150"),
        ({"wind": 400}, r"wind\[0\].speed = 400.0: expected a number from 0 to 150"),
        ({"wind": "none:3"}, "wind = 'none:3': none has no mean speed"),
        ({"sensors": "imx"}, "sensors = .*: expected a list of names among imu, "),
        ({"sensors": 3}, "sensors = 3: expected names, tables or sensors, or 'none'"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0"),
        ({"seed": 1.5}, "seed = 1.5: expected a whole number"),
        ({"duration": 0}, "duration = 0.0: expected a number above 0"),
        ({"duration": "long"}, "duration = 'long': expected a number above 0"),
        ({"settings": [1]}, r"settings = \[1\]: expected values by key|settings apply to"),
    ],
)
def test_a_wrong_value_gets_one_sentence(changes, sentence):
    for scenario in ("hover", samara.load_scenario("hover")):
        for function in (samara.fly, lambda s, **options: samara.fly_many(s, 1, **options)):
            with pytest.raises(ValueError, match=sentence):
                function(scenario, **changes)


def test_a_controller_of_three_arguments_has_no_state():
    """The time comes by name; a fourth argument is the state, which the attribute `initial_state` starts."""
    vehicle = samara.vehicle("crazyflie")
    _, hover_command = samara.hover(vehicle)
    seen = []

    def stateless(state, reference, vehicle):
        return hover_command

    def timed(state, reference, vehicle, time):
        seen.append(time)
        return hover_command

    def counting(state, reference, vehicle, controller_state):
        seen.append(controller_state)
        return hover_command, controller_state + 1

    counting.initial_state = 5
    first = samara.fly("hover", vehicle=vehicle, controller=stateless, duration=0.05)
    assert_same_flight(first, samara.fly("hover", vehicle=vehicle, controller=timed, duration=0.05))
    assert seen[0] == 0.0 and seen == sorted(seen)
    seen.clear()
    assert_same_flight(first, samara.fly("hover", vehicle=vehicle, controller=counting, duration=0.05))
    assert seen == list(range(5, 5 + len(seen)))
    for wrong in (lambda state, reference: hover_command, lambda a, b, c, d, e: hover_command):
        with pytest.raises(
            ValueError, match=r"expected \(state, reference, vehicle\), or \(state, reference, vehicle, "
        ):
            samara.fly("hover", vehicle=vehicle, controller=wrong, duration=0.05)


@pytest.mark.parametrize(
    "answer",
    [(0.5,) * 3, ((0.5,) * 3, ()), ("four", ()), "four", (None,) * 4, (0.5j,) * 4, None, 0.5, np.full((4, 1), 0.5)],
    ids=repr,
)
def test_an_answer_that_is_no_command_gets_one_sentence(answer):
    with pytest.raises(ValueError, match=r"controller( of \w+)? returned [^\n]*; expected 4 numbers"):
        samara.fly("hover", controller=lambda state, reference, vehicle: answer, duration=0.05)


def test_a_class_is_not_a_controller_but_its_instance_is():
    class Constant:
        def __call__(self, state, reference, vehicle):
            return (0.5,) * 4

    with pytest.raises(
        ValueError, match=r"controller Constant is a class; expected .* as in controller = Constant\(\)"
    ):
        samara.fly("hover", controller=Constant, duration=0.05)
    assert samara.fly("hover", controller=Constant(), duration=0.05).time[-1] == 0.05


def test_an_error_in_a_controller_keeps_its_type_and_says_when_and_where():
    def failing(state, reference, vehicle, time):
        return (0.5,) * (4 if time < 0.02 else int("four"))

    with pytest.raises(ValueError, match="invalid literal") as caught:
        samara.fly("hover", controller=failing, duration=0.05)
    line = failing.__code__.co_firstlineno + 1
    assert caught.value.__notes__ == [
        f"raised by the controller at 0.02 s of the flight (test_fly_arguments.py, line {line})"
    ]


@pytest.mark.parametrize("scenario", [5, None, {}, ["hover"]])
def test_something_else_than_a_scenario_gets_one_sentence(scenario):
    for function in (samara.fly, samara.load_scenario, lambda choice: samara.fly_many(choice, 1)):
        with pytest.raises(ValueError, match=r"expected the name of a shipped scenario, or the path of a .toml file"):
            function(scenario)
    with pytest.raises(ValueError, match="vehicle = 5: expected the name of a shipped vehicle"):
        samara.vehicle(5)


@pytest.mark.parametrize("scenario", ["iris", samara.vehicle("iris")], ids=["name", "object"])
def test_a_vehicle_is_not_a_scenario(scenario):
    for function in (samara.fly, lambda choice: samara.compare(choice, ["pid"], vehicle="iris")):
        with pytest.raises(
            ValueError, match=r"^iris is a vehicle, not a scenario; expected samara fly SCENARIO --vehicle"
        ):
            function(scenario)


def test_an_unknown_keyword_gets_a_suggestion_and_another_suffix_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'vehicel'; did you mean vehicle\?"):
        samara.fly("hover", vehicel="iris")
    with pytest.raises(ValueError, match=r"x\.csv': expected a file whose name ends in \.mcap"):
        samara.fly("hover", duration=0.05, out=tmp_path / "x.csv")


def test_a_byte_order_mark_is_not_part_of_a_file(tmp_path):
    samara.save_vehicle(samara.vehicle("iris"), tmp_path / "plain.toml")
    text = (tmp_path / "plain.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8-sig")
    assert samara.vehicle(tmp_path / "mine.toml") == samara.vehicle(tmp_path / "plain.toml")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-16")
    with pytest.raises(ValueError, match=r"mine\.toml: cannot be read \(it is not text in UTF-8\)"):
        samara.vehicle(tmp_path / "mine.toml")


def test_a_vehicle_file_is_not_a_scenario_nor_the_reverse(files, monkeypatch, capsys):
    status, _, err = call(monkeypatch, capsys, "fly", "mine.toml")
    assert status == 2
    assert err.startswith(
        "samara: mine.toml is a vehicle, not a scenario; expected samara fly SCENARIO --vehicle mine.toml"
    )
    status, _, err = call(monkeypatch, capsys, "fly", "hover", "--vehicle", "scenarios/bare.toml")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(
        "samara: scenarios/bare.toml is a scenario, not a vehicle; expected samara fly scenarios/bare.toml"
    )


def test_the_keywords_are_in_the_signatures():
    for function in (samara.fly, samara.fly_many):
        assert set(CHANGED) <= set(inspect.signature(function).parameters)
        assert all(name in (inspect.getdoc(function) or "") for name in CHANGED)


def test_other_types_of_an_autopilot_or_a_recording_get_one_sentence():
    with pytest.raises(ValueError, match=r"autopilot = 'px4': expected a samara\.scenario\.Autopilot"):
        samara.fly("hover", autopilot="px4")
    for function in (samara.load_run, samara.replay):
        with pytest.raises(ValueError, match="path = 5: expected the path of a recording"):
            function(5)
