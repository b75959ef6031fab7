"""A table of a scenario becomes a call: every value is of the type and within the limits that the parameter declares, or one
sentence states the expectation; nothing is computed before that."""

import inspect
import math
from typing import Any, get_type_hints

import pytest

import samara
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3
from samara.core.coerce import (
    InvalidValueError,
    Laps,
    PositionArgument,
    ScalarOrVectorLimits,
    Speed,
    UnitInterval,
    coerce_argument,
    radians,
)
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.file import ScenarioError, parse_scenario
from samara.scenario.file.environment import SHAPES
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.wind import sources as wind
from samara.wind.registry import WINDS

HEAD = 'duration = 1.0\n[[drones]]\nvehicle = "crazyflie"\nairborne = true\nstart = [0, 0, 1]\n'
MAKERS = [maker for table in (TASKS, WINDS, SHAPES, ACTIONS) for maker in table.values()]
MAKERS += [wind.from_direction for wind in WINDS.values() if hasattr(wind, "from_direction")]
HANDED = {
    "points",
    "gates",
    "mean",
    "data",
    "speed",
    "direction_from",
    "name",
}  # read individually, each with a specific sentence
WRONG: list[Any] = ["0.6", True, [1], [], {"a": 1}, 10**400, -(10**400), 1e300, float("nan"), [1, 2, "3"], [[1, 2, 3]]]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__qualname__)
def test_every_parameter_declares_its_limits(maker):
    hints = get_type_hints(maker, include_extras=True)
    for name in set(inspect.signature(maker).parameters) - HANDED:
        assert hints[name] is not Any, name
        for wrong in WRONG:
            if (isinstance(wrong, str) and "str" in str(hints[name])) or (
                isinstance(wrong, bool) and hints[name] is bool
            ):
                continue
            if isinstance(wrong, list) and "Sequence" in str(hints[name]):
                continue
            with pytest.raises(InvalidValueError):
                coerce_argument(wrong, hints[name])


def test_values_become_what_parameters_take():
    assert coerce_argument([1, 2, 3], PositionArgument) == Vec3(1.0, 2.0, 3.0)
    assert coerce_argument(2, Speed) == 2
    assert coerce_argument("along", float | str) == "along" and coerce_argument(3, float | str) == 3.0
    assert coerce_argument(3, float | None) == 3.0
    assert radians(180) == pytest.approx(3.141592653589793, abs=0)
    assert radians([0, 90])[1] == radians(90)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1e-300, Speed, "a number from 0.001 to 1000 m/s"),
        (200000, Laps, "a number from 0.001 to 1000"),
        ("x", float | str | None, None),
        (True, int, "a whole number"),
        (1.5, int, "a whole number"),
        ([1, 2, 1e9], PositionArgument, "three numbers, each from -1e+06 to 1e+06 m"),
        (b"", bytes | None, "none in a file"),
        ([1] * 200_000, list[float], "a list of at most 100000 entries"),
    ],
)
def test_limits_are_stated(value, hint, expected):
    if expected is None:
        assert coerce_argument(value, hint) == value
        return
    with pytest.raises(InvalidValueError) as refused:
        coerce_argument(value, hint)
    assert str(refused.value) == expected


def test_one_number_for_all_axes_or_three():
    from typing import Annotated

    sigma = Annotated[Any, ScalarOrVectorLimits("m/s", 0.0, 10.0)]
    assert coerce_argument(1, sigma) == 1.0 and coerce_argument([1, 2, 3], sigma) == Vec3(1.0, 2.0, 3.0)
    for wrong in (-1, [1, 2, 11], [1], "1"):
        with pytest.raises(InvalidValueError):
            coerce_argument(wrong, sigma)
    assert coerce_argument(1, Annotated[Any, UnitInterval("", 0.0, 1.0)]) == 1.0


GUSTY = '[wind]\nmodel = "turbulence"\nmean_W = [1, 0, 0]\n'
CIRCLE = 'type = "circle"\ncentre = [0, 0, 1]\nradius = 1\n'
LISSAJOUS = 'type = "lissajous"\ncentre = [0, 0, 1]\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f'{GUSTY}sigma = "0.6"\ntau = 1', "sigma = '0.6': expected a finite number or"),
        (f"{GUSTY}sigma = 0.6\ntau = [1]", "tau = [1]: expected a finite number or three"),
        ('[wind]\nmodel = "step"\nafter_W = [1, 0, 0]\nat = "3"', "at = '3': expected a finite number"),
        ('[[events]]\nat = "3"\ndo = "land"', "events[0].at = '3': expected a finite number"),
        ('[[events]]\nat_step = 1.5\ndo = "land"', "events[0].at_step = 1.5: expected a whole number"),
        ('[[events]]\nwhen = 5\ndo = "land"', "events[0].when = 5: expected a text"),
        ('[[events]]\nat = 1\ndo = "go_to"\np_W = "here"', "events[0].p_W = 'here': expected three finite numbers"),
        ('[[events]]\nat = 1\ndo = "land"\nspeed = 1e-300', "speed = 1e-300: expected a number from 0.001 to 1000 m/s"),
        ('[[obstacles]]\nshape = "height_map"\nheights = 1', "heights = 1: expected a list of at most"),
        ('[[obstacles]]\nshape = "height_map"\ndata = "x"', "obstacles[0].data = 'x': expected none in a file"),
        ("[environment]\naltitude = 1" + "0" * 400, "environment.altitude = 1000"),
        ("[expect]\nmax_error = 1" + "0" * 400, "expect.max_error = 1000"),
    ],
)  # fmt: skip
def test_an_invalid_table_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(HEAD + text, "mine.toml")
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (f'{CIRCLE}speed = 1e-300', "speed = 1e-300: expected a number from 0.001"),
        (f'{CIRCLE}speed = 1\nlaps = 200000', "laps = 200000: expected a number from"),
        (f'{CIRCLE}speed = 1\nyaw_deg = "along"', "expected a finite number of degrees"),
        ('type = "race"\ngates = [[0, 0, 1], [1, 0, 1]]\nspeed = 1\nclosed = true\nlaps = 200000', "laps = 200000: expected"),
        (f'type = "race"\ngates = {[[k, 0, 1] for k in range(301)]}\nspeed = 1', "points of three numbers, at most 300"),
        (f'{LISSAJOUS}amplitude = 1\nfrequency = [1, 2, 3]\nspeed = 1', "amplitude = 1: expected three"),
        (f'{LISSAJOUS}amplitude = [1, 1, 1]\nfrequency = [1e9, 2, 3]\nspeed = 1', "each from -100 to 100"),
        (f'{LISSAJOUS}amplitude = [1, 1, 1]\nfrequency = [1, 2, 3]\nphase = [0, 1001, 0]', "each from -1000 to 1000 rad"),
        ('type = "waypoints"\npoints = [[1, 0, 1]]\nleg_duration = "2"', "leg_duration = '2': expected a finite number or a"),
    ],
)  # fmt: skip
def test_an_invalid_task_is_refused_before_any_computation(task, sentence):
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(f"{HEAD}[[drones.tasks]]\n{task}", "mine.toml")
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("key", "low", "high"), [("altitude", -1000.0, 20_000.0), ("air_density", 0.0, 10.0)])
def test_the_air_is_that_of_the_earth(key, low, high):
    """From below the Dead Sea to the end of the tables; denser gases are refused."""
    where = f"{HEAD}[environment]\n{key} = "
    parse_scenario(f"{where}{high}", "mine.toml")
    for value in (low, 1.001 * high):
        with pytest.raises(
            ScenarioError, match=f"environment.{key} = .*expected a number above {low:g} and up to {high:g}"
        ):
            parse_scenario(f"{where}{value}", "mine.toml")


def test_an_angle_in_degrees_may_be_three():
    tasks = f"[[drones.tasks]]\n{LISSAJOUS}amplitude = [1, 1, 0]\nfrequency = [1, 2, 0]\nspeed = 1\n"
    in_degrees, in_radians = (
        parse_scenario(HEAD + tasks + phase, "mine.toml").drones[0].task.evaluate(20.0).p_W
        for phase in ("phase_deg = [90, 0, 0]", f"phase = [{radians(90)!r}, 0, 0]")
    )
    assert in_degrees == in_radians


@pytest.mark.parametrize(
    "call",
    [
        lambda: trajectory.hover((0, 0, 1), duration=10**400),
        lambda: trajectory.figure8((0, 0, 1), half_length=1.0, speed=1.0, laps=1e-300),
        lambda: trajectory.line((0, 0, 1), (5e-324, 0, 1), speed=1.0),
        lambda: trajectory.minimum_snap([(0, 0, 1), (1, 0, 1)], [1.0], order=2**63),
        lambda: events.add_payload("heavy"),
        lambda: events.degrade_motor(1, "half"),
        lambda: events.gust((1, 0, 0), "long"),
        lambda: events.go_to("home"),
        lambda: events.when(math.nan),
        lambda: wind.Gust((1, 0, 0), 1.0, [math.nan] * 3),
        lambda: controller_spec("geometric", position=10**400),
        lambda: samara.hover(samara.vehicle("iris"), p_W=(0.0, 0.0, math.inf)),
        lambda: samara.hover(samara.vehicle("iris"), p_W="up"),
        lambda: samara.build_vehicle("own", mass=1.0, inertia=(0.01, 0.01, 0.02), rotors={"": 0}),
        lambda: samara.State.from_numpy([[1.0], [1.0, 2.0]], "wxyz"),
    ],
)
def test_invalid_values_from_python_are_refused_in_one_sentence(call):
    with pytest.raises(ValueError, match="expected") as caught:
        call()
    assert len(str(caught.value)) < 300
