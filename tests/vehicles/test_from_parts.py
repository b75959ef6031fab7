"""Missing parameters of a file are estimated from parts; rotors, mass and battery of the file are unchanged."""

from dataclasses import replace

import pytest
from support.command import call
from vehicles.test_betaflight_diff import OWN as DIFF
from vehicles.test_px4_file import SCRIPT

import samara
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.exchange.betaflight import betaflight_diff
from samara.vehicles.exchange.formats import battery_text, estimate_from_parts
from samara.vehicles.exchange.imported_vehicle import build_imported, scale_positions
from samara.vehicles.exchange.px4 import px4_parameter_file
from samara.vehicles.parts.uncertain import exact_value
from samara.vehicles.trim import hover
from samara.vehicles.writer import valid_sources, valid_spreads

MOTORS, PROPS = "2207 1950KV", "5.1x4.3x3"


def racer():
    return replace(scale_positions(betaflight_diff(DIFF, "heron.txt"), exact_value(0.11)), mass=exact_value(0.65))


def test_a_diff_and_its_parts_are_a_vehicle_that_hovers():
    read = racer()
    assert battery_text(read) == "6S1300"
    estimated = check_vehicle(build_imported(read, estimate_from_parts(read, MOTORS, PROPS)))
    assert estimated.mass == 0.65 and [rotor.spin for rotor in estimated.rotors] == [
        rotor.spin for rotor in read.rotors
    ]
    assert estimated["battery"][0].table_voltage[-1] == pytest.approx(25.2)
    assert 0.1 < sum(hover(estimated)[1]) / 4.0 < 0.6
    sources, spreads = valid_sources(estimated), valid_spreads(estimated)
    assert sources["rotors[0].k_thrust"].startswith("not in the file") and spreads["rotors[0].k_thrust"] > 0.02
    assert sources["rotors[0].position"].startswith("heron.txt: mixer QUADX") and "rotors[0].position" not in spreads


def test_the_hover_thrust_of_px4_goes_before_the_estimate():
    read = px4_parameter_file(SCRIPT.replace("CA_ROTOR3_AY 0.6", "CA_ROTOR3_AY 0"), "own.sh")
    read = replace(read, mass=exact_value(1.4))
    estimated = build_imported(read, estimate_from_parts(read, "2216 880KV", "10x4.7", "4S5000"))
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in estimated.rotors)
    assert full == pytest.approx(1.4 * 9.80665 / 0.4, rel=1e-12)
    assert valid_spreads(estimated)["rotors[0].motor.speed_max"] > 0.0


def test_what_an_estimate_lacks_is_named():
    read = betaflight_diff(DIFF, "heron.txt")
    with pytest.raises(VehicleError, match=r"heron.txt: an estimate from parts needs --props, --mass, --diagonal"):
        estimate_from_parts(read, MOTORS, None)
    with pytest.raises(ValueError, match="motors"):
        estimate_from_parts(racer(), "big", PROPS)


def test_the_command_takes_the_parts(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heron.txt").write_text(DIFF)
    words = ("--mass", "0.65", "--diagonal", "0.22", "--motors", MOTORS, "--props", PROPS)
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "heron.txt", *words, "-o", "racer.toml")
    assert (status, err) == (0, "") and samara.vehicle("racer.toml").mass == 0.65
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "heron.txt", *words, "--defaults-from", "iris")
    assert status == 2 and "--defaults-from and parts are both given" in err
