"""What a file cannot say is estimated from parts: the file's rotors, mass and battery stay its own."""

from dataclasses import replace

import pytest
from support.command import call
from vehicles.test_betaflight_diff import OWN as DIFF
from vehicles.test_px4_file import SCRIPT

import samara
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.exchange.betaflight import betaflight_diff
from samara.vehicles.exchange.formats import estimated_from_parts, pack_text
from samara.vehicles.exchange.imported_vehicle import built, sized
from samara.vehicles.exchange.px4 import px4_parameter_file
from samara.vehicles.parts.uncertain import given
from samara.vehicles.trim import hover
from samara.vehicles.writer import sources_still_true, spreads_still_true

MOTORS, PROPS = "2207 1950KV", "5.1x4.3x3"


def racer():
    return replace(sized(betaflight_diff(DIFF, "heron.txt"), given(0.11)), mass=given(0.65))


def test_a_diff_and_its_parts_are_a_vehicle_that_hovers():
    read = racer()
    assert pack_text(read) == "6S1300"
    made = check_vehicle(built(read, estimated_from_parts(read, MOTORS, PROPS)))
    assert made.mass == 0.65 and [rotor.spin for rotor in made.rotors] == [rotor.spin for rotor in read.rotors]
    assert made["battery"][0].table_voltage[-1] == pytest.approx(25.2)
    assert 0.1 < sum(hover(made)[1]) / 4.0 < 0.6
    sources, spreads = sources_still_true(made), spreads_still_true(made)
    assert sources["rotors[0].k_thrust"].startswith("not in the file") and spreads["rotors[0].k_thrust"] > 0.02
    assert sources["rotors[0].position"].startswith("heron.txt: mixer QUADX") and "rotors[0].position" not in spreads


def test_the_hover_thrust_of_px4_goes_before_the_estimate():
    read = px4_parameter_file(SCRIPT.replace("CA_ROTOR3_AY 0.6", "CA_ROTOR3_AY 0"), "own.sh")
    read = replace(read, mass=given(1.4))
    made = built(read, estimated_from_parts(read, "2216 880KV", "10x4.7", "4S5000"))
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in made.rotors)
    assert full == pytest.approx(1.4 * 9.80665 / 0.4, rel=1e-12)
    assert spreads_still_true(made)["rotors[0].motor.speed_max"] > 0.0


def test_what_an_estimate_lacks_is_named():
    read = betaflight_diff(DIFF, "heron.txt")
    with pytest.raises(VehicleError, match=r"heron.txt: an estimate from parts needs --props, --mass, --diagonal"):
        estimated_from_parts(read, MOTORS, None)
    with pytest.raises(ValueError, match="motors"):
        estimated_from_parts(racer(), "big", PROPS)


def test_the_command_takes_the_parts(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heron.txt").write_text(DIFF)
    words = ("--mass", "0.65", "--diagonal", "0.22", "--motors", MOTORS, "--props", PROPS)
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "heron.txt", *words, "-o", "racer.toml")
    assert (status, err) == (0, "") and samara.vehicle("racer.toml").mass == 0.65
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "heron.txt", *words, "--like", "iris")
    assert status == 2 and "--like and parts are both given" in err
