"""What a file says becomes a vehicle; what it lacks is named, or taken from an estimated vehicle with its spread."""

from dataclasses import replace

import pytest

from samara import vehicle
from samara.core.algebra import Vec3
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Several, built, sized
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.parts.uncertain import Estimate, given
from samara.vehicles.writer import spreads_still_true, vehicle_toml

LAG = {"speed_min": given(0.0, "f: min"), "speed_max": given(900.0, "f: max"), "rise": given(0.02), "fall": given(0.03)}
PLACES = ((0.2, 0.2, 0.0), (-0.2, 0.2, 0.0), (-0.2, -0.2, 0.0), (0.2, -0.2, 0.0))
ROTORS = tuple(
    ImportedRotor(
        position=Several(place, "f: place"),
        spin=(-1) ** i,
        k_thrust=given(1e-5, "f: kF"),
        k_torque=Estimate(2e-7, 0.1, "f: kM"),
        motor=LAG,
    )
    for i, place in enumerate(PLACES)
)
WHOLE = Imported(
    "own",
    "own.sdf",
    "a test's format",
    mass=given(1.2, "f: mass"),
    inertia=Several((0.01, 0.01, 0.02), "f: inertia"),
    rotors=ROTORS,
    effects={"drag": {"linear": Several((0.1, 0.1, 0.2), "f: drag")}},
)


def test_every_number_arrives_with_its_source_and_spread_and_the_file_reads_back() -> None:
    made = built(WHOLE)
    assert WHOLE.lacking == ()
    assert (made.mass, made.rotors[1].r_B, made.rotors[1].spin) == (1.2, Vec3(-0.2, 0.2, 0.0), -1)
    assert made.rotors[2].motor.speed_max == 900.0 and made["drag"].linear == Vec3(0.1, 0.1, 0.2)
    assert dict(made.structure.sources)["rotors[3].k_thrust"] == "f: kF"
    assert spreads_still_true(made)["rotors[0].k_torque"] == 0.1
    written = vehicle_toml(made)
    again = parse_vehicle(written, "again")
    assert replace(again, structure=made.structure) == made and again.structure.effects == made.structure.effects
    assert vehicle_toml(again) == written  # with every source and spread, though what all rotors share is written once


def test_what_is_lacking_is_named_once_for_all_rotors() -> None:
    bare = replace(WHOLE, mass=None, rotors=tuple(replace(own, k_torque=None, motor={}) for own in ROTORS))
    assert bare.lacking == (
        "body.mass",
        "rotors.k_torque",
        *(f"rotors.motor.{key}" for key in ("speed_min", "speed_max", "rise", "fall")),
    )
    with pytest.raises(
        VehicleError, match=r"own.sdf: a test's format does not contain body.mass, rotors.k_torque, .*: exp"
    ):
        built(bare)


def test_an_estimated_vehicle_fills_what_is_lacking_and_nothing_else() -> None:
    iris = vehicle("iris")
    bare = replace(WHOLE, inertia=None, rotors=tuple(replace(own, k_torque=None, motor={}) for own in ROTORS))
    made = built(bare, iris)
    assert made.inertia_B == iris.inertia_B and made.mass == 1.2
    assert made.rotors[0].k_torque == iris.rotors[0].k_torque and made.rotors[0].k_thrust == 1e-5
    assert made.rotors[0].motor == iris.rotors[0].motor and made.structure.actuation.name == "duty"
    assert made["battery"] == iris["battery"] and made["damping"] == iris["damping"]
    assert made["drag"].linear == Vec3(0.1, 0.1, 0.2)
    sources = dict(made.structure.sources)
    assert sources["body.inertia"] == "not in the file; NED lockstep simulator"
    assert sources["rotors[2].motor.constant"].startswith("not in the file; 3DR Iris: AC 2830")


def test_another_number_of_rotors_is_refused() -> None:
    with pytest.raises(VehicleError, match=r"has 4 rotors, and hexarotor_x, .* 6: expected equal counts"):
        built(replace(WHOLE, mass=None), vehicle("hexarotor_x"))


def test_a_layout_without_a_size_takes_the_length_of_an_arm() -> None:
    layout = replace(WHOLE, arm_lengths=True)
    assert layout.lacking == ("arm",)
    with pytest.raises(VehicleError, match="does not contain arm"):
        built(layout, vehicle("iris"))
    made = built(sized(layout, Estimate(0.5, 0.03, "half of the diagonal")))
    assert made.rotors[0].r_B == Vec3(0.1, 0.1, 0.0)
    assert dict(made.structure.spreads)["rotors[0].position"] == 0.03
