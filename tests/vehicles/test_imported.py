"""A file becomes a vehicle; missing fields are named, or taken from an estimated vehicle with their spreads."""

from dataclasses import replace

import pytest

from samara import vehicle
from samara.core.algebra import Vec3
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import (
    ImportedRotor,
    ImportedVehicle,
    UncertainVector,
    build_imported,
    scale_positions,
)
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.uncertain import UncertainValue, exact_value
from samara.vehicles.rotor_translation import TRANSLATION_EFFECTS
from samara.vehicles.writer import valid_spreads, vehicle_toml

LAG = {
    "speed_min": exact_value(0.0, "f: min"),
    "speed_max": exact_value(900.0, "f: max"),
    "time_constant_up": exact_value(0.02),
    "time_constant_down": exact_value(0.03),
}
PLACES = ((0.2, 0.2, 0.0), (-0.2, 0.2, 0.0), (-0.2, -0.2, 0.0), (0.2, -0.2, 0.0))
ROTORS = tuple(
    ImportedRotor(
        position=UncertainVector(place, "f: place"),
        spin=(-1) ** i,
        k_thrust=exact_value(1e-5, "f: kF"),
        k_torque=UncertainValue(2e-7, 0.1, "f: kM"),
        motor=LAG,
    )
    for i, place in enumerate(PLACES)
)
WHOLE = ImportedVehicle(
    "own",
    "own.sdf",
    "a test's format",
    mass=exact_value(1.2, "f: mass"),
    inertia=UncertainVector((0.01, 0.01, 0.02), "f: inertia"),
    rotors=ROTORS,
    effects={"drag": {"linear": UncertainVector((0.1, 0.1, 0.2), "f: drag")}},
)


def test_every_number_arrives_with_its_source_and_spread_and_the_file_reads_back() -> None:
    imported = build_imported(WHOLE)
    assert WHOLE.missing_fields == ()
    assert (imported.mass, imported.rotors[1].r_B, imported.rotors[1].spin) == (1.2, Vec3(-0.2, 0.2, 0.0), -1)
    assert imported.rotors[2].motor.speed_max == 900.0 and imported["drag"].linear == Vec3(0.1, 0.1, 0.2)
    assert dict(imported.structure.sources)["rotors[3].k_thrust"] == "f: kF"
    assert valid_spreads(imported)["rotors[0].k_torque"] == 0.1
    written = vehicle_toml(imported)
    reread = parse_vehicle(written, "again")
    assert (
        replace(reread, structure=imported.structure) == imported
        and reread.structure.effects == imported.structure.effects
    )
    assert (
        vehicle_toml(reread) == written
    )  # with every source and spread, though common values of rotors are written once


def test_what_is_lacking_is_named_once_for_all_rotors() -> None:
    bare = replace(WHOLE, mass=None, rotors=tuple(replace(rotor, k_torque=None, motor={}) for rotor in ROTORS))
    assert bare.missing_fields == (
        "body.mass",
        "rotors.k_torque",
        *(f"rotors.motor.{key}" for key in ("speed_min", "speed_max", "time_constant_up", "time_constant_down")),
    )
    with pytest.raises(
        VehicleError, match=r"own.sdf: a test's format does not contain body.mass, rotors.k_torque, .*: exp"
    ):
        build_imported(bare)


def test_an_estimated_vehicle_fills_what_is_lacking_and_nothing_else() -> None:
    iris = vehicle("iris")
    bare = replace(WHOLE, inertia=None, rotors=tuple(replace(rotor, k_torque=None, motor={}) for rotor in ROTORS))
    imported = build_imported(bare, iris)
    assert imported.inertia_B == iris.inertia_B and imported.mass == 1.2
    assert imported.rotors[0].k_torque == iris.rotors[0].k_torque and imported.rotors[0].k_thrust == 1e-5
    assert imported.rotors[0].motor == iris.rotors[0].motor and imported.structure.actuation.name == "duty"
    assert imported["battery"] == iris["battery"] and imported["damping"] == iris["damping"]
    assert imported["drag"].linear == Vec3(0.1, 0.1, 0.2)
    sources = dict(imported.structure.sources)
    assert sources["body.inertia"] == "not in the file; NED lockstep simulator"
    assert sources["rotors[2].motor.kv"].startswith("not in the file; 3DR Iris: AC 2830")
    assert sources["battery[0].capacity"] == "not in the file; 3DR Iris: 3 cells, 11.1 V, 3.5 Ah"
    assert sources["contact.friction"] == "not in the file; rubber on a hard floor"


def test_another_number_of_rotors_is_refused() -> None:
    with pytest.raises(VehicleError, match=r"has 4 rotors, and hexarotor_x, .* 6: expected equal counts"):
        build_imported(replace(WHOLE, mass=None), vehicle("hexarotor_x"))


def test_a_layout_without_a_size_takes_the_length_of_an_arm() -> None:
    layout = replace(WHOLE, uses_arm_lengths=True)
    assert layout.missing_fields == ("arm",)
    with pytest.raises(VehicleError, match="does not contain arm"):
        build_imported(layout, vehicle("iris"))
    imported = build_imported(scale_positions(layout, UncertainValue(0.5, 0.03, "half of the diagonal")))
    assert imported.rotors[0].r_B == Vec3(0.1, 0.1, 0.0)
    assert dict(imported.structure.relative_uncertainties)["rotors[0].position"] == 0.03


def test_the_air_of_the_parts_is_added_only_where_the_file_has_none() -> None:
    """A file with drag flies as in its own simulator; one without gets drag, thrust and moment of the parts, with spreads."""
    parts = assemble(
        parts_list(name="p", mass=1.2, diagonal=0.56, motors="2216 880KV", props="10x4.5", battery="3S5000")
    )
    with_drag = build_imported(replace(WHOLE, mass=None), parts)
    assert not any(with_drag.has(effect) for effect in TRANSLATION_EFFECTS)
    assert with_drag["drag"] == build_imported(WHOLE)["drag"]
    without = build_imported(replace(WHOLE, mass=None, effects={}), parts)
    assert all(without.has(effect) and without[effect] == parts[effect] for effect in TRANSLATION_EFFECTS)
    assert {"airspeed_moment.roll", "rotor_drag.coefficient", "translational_lift.solidity"} <= valid_spreads(
        without
    ).keys()
