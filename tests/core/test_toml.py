"""One strict reader: the same mistake in a vehicle, a scenario, a sensor part or a blade gets the same sentence."""

from typing import Annotated, NamedTuple

import pytest

import samara
from samara.core.coerce import UnitInterval
from samara.core.quantity import Quantity
from samara.core.toml import DataSheet, TomlFile, TomlTable, parse_document
from samara.propeller.blade import BladeError, blade, blade_names, parse_blade
from samara.scenario.file import ScenarioError, load_scenario, parse_scenario, scenario_names
from samara.sensors.registry import PartError, parse_part, part, part_names
from samara.vehicles.loader import parse_vehicle, vehicle, vehicle_names

FORMATS = {
    "vehicle": (parse_vehicle, vehicle, vehicle_names, samara.VehicleError, "schema = 1\n"),
    "scenario": (parse_scenario, load_scenario, scenario_names, ScenarioError, "duration = 1\n[[drones]]\nvehicle = 'iris'\n"),
    "part": (parse_part, part, part_names, PartError, 'type = "gps"\n'),
    "blade": (parse_blade, blade, blade_names, BladeError, ""),
}  # fmt: skip


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = [", "x.toml: is not TOML ("),
        ("name = 3", "x.toml: name = 3: expected a text"),
        ("wheels = 4", "x.toml: wheels = 4: expected only the keys "),
        ("schema = 2", "x.toml: schema = 2: expected "),
    ],
)
def test_a_mistake_has_the_same_sentence_in_every_format(format_name, text, sentence):
    parse, _, _, error, required_keys = FORMATS[format_name]
    with pytest.raises(error) as refused:
        parse(f"{text}\n{required_keys}" if "schema" not in text else text, "x.toml")
    assert [line for line in str(refused.value).split("\n") if line.startswith(sentence)]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_found_by_name_and_by_path(kind, tmp_path):
    _, load, names, error, _ = FORMATS[kind]
    with pytest.raises(error) as refused:
        load("nonesuch")
    assert str(refused.value) == f"no {kind} 'nonesuch'; expected a .toml file or one of {', '.join(names())}"
    (tmp_path / "folder.toml").mkdir()
    for name in ("absent.toml", "folder.toml"):
        with pytest.raises(error, match=rf"{name}: cannot be read \(.*\); expected a {kind} file"):
            load(tmp_path / name)


class SlipError(ValueError):
    """The error class of the tables below."""


def table(text: str, problems: list[str] | None = None) -> DataSheet:
    return DataSheet(parse_document(text, "x.toml"), TomlFile("x.toml", SlipError, problems))


def test_unused_keys_are_refused_with_the_nearest_key_first():
    file = table("seventene = 1")
    for key in ("one", *(f"key{i}" for i in range(20)), "seventeen"):
        assert key not in file
    with pytest.raises(
        ValueError, match=r": seventene = 1: expected only the keys seventeen, one, key0, .*, \.\.\. here$"
    ):
        file.finish()


def test_a_table_within_a_list_is_named_by_its_place():
    second = table("[[a]]\n[[a]]\nb = { c = nan }").tables("a")[1].table("b")
    with pytest.raises(SlipError, match=r"^x\.toml: a\[1\]\.b\.c = nan: expected a number above 0 and up to 3$"):
        second.number("c", above=0.0, upto=3.0)
    with pytest.raises(SlipError, match=r"^x\.toml: a\[1\]\.b\.d is missing: expected three finite numbers$"):
        second.vector("d")


def turn(angle: Annotated[float, UnitInterval("rad", 0.0, 1.0)], times: int = 1) -> tuple[float, int]:
    if times == 13:
        raise ValueError("expected better luck")
    return angle, times


def test_a_table_becomes_a_call():
    """The annotations of the parameters declare the accepted values; an angle may be given in degrees."""
    angle, times = table("angle_deg = 45\ntimes = 2").call(turn)
    assert (angle, times) == (pytest.approx(0.7853981633974483, rel=1e-15), 2)
    for text, sentence in (
        ("times = 2", "angle is missing: expected a finite number"),
        ("angle = 1\ntimes = 2.5", "times = 2.5: expected a whole number"),
        ("angle = 2", "angle = 2: expected a number from 0 to 1 rad"),
        ("angle = 1\nspeed = 2", "speed = 2: expected only the keys angle, times here"),
        ("angle = 1\ntimes = 13", "expected better luck"),
    ):
        with pytest.raises(SlipError) as refused:
            table(text).call(turn)
        assert str(refused.value) == f"x.toml: {sentence}"


class Spring(NamedTuple):
    length: Annotated[float, Quantity("m", 0.01, 1.0)]
    rest: Annotated[float, Quantity("s", 0.0, 1.0)] = 0.0


def test_a_record_is_read_in_its_units_with_its_sources():
    file = table('length = { value = 2, unit = "in", source = "a ruler" }')
    assert file.record(Spring) == Spring(2 * 0.0254)
    assert file.file.sources == [("length", "a ruler")]


def test_a_file_that_collects_problems_reports_all_of_them():
    problems: list[str] = []
    table('length = { value = -1, unit = "m" }\nrest = 3\nmass = 1', problems).record(Spring)
    assert problems == [
        "x.toml: length = -1 m: expected a positive number",
        "x.toml: rest = 3: expected { value, unit, source }",
        "x.toml: mass = 1: expected only the keys length, rest here",
    ]


def test_an_error_keeps_the_location_it_names():
    outer = TomlTable({"inner": {}}, TomlFile("x.toml", ScenarioError))
    with (
        pytest.raises(ScenarioError, match=r"^x\.toml: inner\.key is missing: expected a text$"),
        outer.error_context("other"),
    ):
        outer.table("inner").text("key")
    with pytest.raises(ScenarioError, match=r"^x\.toml: other: by zero$"), outer.error_context("other"):
        raise ZeroDivisionError("by zero")
