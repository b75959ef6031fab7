"""Vehicle files: shipped vehicles match their documents, mistakes are rejected in one sentence, saved vehicles are restored
exactly."""

import math
import re
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.core.algebra import Mat3, Vec3
from samara.physics.air.drag import Damping, Drag
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag, SecondOrder
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.propulsion import IDEAL_BATTERY, rotor_loads
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM
from samara.vehicles.build import ContactShape, Provenance
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.writer import vehicle_toml

NAMES = samara.vehicle_names()
CRAZYFLIE, IRIS = "crazyflie_documented", "iris_documented"


def vehicle_text(name: str) -> str:
    return resources.files("samara.vehicles").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def edit_vehicle(name: str, old: str, new: str) -> str:
    text = vehicle_text(name)
    assert old in text, f"{name}.toml has no {old!r}: the table of this test is out of date"
    return text.replace(old, new, 1)


def sentences(error: Exception) -> list[str]:
    """Return the problems, one per line; check that they are short and distinct."""
    lines = str(error).split("\n")
    assert all(len(line) < 400 for line in lines)
    assert len(set(lines)) == len(lines)
    return lines


def sentence(error: pytest.ExceptionInfo) -> str:
    (line,) = sentences(error.value)
    return line


# Mistakes are rejected ---------------------------------------------------------------------------------------------

MASS = 'value = 0.028, unit = "kg"'
SOURCE = 'source = "Crazyflie engine document"'
INERTIA = "[1.4e-5, 1.4e-5, 2.17e-5]"
CHARGES = "[0, 0.1, 0.5, 0.9, 1]"
THOUSANDS = "9" * 400

WRONG = {
    # case: (vehicle, text, its replacement, the field named, the value quoted, the expectation)
    "unknown key": (CRAZYFLIE, "[body]", '[body]\ncolour = "red"', "body.colour", "'red'", "only the keys mass, inertia"),
    "unknown table": (CRAZYFLIE, "[body]", "[wings]\nspan = 1\n[body]", "wings", "{'span': 1}", "only the keys schema, name"),
    "unknown key of a record": (CRAZYFLIE, "[motor]", "[motor]\npoles = 12", "motor.poles", "12", "time_constant_up, time"),
    "unknown key of a value": (CRAZYFLIE, MASS, f'{MASS}, sauce = "hot"', "body.mass.sauce", "'hot'", "value, unit, source"),
    "key of the other kind of placing": (
        "hakoniwa",
        'spin     = "ccw"',
        'spin = "ccw"\nazimuth = { value = 3, unit = "deg", source = "x" }',
        "rotors[0].azimuth",
        "3",
        "only the keys position",
    ),
    "misspelt key": (CRAZYFLIE, MASS, 'vlaue = 0.028, unit = "kg"', "body.mass.value", "is missing", "a number"),
    "missing mass": (CRAZYFLIE, "mass    =", "weight =", "body.mass", "is missing", "{ value, unit, source }"),
    "missing table": (CRAZYFLIE, "[body]", "[Body]", "body", "is missing", "a table"),
    "source as number": (CRAZYFLIE, f"{MASS}, {SOURCE}", f"{MASS}, source = 0", "mass.source", "0", "a text"),
    "missing unit": (CRAZYFLIE, MASS, "value = 0.028", "body.mass.unit", "is missing", "a text"),
    "missing spin": (CRAZYFLIE, 'spin    = "cw"\n', "", "rotors[0].spin", "is missing", "one of ccw, cw"),
    "missing coefficient": (CRAZYFLIE, "k_thrust =", "#", "rotors[0].k_thrust", "is missing", "here or in [rotor]"),
    "missing motor": (CRAZYFLIE, "[motor]", "[drag.motor]", "drag.motor", "'lag'", "only the keys frame, linear"),
    "missing battery": ("hakoniwa", "[battery]", "[damping]", "damping.linear", "is missing", "{ value, unit, source }"),
    "missing rotors": (CRAZYFLIE, "[[rotors]]", "[[others]]", "others", "[{", "rotors"),
    "missing name": (CRAZYFLIE, 'name = "crazyflie_documented"', "", "name", "is missing", "a text"),
    "missing schema": (CRAZYFLIE, "schema = 1", "", "schema", "is missing", "1"),
    "newer schema": (CRAZYFLIE, "schema = 1", "schema = 2", "schema", "2", "1; a newer Samara wrote it"),
    "schema as text": (CRAZYFLIE, "schema = 1", 'schema = "1"', "schema", "'1'", "1"),
    "schema zero": (CRAZYFLIE, "schema = 1", "schema = 0", "schema", "0", "1"),
    "schema true": (CRAZYFLIE, "schema = 1", "schema = true", "schema", "True", "1"),
    "wrong unit": (CRAZYFLIE, MASS, 'value = 28, unit = "oz"', "body.mass", "'oz'", "'kg' or 'g'"),
    "wrong unit of angle": (CRAZYFLIE, 'unit = "deg"', 'unit = "grad"', "rotors[0].azimuth", "'grad'", "'rad' or 'deg'"),
    "wrong unit of charge": (IRIS, 'unit = "A h"', 'unit = "Wh"', "battery[0].capacity", "'Wh'", "'C' or 'A h'"),
    "wrong unit of the motor": (IRIS, 'unit = "rpm/V"', 'unit = "rpm"', "motor.kv", "'rpm'", "'N m/A' or 'rpm/V'"),
    "unit as number": (CRAZYFLIE, MASS, "value = 0.028, unit = 1000", "body.mass.unit", "1000", "a text"),
    "bare number": (
        CRAZYFLIE,
        f"{{ {MASS}, {SOURCE} }}",
        "0.028",
        "body.mass",
        "0.028",
        "{ value, unit, source }",
    ),
    "negative mass": (CRAZYFLIE, "value = 0.028", "value = -0.028", "body.mass", "-0.028 kg", "a positive number"),
    "no mass": (CRAZYFLIE, "value = 0.028", "value = 0", "body.mass", "0 kg", "a positive number"),
    "hardly any mass": (CRAZYFLIE, "value = 0.028", "value = 1e-320", "body.mass", "1e-320 kg", "at least 1e-06 kg"),
    "mass nan": (CRAZYFLIE, "value = 0.028", "value = nan", "body.mass", "nan kg", "a finite number"),
    "mass infinite": (CRAZYFLIE, "value = 0.028", "value = inf", "body.mass", "inf kg", "a finite number"),
    "mass beyond floats": (CRAZYFLIE, "value = 0.028", "value = 1e400", "body.mass", "inf kg", "a finite number"),
    "mass huge": (CRAZYFLIE, "value = 0.028", "value = 1e300", "body.mass", "1e+300 kg", "at most 1e+12"),
    "mass of 400 digits": (CRAZYFLIE, "value = 0.028", f"value = {THOUSANDS}", "body.mass", "999", "a finite number"),
    "mass as text": (CRAZYFLIE, "value = 0.028", 'value = "0.028"', "body.mass", "'0.028'", "a finite number"),
    "mass true": (CRAZYFLIE, "value = 0.028", "value = true", "body.mass", "True", "a finite number"),
    "mass as list": (CRAZYFLIE, "value = 0.028", "value = [0.028]", "body.mass", "[0.028]", "a finite number"),
    "mass as date": (CRAZYFLIE, "value = 0.028", "value = 2020-02-02", "body.mass", "date(2020, 2, 2)", "a finite number"),
    "inertia not symmetric": (
        CRAZYFLIE,
        INERTIA,
        "[[1.4e-5, 1e-6, 0], [2e-6, 1.4e-5, 0], [0, 0, 2.17e-5]]",
        "body.inertia",
        "[1.4e-05, 1e-06, 0.0]",
        "a symmetric matrix",
    ),
    "inertia not positive definite": (
        CRAZYFLIE,
        INERTIA,
        "[[1.4e-5, 2e-5, 0], [2e-5, 1.4e-5, 0], [0, 0, 2.17e-5]]",
        "body.inertia",
        "[1.4e-05, 2e-05, 0.0]",
        "a positive-definite matrix",
    ),
    "inertia of a rod without thickness": (
        CRAZYFLIE,
        INERTIA,
        "[1.4e-5, 1.4e-5, 0]",
        "body.inertia",
        "[0.0, 0.0, 0.0]",
        "a positive-definite matrix",
    ),
    "inertia breaks the triangle": (CRAZYFLIE, INERTIA, "[1e-5, 1e-5, 2.1e-5]", "body.inertia", "2.1e-05", "I1 + I2 >= I3"),
    "inertia breaks the triangle off axis": (
        CRAZYFLIE,
        INERTIA,
        "[[1e-5, 0.5e-5, 0], [0.5e-5, 1e-5, 0], [0, 0, 2.1e-5]]",
        "body.inertia",
        "2.1e-05",
        "I1 + I2 >= I3",
    ),
    "inertia nan": (CRAZYFLIE, INERTIA, "[1.4e-5, nan, 2.17e-5]", "body.inertia", "nan kg m^2", "a finite number"),
    "inertia of two": (CRAZYFLIE, INERTIA, "[1.4e-5, 1.4e-5]", "body.inertia", "[1.4e-05, 1.4e-05]", "3 rows of 3"),
    "inertia of one": (CRAZYFLIE, INERTIA, "1.4e-5", "body.inertia", "1.4e-05", "3 rows of 3"),
    "inertia ragged": (CRAZYFLIE, INERTIA, "[[1e-5], 1e-5, 1e-5]", "body.inertia", "[1e-05]", "a finite number"),
    "inertia as text": (CRAZYFLIE, INERTIA, '["a", "b", "c"]', "body.inertia", "'a'", "a finite number"),
    "duplicate rotor": (CRAZYFLIE, "value = -45,", "value = 45,", "rotors[1].r_B", "0.0325", "rotors[0] is there"),
    "arm of no length": (CRAZYFLIE, "value = 0.046", "value = 0", "rotors[0].arm", "0 m", "a positive number"),
    "position of two": (IRIS, "[0.1515, -0.245, 0.0]", "[0.1515, -0.245]", "rotors[0].position", "-0.245]", "3 numbers"),
    "axis not of length one": (
        "hexarotor_x",
        'spin    = "cw"',
        'spin = "cw"\naxis = { value = [0, 0, 2], unit = "1", source = "x" }',
        "rotors[0].axis",
        "2.0",
        "a unit vector",
    ),
    "spin to the left": (CRAZYFLIE, 'spin    = "cw"', 'spin = "left"', "rotors[0].spin", "'left'", "one of ccw, cw"),
    "spin as number": (CRAZYFLIE, 'spin    = "cw"', "spin = 1", "rotors[0].spin", "1", "one of ccw, cw"),
    "rotors as number": ("rigid_body_quadrotor", 'name = "', 'rotors = 4\nname = "', "rotors", "4", "a list of tables"),
    "no thrust": (CRAZYFLIE, "2.88e-8", "0", "rotor.k_thrust", "0 N s^2/rad^2", "a positive number"),
    "negative reaction": (CRAZYFLIE, "7.24e-10", "-7.24e-10", "rotor.k_torque", "-7.24e-10 N m", "not negative"),
    "unknown actuation": (
        CRAZYFLIE,
        '"normalized"',
        '"telepathy"',
        "actuation",
        "'telepathy'",
        "one of normalized, speed, duty, wrench",
    ),
    "duty for a motor with lag": (CRAZYFLIE, '"normalized"', '"duty"', "rotors[0].motor", "Lag", "'duty' expects a DcMotor"),
    "wrench with rotors": (CRAZYFLIE, '"normalized"', '"wrench"', "rotors", "4", "expects none"),
    "rotors without any": ("rigid_body_quadrotor", '"wrench"', '"speed"', "rotors", "0", "at least one"),
    "unknown motor": (CRAZYFLIE, '"lag"', '"steam"', "motor.model", "'steam'", "one of lag, dc"),
    "unknown drag frame": (CRAZYFLIE, '"world"', '"moon"', "drag.frame", "'moon'", "one of body, world"),
    "unknown gravity": (CRAZYFLIE, "[gravity]", '[gravity]\nmodel = "none"', "gravity.model", "'none'", "uniform, spherical"),
    "unknown inflow": (IRIS, '"squared"', '"cubed"', "inflow.model", "'cubed'", "one of squared, signed"),
    "unknown battery": (IRIS, '"thevenin"', '"potato"', "battery[0].model", "'potato'", "one of ideal, thevenin"),
    "falls upwards": (CRAZYFLIE, "9.81", "-9.81", "gravity.acceleration", "-9.81 m/s^2", "a positive number"),
    "drag that pushes": (CRAZYFLIE, "[0.1, 0.1, 0.2]", "[0.1, -0.1, 0.2]", "drag.linear", "-0.1 N s/m", "not negative"),
    "drag of two": (CRAZYFLIE, "[0.1, 0.1, 0.2]", "[0.1, 0.1]", "drag.linear", "[0.1, 0.1]", "3 numbers"),
    "idle above maximum": (CRAZYFLIE, "value = 2500", "value = 200", "motor", "[300.0, 200.0]", "speed_min < speed_max"),
    "no time to rise": (CRAZYFLIE, "value = 0.015", "value = 0", "motor.time_constant_up", "0 s", "a positive number"),
    "negative friction": (CRAZYFLIE, "value = 0.8,", "value = -0.8,", "contact.friction", "-0.8", "not negative"),
    "points of two": (CRAZYFLIE, "[[0.033, 0.033, -0.02],", "[[0.033, 0.033],", "contact.points", "[0.033, 0.033]", "of 3"),
    "no points": (
        "hakoniwa",
        "[[0.103, 0.103, -0.1], [0.103, -0.103, -0.1], [-0.103, -0.103, -0.1], [-0.103, 0.103, -0.1]]",
        "[]",
        "contact.points",
        "[]",
        "a list of points",
    ),
    "ground of the NED simulator under 28 g": (
        CRAZYFLIE,
        "[contact]",
        '[contact]\nstiffness = { value = 5000, unit = "N/m", source = "003" }\n'
        'damping = { value = 600, unit = "N s/m", source = "003" }',
        "contact.stiffness",
        "5000 N/m",
        "these need dt <=",
    ),
    "charge out of order": (IRIS, CHARGES, "[0, 0.5, 0.1, 0.9, 1]", "battery[0].table_charge", "0.5, 0.1", "increasing"),
    "charge beyond full": (IRIS, CHARGES, "[0, 0.1, 0.5, 0.9, 2]", "battery[0].table_charge", "2.0", "within [0, 1]"),
    "charge and voltage unequal": (IRIS, CHARGES, "[0, 0.5, 0.9, 1]", "battery[0].table_voltage", "5", "4, as many as"),
    "empty charge table": (IRIS, CHARGES, "[]", "battery[0].table_charge", "[]", "two or more"),
    "charge as number": (IRIS, CHARGES, "1", "battery[0].table_charge", "1", "a list of numbers"),
    "voltage that falls": (IRIS, "[9.0, 10.8,", "[10.8, 9.0,", "battery[0].table_voltage", "[10.8, 9.0", "do not decrease"),
    "motor without constant": (IRIS, "value = 920", "value = 0", "motor.kv", "0 rpm/V", "a positive number"),
    "controller that makes power": (IRIS, "value = 0.98", "value = 1.7", "motor.efficiency", "1.7", "at most 1"),
    "dead zone over all": (IRIS, 'value = 0.02, unit = "1"', 'value = 1.2, unit = "1"', "motor.dead_zone", "1.2", "than 1"),
    "current that never stops": (IRIS, 'value = 0, unit = "A"', 'value = 3, unit = "A"', "motor.current_min", "3.0", "0 "),
    "inflow without radius": (IRIS, "value = 0.127", "value = 0", "rotors[0].radius", "0.0 m", "the inflow model needs it"),
    "motor without inertia": (IRIS, "value = 1.2e-5", "value = 0", "rotors[0].inertia", "0.0 kg m^2", "motor accelerates it"),
    "two ideal batteries": (
        "hakoniwa",
        "[battery]",
        '[[battery]]\nmodel = "ideal"\nvoltage = { value = 5, unit = "V", source = "x" }\n[[battery]]',
        "battery",
        "2",
        "an ideal battery to be the only one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_in_one_sentence(case):
    """The sentence names the file, the field, the value and the expectation."""
    name, old, new, field, value, expectation = WRONG[case]
    with pytest.raises(samara.VehicleError) as error:
        parse_vehicle(edit_vehicle(name, old, new), "mine.toml")
    assert all(line.startswith("mine.toml: ") for line in sentences(error.value))
    text, *duplicates = [line for line in sentences(error.value) if value in line and field in line.split(value)[0]]
    assert not duplicates
    assert expectation in text.split(field, 1)[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "schema is missing"),
        ("\n# nothing but a comment\n", "schema is missing"),
        ("schema = 1", "name is missing"),
        ("[body", "is not TOML"),
        ("{}", "is not TOML"),
        ("\x00\x01", "is not TOML"),
        ("schema = 1\nschema = 1", "is not TOML"),
        ("schema = " + "9" * 5000, "is not TOML"),
        ("schema = " + "[" * 9999, "is not TOML"),
        ("schema = 0x" + "f" * 5000, "a newer Samara wrote it"),
    ],
)
def test_what_is_no_vehicle_is_refused(text, complaint):
    """An empty file, half a file, binary data: each is named as such."""
    with pytest.raises(samara.VehicleError) as error:
        parse_vehicle(text, "mine.toml")
    assert sentences(error.value)[0].startswith("mine.toml: ")
    assert complaint in str(error.value)


NONSENSE = (
    "nan",
    "-inf",
    "1e400",
    "-1",
    "0",
    "1e300",
    "1e-320",
    "true",
    '"five"',
    "[]",
    "[[]]",
    "{}",
    "12:30:00",
    "0x" + "f" * 999,
)


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_no_nonsense_in_any_place_gets_past_the_one_sentence(name):
    """Every value of every file, replaced by each nonsense value in turn, gives a vehicle or a sentence, nothing else."""
    text = vehicle_text(name)
    spans = [
        match.span(1)
        for match in re.finditer(
            r"(?:value|model|spin|axes|unit|schema|actuation)\s*= (.*?)(?=, unit|, source| }|\n)", text
        )
    ]
    assert len(spans) > 10
    for start, end in spans:
        for nonsense in NONSENSE:
            try:
                parse_vehicle(text[:start] + nonsense + text[end:], "mine.toml")
            except samara.VehicleError as error:
                assert all(line.startswith("mine.toml: ") for line in sentences(error))
                assert len(sentences(error)) <= 2


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_a_file_that_lost_a_line_is_never_half_read(name):
    """With any one line removed, the file is a vehicle or is rejected; nothing else happens."""
    lines = vehicle_text(name).splitlines()
    refused = 0
    for i in range(len(lines)):
        try:
            parse_vehicle("\n".join(lines[:i] + lines[i + 1 :]), "mine.toml")
        except samara.VehicleError as error:
            refused += 1
            assert str(error).startswith("mine.toml: ")
    assert refused >= 5


def test_a_name_nobody_knows_lists_those_that_are():
    with pytest.raises(
        samara.VehicleError, match=r"no vehicle 'irish'; expected a \.toml file or one of crazyflie, .*iris"
    ):
        samara.vehicle("irish")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """A missing file, a folder, and a file that is not text."""
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "picture.toml").write_bytes(b"\x89PNG\r\n\xff\xfe")
    for name in ("absent.toml", "folder.toml", "picture.toml"):
        with pytest.raises(samara.VehicleError, match=name):
            samara.vehicle(tmp_path / name)


# Shipped vehicles match their documents ----------------------------------------------------------------------------

PLAIN = {"schema", "name", "actuation", "description", "model", "frame", "spin"}


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_a_unit_and_a_source(name):
    """Read as plain TOML: everything but names and choices is a table of value, unit and a source that is not empty."""

    def walk(table: dict, path: str) -> int:
        count = 0
        for key, entry in table.items():
            if isinstance(entry, list):
                count += sum(walk(item_table, f"{path}.{key}") for item_table in entry)
            elif isinstance(entry, dict) and "value" in entry:
                assert set(entry) == {"value", "unit", "source"}, f"{path}.{key}"
                assert len(entry["source"]) > 5
                count += 1
            elif isinstance(entry, dict):
                count += walk(entry, f"{path}.{key}")
            else:
                assert key in PLAIN, f"{path}.{key} = {entry!r} has no unit and no source"
        return count

    document = tomllib.loads(vehicle_text(name))
    assert document["name"] == name
    assert document["description"]
    assert len(samara.vehicle(name).structure.sources) == walk(document, name) > 5


def test_the_vehicles_of_the_issue_are_all_here():
    assert set(NAMES) >= {
        "crazyflie_documented", "crazyflie", "rigid_body_quadrotor", "iris_documented", "hakoniwa",
        "hexarotor_x", "octorotor_x", "hexarotor_tilted",
    }  # fmt: skip
    assert [len(samara.vehicle(name).rotors) for name in (IRIS, "hexarotor_x", "octorotor_x")] == [4, 6, 8]


# name, hover speed [rad/s], hover command: seed_systems and errata, with the digits that they print
PUBLISHED_HOVER = [
    (CRAZYFLIE, "1544.142", "0.565519"),
    ("hakoniwa", "1448.42", "0.4766"),
    (IRIS, "213.095", "0.56674"),
]


@pytest.mark.parametrize(("name", "speed", "command"), PUBLISHED_HOVER)
def test_hover_is_where_the_documents_put_it(name, speed, command):
    """All rotors have the published speed and command; the NED simulator's are for a bus of 12 V."""
    vehicle = samara.vehicle(name)
    if name == "iris_documented":
        vehicle = vehicle.with_effect(IDEAL_BATTERY, Ideal(12.0))
    state, commands = samara.hover(vehicle)
    for measured, published in zip((*state.rotor_speed, *commands), [speed] * 4 + [command] * 4, strict=True):
        assert f"{measured:.{len(published.partition('.')[2])}f}" == published


def test_masses_and_inertias_are_those_of_the_documents():
    published = {
        "crazyflie_documented": (0.028, (1.4e-5, 1.4e-5, 2.17e-5)),
        "rigid_body_quadrotor": (1.2, (0.0081, 0.0081, 0.0142)),
        "iris_documented": (1.5, (0.029125, 0.029125, 0.055225)),
        "hakoniwa": (0.71, (0.0061, 0.00653, 0.0116)),
    }
    for name, (mass, moments) in published.items():
        vehicle = samara.vehicle(name)
        assert vehicle.mass == mass
        assert np.array_equal(np.array(vehicle.inertia_B).reshape(3, 3), np.diag(moments))


def test_rotors_are_where_and_as_they_turn_in_the_documents():
    """All documents agree: front right and back left counter-clockwise, the others clockwise. Positions in FLU."""
    a, b = 0.046 / math.sqrt(2.0), 0.103
    front_left_first = [(a, a), (a, -a), (-a, -a), (-a, a)]
    px4 = [(1, -1), (-1, 1), (1, 1), (-1, -1)]
    positions = {
        "crazyflie_documented": front_left_first,
        "crazyflie": [(a, -a), (-a, -a), (-a, a), (a, a)],
        "hakoniwa": [(b * x, b * y) for x, y in px4],
        "iris_documented": [(0.1515, -0.245), (-0.1515, 0.1875), (0.1515, 0.245), (-0.1515, -0.1875)],
    }
    for name, published in positions.items():
        rotors = samara.vehicle(name).rotors
        assert np.array([rotor.r_B for rotor in rotors]) == pytest.approx(
            np.array([(*position, 0.0) for position in published]), rel=1e-15, abs=1e-17
        )
        assert [rotor.spin for rotor in rotors] == [-math.copysign(1, x * y) for x, y in published]


def test_other_vehicles_turn_alternately_around_the_body():
    """Neighbours spin in opposite directions, so that equal thrusts leave no torque about any axis."""
    for name in ("hexarotor_x", "octorotor_x", "hexarotor_tilted"):
        rotors = samara.vehicle(name).rotors
        spins = [rotor.spin for rotor in sorted(rotors, key=lambda rotor: math.atan2(rotor.r_B.y, rotor.r_B.x))]
        assert all(a == -b for a, b in zip(spins, spins[1:] + spins[:1], strict=True))
        assert len({round(math.hypot(*rotor.r_B), 12) for rotor in rotors}) == 1


def test_the_tilted_hexarotor_pushes_in_all_six_directions():
    """Rank of Σ: six rotors, six independent wrenches; its flat sister has four."""

    def rank(name: str) -> int:
        columns = [
            np.concatenate(
                [r.axis_B, np.cross(r.r_B, r.axis_B) - r.spin * r.k_torque / r.k_thrust * np.array(r.axis_B)]
            )
            for r in samara.vehicle(name).rotors
        ]
        return int(np.linalg.matrix_rank(np.array(columns)))

    assert rank("hexarotor_tilted") == 6
    assert rank("hexarotor_x") == 4


def test_the_measured_crazyflie_has_the_thrust_stand_and_the_firmware():
    rotor = samara.vehicle("crazyflie").rotors[0]
    assert rotor.k_thrust == 2.02e-8
    assert rotor.k_torque / rotor.k_thrust == pytest.approx(0.00735, rel=1e-12)


def test_the_measured_crazyflie_follows_the_thrust_table(shared_folder):
    """Speed over PWM: the file's line is the least-squares one, and as close to the points as its source states."""
    table = np.genfromtxt(shared_folder / "data" / "crazyflie_thrust_table.csv", delimiter=",", names=True)
    used = table[table["pwm_percent"] >= 12.5]
    duty, speed = used["pwm_percent"] / 100.0, used["avg_rpm"] * 2.0 * np.pi / 60.0
    slope, idle = np.polyfit(duty, speed, 1)
    motor = samara.vehicle("crazyflie").rotors[0].motor
    assert motor.speed_min == pytest.approx(idle, abs=0.5)
    assert motor.speed_max == pytest.approx(idle + slope, abs=0.5)
    line = motor.speed_min + duty * (motor.speed_max - motor.speed_min)
    assert np.abs(speed / line - 1.0)[1:].max() < 0.025
    assert speed[0] / line[0] == pytest.approx(0.905, abs=0.0005)


def test_units_are_converted_on_reading():
    """Kv in rpm/V is 60/2π over the torque constant; an ampere-hour is 3600 C; degrees are π/180."""
    iris = samara.vehicle("iris_documented")
    assert iris.rotors[0].motor.constant == pytest.approx(0.01037967, abs=5e-9)
    assert iris.rotors[0].motor.constant * 920 * 2 * np.pi / 60 == pytest.approx(1.0, rel=1e-15)
    assert iris["battery"][0].capacity == 18000.0
    assert iris.rotors[0].k_thrust / 1.225 == pytest.approx(6.61102e-5, rel=1e-12)
    tilted = samara.vehicle("hexarotor_tilted").rotors[0]
    assert tilted.axis_B.z == pytest.approx(np.cos(np.deg2rad(25)), rel=1e-15)
    assert np.dot(tilted.axis_B, tilted.r_B) == pytest.approx(0.0, abs=1e-17)
    radians = vehicle_text("crazyflie_documented").replace(
        'value = 45, unit = "deg"', f'value = {math.pi / 4!r}, unit = "rad"'
    )
    assert parse_vehicle(radians, "crazyflie.toml") == samara.vehicle("crazyflie_documented")


# Saved vehicles are restored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_is_the_same_vehicle(name, tmp_path):
    """Bit for bit, sources included; saving the loaded vehicle writes the same file again."""
    vehicle = samara.vehicle(name)
    samara.save_vehicle(vehicle, tmp_path / "copy.toml")
    copy = samara.vehicle(tmp_path / "copy.toml")
    assert copy == vehicle
    assert copy.structure.description == vehicle.structure.description
    saved_sources = "\n".join(source for _, source in copy.structure.sources)
    assert all(source in saved_sources for _, source in vehicle.structure.sources)
    samara.save_vehicle(copy, tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_bytes() == (tmp_path / "copy.toml").read_bytes()


def tricopter(**options) -> samara.Vehicle:
    """Three rotors and three masses, built in Python."""
    motor = Lag(speed_min=50.0, speed_max=900.0, time_constant_up=0.02, time_constant_down=0.04)
    angles = (math.pi / 3, math.pi, -math.pi / 3)
    rotors = [
        Rotor(Vec3(0.2 * math.cos(a), 0.2 * math.sin(a), 0.01), Vec3(0.0, 0.0, 1.0), spin, 1e-5, 0.0, motor=motor)
        for a, spin in zip(angles, (1, -1, 1), strict=True)
    ]
    return samara.build_vehicle("tricopter", mass=0.9, inertia=(0.01, 0.01, 0.018), rotors=rotors, **options)


def test_a_vehicle_built_in_python_is_saved_and_loaded(tmp_path):
    """All effects that a file can name, with awkward numbers, and a name that needs quoting."""
    battery = Thevenin(1234.5, (0.0, 1.0), (9.9, 12.3), 0.01, 0.02, 333.0)
    motor = DcMotor(0.01, 0.1, 1e-6, 0.5, -3.0, 40.0, 0.9, 0.01)
    rotors = [
        Rotor(Vec3(x, y, 0.0), Vec3(0.0, 0.6, 0.8), s, 1e-5 / 3.0, 1e-7, 1e-5, 0.1, motor)
        for x, y, s in ((0.1, 0, 1), (-0.1, 0, -1))
    ]
    vehicle = samara.build_vehicle(
        'say "hi" \\ [é]',
        mass=2.0 / 3.0,
        inertia=Mat3(0.02, 1e-3, 2e-3, 1e-3, 0.02, 3e-3, 2e-3, 3e-3, 0.03),
        rotors=rotors,
        actuation="duty",
        battery=[battery, battery._replace(resistance=0.03)],
        contact=ContactShape([(0.1, 0.1, -0.1), (-0.1, 0.1, -0.1), (0.0, -0.1, -0.1)], friction=0.5),
        effects={
            "gravity": {"model": "spherical", "acceleration": 9.7},
            "drag": {"frame": "world", "linear": Vec3(0.1, 0.2, 0.3), "quadratic": Vec3(0.01, 0.02, 0.03)},
            "damping": Damping(Vec3(1e-3, 2e-3, 3e-3)),
            "inflow": {"model": "signed"},
            "actuator": SecondOrder(30.0, 0.7, 5.0),
        },
        provenance=Provenance("two\nlines\tand a \x7f"),
    )
    samara.save_vehicle(vehicle, tmp_path / "built.toml")
    loaded = samara.vehicle(tmp_path / "built.toml")
    assert loaded == vehicle
    assert loaded.name == vehicle.name
    assert loaded.structure.description == vehicle.structure.description
    assert "set in Python" in dict(loaded.structure.sources)["body.mass"]


def test_what_all_rotors_share_is_written_once():
    """Values that differ between rotors, in value or source, are written for each of them."""
    tables = tomllib.loads(vehicle_toml(tricopter()))
    assert set(tables["rotor"]) == {"k_thrust", "k_torque", "inertia", "radius"}
    assert tables["motor"]["time_constant_up"]["value"] == 0.02
    assert all(set(rotor_table) == {"position", "axis", "spin"} for rotor_table in tables["rotors"])
    strong_rotor, *other_rotors = tricopter().rotors
    mixed = tricopter().replace(
        rotors=(
            strong_rotor._replace(k_thrust=2e-5, motor=strong_rotor.motor._replace(time_constant_up=0.03)),
            *other_rotors,
        )
    )
    tables = tomllib.loads(vehicle_toml(mixed))
    assert set(tables["rotor"]) == {"k_torque", "inertia", "radius"} and "motor" not in tables
    assert [rotor_table["k_thrust"]["value"] for rotor_table in tables["rotors"]] == [2e-5, 1e-5, 1e-5]
    assert [rotor_table["motor"]["time_constant_up"]["value"] for rotor_table in tables["rotors"]] == [0.03, 0.02, 0.02]
    with_sources = tricopter(
        provenance=Provenance(sources=[("rotors[0].radius", "measured"), ("rotors[1].radius", "a guess")])
    )
    assert "radius" not in tomllib.loads(vehicle_toml(with_sources))["rotor"]


def test_a_vehicle_built_in_python_hovers_where_its_weight_says():
    """Three equal thrusts about the centre: Ω = √(mg / 3kF)."""
    state, _ = samara.hover(tricopter())
    assert state.rotor_speed == pytest.approx([math.sqrt(0.9 * 9.80665 / 3e-5)] * 3, rel=1e-12)


def point_masses() -> st.SearchStrategy:
    """Four masses at four arbitrary positions: a real body has their inertia."""
    position = st.tuples(*[st.floats(-1.0, 1.0)] * 3)
    return st.tuples(st.lists(st.tuples(st.floats(0.1, 2.0), position), min_size=4, max_size=4))


@pytest.mark.filterwarnings("ignore::samara.core.ImplausibleWarning")
@settings(max_examples=60, deadline=None)
@given(bodies=point_masses(), spread=st.floats(0.01, 10.0), count=st.integers(1, 8), data=st.data())
def test_any_body_of_masses_is_accepted_and_survives_its_file(bodies, spread, count, data):
    """Σ m (r² 1 − r rᵀ) of real masses is never rejected, and no digit is lost in the file."""
    (bodies,) = bodies
    masses, positions = np.array([m for m, _ in bodies]), spread * np.array([p for _, p in bodies])
    offsets = np.vstack([positions - (masses @ positions) / masses.sum(), 1e-2 * np.eye(3), -1e-2 * np.eye(3)])
    weights = np.concatenate([masses, np.full(6, 0.1)])
    inertia = sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(weights, offsets, strict=True))
    inertia = 0.5 * (inertia + inertia.T)
    coefficients = data.draw(st.lists(st.floats(1e-9, 1e-3), min_size=count, max_size=count))
    rotors = [
        Rotor(
            Vec3(0.1 * i, -0.2, 0.3 / (i + 1)),
            Vec3(0.0, 0.0, 1.0),
            1 - 2 * (i % 2),
            k,
            0.0,
            motor=Lag(0.0, 1e3, 0.1, 0.1),
        )
        for i, k in enumerate(coefficients)
    ]
    vehicle = samara.build_vehicle("body", mass=weights.sum(), inertia=Mat3(*inertia.ravel()), rotors=rotors)
    assert parse_vehicle(vehicle_toml(vehicle), "body.toml") == vehicle


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_survives_its_file(text):
    """Quotes, backslashes, control characters, any alphabet."""
    vehicle = tricopter(provenance=Provenance(text))
    assert parse_vehicle(vehicle_toml(vehicle), "x.toml").structure.description == text


def test_a_spread_stands_beside_its_value_until_that_is_replaced():
    """One standard deviation over the value: read, written, and dropped with its value."""
    text = edit_vehicle(
        CRAZYFLIE, 'mass    = { value = 0.028, unit = "kg",', 'mass    = { value = 0.028, spread = 0.02, unit = "kg",'
    )
    vehicle = parse_vehicle(text, "x.toml")
    assert vehicle.structure.relative_uncertainties == (("body.mass", 0.02),)
    assert parse_vehicle(vehicle_toml(vehicle), "x.toml").structure.relative_uncertainties == (("body.mass", 0.02),)
    assert "spread" not in vehicle_toml(vehicle.replace({"mass": 0.03}))
    with pytest.raises(samara.VehicleError, match=r"body.mass.spread = -1: expected a number above 0"):
        parse_vehicle(text.replace("0.02,", "-1,"), "x.toml")


def test_numbers_become_plain_floats():
    """NumPy scalars would drag a batch of float32 up to float64."""
    vehicle = tricopter(effects={"drag": Drag(Vec3(*np.array([0.1, 0.2, 0.3])))})
    numbers = [
        vehicle.mass,
        *vehicle.inertia_B,
        *vehicle["drag"].linear,
        vehicle.rotors[0].k_thrust,
        vehicle.rotors[0].motor.time_constant_up,
    ]
    assert {type(number) for number in numbers} == {float}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"effects": {"drag": Drag(Vec3(0.1, math.nan, 0.1))}}, r"tricopter: drag\.linear = nan N s/m: expected a finite"),
        ({"effects": {"drag": Drag(0.1)}}, r"tricopter: drag\.linear = 0\.1: expected 3 numbers"),
        ({"effects": {"damping": Damping(Vec3(-1.0, 0.0, 0.0))}}, r"damping\.linear = -1\.0 N m s/rad: .*not negative"),
        ({"effects": {"gravity": 9.81}}, r"tricopter: gravity = 9\.81: expected a Gravity or a dict of model and acceleration"),
        ({"effects": {"gravity": {"height": 1.0}}}, r"tricopter: gravity = .*: expected a Gravity or a dict"),
        ({"effects": {"inflow": "signed"}}, r"tricopter: inflow = 'signed': expected {'model': 'squared' or 'signed'}"),
        ({"effects": {"gravity": Gravity(0.0)}}, r"tricopter: gravity\.acceleration = 0\.0 m/s\^2: expected a positive number"),
        ({"effects": {"actuator": SecondOrder(0.0, 0.7, 5.0)}}, r"actuator\.natural_frequency = 0\.0 rad/s: .*positive"),
        ({"actuation": "thought"}, r"tricopter: actuation = 'thought': expected one of normalized, speed"),
        ({"effects": {"drag": {"frame": "moon"}}}, r"tricopter: drag\.frame = 'moon': expected one of body, world"),
        ({"contact": ContactShape([Vec3(math.inf, 0.0, 0.0)])}, r"tricopter: contact\.points\[0\] = inf m: expected a finite"),
        ({"contact": ContactShape([Vec3(0.0, 0.0, -0.1)], friction=-1.0)}, r"contact\.friction = -1\.0: .*not negative"),
        ({"battery": [Thevenin(-1.0, (0.0, 1.0), (9.0, 12.0), 0.1, 0.1, 100.0)]}, r"battery\[0\]\.capacity = -1\.0 C"),
    ],
)  # fmt: skip
def test_python_is_held_to_the_same_rules(options, complaint):
    """A call is subject to the same checks as a file."""
    with pytest.raises(samara.VehicleError, match=complaint):
        tricopter(**options)


def test_an_effect_of_ones_own_cannot_be_saved(tmp_path):
    """It is Python code: rejected, and no file appears."""
    vehicle = tricopter().with_effect(samara.Effect("tether"))
    with pytest.raises(
        samara.VehicleError, match=r"tricopter: effect 'tether' is Python code; expected effects a file can name"
    ):
        samara.save_vehicle(vehicle, tmp_path / "tethered.toml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changed",
    [
        tricopter().without_effect("gravity"),
        tricopter().with_effect(samara.Effect("gravity")),
        samara.vehicle("iris_documented").without_effect("rotor_momentum"),
        samara.vehicle("iris_documented").replace(
            structure=replace(samara.vehicle("iris_documented").structure, inflow=max)
        ),
    ],
    ids=["weightless", "gravity of one's own", "massless rotors", "inflow of one's own"],
)
def test_what_a_file_cannot_say_is_not_written(changed, tmp_path):
    """A file that would read back as another vehicle never appears."""
    with pytest.raises(samara.VehicleError) as error:
        samara.save_vehicle(changed, tmp_path / "mine.toml")
    sentence(error)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_could_not_be_loaded_is_not_written(tmp_path):
    with pytest.raises(samara.VehicleError, match=r"'\.txt': expected \.toml"):
        samara.save_vehicle(tricopter(), tmp_path / "tricopter.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["write_text", "replace"])
def test_a_failing_write_leaves_the_old_file(broken, tmp_path, monkeypatch):
    """Disk full in the middle, or no right to rename: the old file stays intact, nothing is left beside it."""
    path = tmp_path / "mine.toml"
    samara.save_vehicle(tricopter(), path)
    old_bytes = path.read_bytes()

    def write_half(self: Path, text: str, **options) -> None:
        with open(self, "w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])
        raise OSError("no space left")

    def refuse(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, broken, write_half if broken == "write_text" else refuse)
    with pytest.raises(OSError, match="no space left"):
        samara.save_vehicle(tricopter().replace(mass=5.0), path)
    assert path.read_bytes() == old_bytes
    assert list(tmp_path.iterdir()) == [path]


# Replaced parameters -----------------------------------------------------------------------------------------------


def test_replacing_the_mass_moves_the_hover():
    """Ω² ∝ m, and the vehicle replaced from is untouched."""
    iris = samara.vehicle("iris_documented")
    heavier = iris.replace(mass=1.6)
    ratio = samara.hover(heavier)[0].rotor_speed[0] / samara.hover(iris)[0].rotor_speed[0]
    assert ratio == pytest.approx(math.sqrt(1.6 / 1.5), rel=1e-12)
    assert iris.mass == 1.5
    assert samara.vehicle(IRIS, mass=1.6) == heavier


def test_replacing_reaches_every_record():
    """Rotors, their motors, effects and batteries, by the path of the field; all rotors or batteries together."""
    vehicle = samara.vehicle("iris_documented").replace(
        {
            "rotors.k_thrust": 9e-5,
            "rotors.motor.resistance": 0.3,
            "drag.linear": Vec3(1.0, 2.0, 3.0),
            "battery.capacity": 7200.0,
        },
        inertia_B=Mat3(0.03, 0.0, 0.0, 0.0, 0.03, 0.0, 0.0, 0.0, 0.05),
    )
    assert {rotor.k_thrust for rotor in vehicle.rotors} == {9e-5}
    assert {rotor.motor.resistance for rotor in vehicle.rotors} == {0.3}
    assert vehicle["drag"].linear == (1.0, 2.0, 3.0)
    assert vehicle["battery"][0].capacity == 7200.0
    assert vehicle["battery"][0].resistance == samara.vehicle("iris_documented")["battery"][0].resistance
    assert vehicle.inertia_B.rows[2][2] == 0.05


def test_a_replaced_number_does_not_keep_the_old_ones_source(tmp_path):
    """The source documents 1.5 kg, not 1.6."""
    overrides = {"mass": 1.6, "rotors.k_thrust": 9e-5, "battery.resistance": 0.05, "drag.linear.x": 0.06}
    vehicle = samara.vehicle(IRIS, **overrides)
    samara.save_vehicle(vehicle, tmp_path / "mine.toml")
    sources = dict(samara.vehicle(tmp_path / "mine.toml").structure.sources)
    for replaced in ("body.mass", "rotor.k_thrust", "battery[0].resistance", "drag.linear"):
        assert sources[replaced] == "set in Python, or a default"
    for retained in (
        "body.inertia",
        "rotor.k_torque",
        "motor.resistance",
        "battery[0].polarisation_resistance",
    ):
        assert sources[retained].startswith("NED lockstep simulator")


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"mass": -1.0}, r"documented: body\.mass = -1\.0 kg: expected a positive number"),
        ({"mass": "heavy"}, r"documented: body\.mass = 'heavy' kg: expected a finite number"),
        ({"colour": "red"}, r"has no parameter 'colour'; expected a field of mass, inertia_B, rotors, gravity"),
        ({"rotors.blades": 2}, r"'iris_documented' has no parameter 'rotors\.blades'"),
        ({"drag.linear": 0.1}, r"documented: drag\.linear = 0\.1: expected 3 numbers"),
        ({"drag.linear.x": -0.1}, r"documented: drag\.linear = -0\.1 N s/m: expected a number that is not negative"),
        ({"inertia_B": (0.1, 0.1, 0.1)}, r"body\.inertia = \(0\.1, 0\.1, 0\.1\) kg m\^2: expected a Mat3 of 9 numbers"),
        ({"rotors.motor.resistance": math.nan}, r"rotors\[0\]\.motor\.resistance = nan ohm: expected a finite number"),
        ({"rotors.spin": 0}, r"documented: rotors\[0\]\.spin = 0: expected \+1 \(ccw\) or -1 \(cw\)"),
        ({"contact.surface.stiffness": 1e7}, r"documented: contact\.stiffness = 1e\+07 N/m .* these need dt <="),
    ],
)  # fmt: skip
def test_overrides_are_checked_like_a_file(overrides, complaint):
    with pytest.raises(samara.VehicleError, match=complaint) as error:
        samara.vehicle(IRIS, **overrides)
    sentence(error)


def test_where_numbers_come_from_does_not_change_what_a_vehicle_is():
    """Equal parameters give an equal vehicle and one trace: sources and description are for people."""
    iris = samara.vehicle("iris_documented")
    replaced = iris.replace(mass=1.5)
    assert replaced.structure.replaced_parameters != iris.structure.replaced_parameters
    assert replaced.structure == iris.structure
    assert hash(replaced.structure) == hash(iris.structure)


def test_a_name_is_a_text_and_is_quoted_in_one_line():
    """From Python as from a file: a name must be a text, and long names are abbreviated in messages."""
    with pytest.raises(samara.VehicleError, match="name = nan: expected a text"):
        samara.build_vehicle(math.nan, mass=1.0, inertia=(0.01, 0.01, 0.02), actuation="wrench")
    with pytest.raises(samara.VehicleError) as refused:
        samara.vehicle("x" * 5000)
    assert len(str(refused.value)) < 500
    with pytest.raises(samara.VehicleError) as refused:
        parse_vehicle(edit_vehicle(CRAZYFLIE, '"world"', f'"{"-" * 5000}"'), "mine.toml")
    assert len(str(refused.value)) < 500
    with pytest.raises(samara.VehicleError) as refused:
        parse_vehicle(vehicle_text("crazyflie").replace('unit = "kg"', f'unit = "{"k" * 5000}"', 1), "mine.toml")
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("speed", [767.0, 1200.0, 1664.4, 2268.0])
def test_the_brushless_crazyflie_lifts_as_its_published_curve_says(speed):
    """T(n) of drone-models' cf21B_500, with n in rpm, at idle, at full speed and between; Q(n) at hover."""
    vehicle = samara.vehicle("crazyflie_brushless")
    state, n = samara.hover(vehicle)[0], speed * 30.0 / np.pi
    spinning = state._replace(rotor_speed=(speed,) * 4)
    load, *_ = rotor_loads(spinning, vehicle, CALM)
    assert load.thrust == pytest.approx(4.407354891648379e-10 * n**2 - 3.133427287299859e-7 * n, rel=1e-3)
    if speed == 1664.4:
        assert load.torque == pytest.approx(2.4693477924534137e-12 * n**2 + 1.65886356219615e-9 * n, rel=1e-3)
        assert state.rotor_speed == pytest.approx((speed,) * 4, rel=1e-4)


def test_hover_in_the_ground_says_how_high_it_must_be():
    """At the height in the message, it hovers."""
    vehicle = samara.vehicle("crazyflie")
    with pytest.raises(
        ValueError, match=r"its feet would be 0\.02 m below the ground; expected p_W\.z of 0\.02 m or more"
    ):
        samara.hover(vehicle, (0, 0, 0))
    assert samara.hover(vehicle, (0, 0, 0.02))[0].p_W.z == 0.02
