"""Vehicles from parts lists: their masses, their files, values that replace estimates, and lists that are rejected."""

import re
import tomllib

import numpy as np
import pytest

import samara
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.layouts import LAYOUTS
from samara.vehicles.parts.parts_list import PartsError, parts_list
from samara.vehicles.plausibility import REQUIRED_AXES, controllable_axes, warnings
from samara.vehicles.writer import vehicle_toml

RACER = {"mass": 0.65, "diagonal": 0.22, "motors": "2207 1950KV", "props": "5.1x4.3x3", "battery": "6S1300"}
HEAVY = {"mass": 4.0, "diagonal": 0.9, "motors": "3510 600KV", "props": "11x4.5", "battery": "6S10000"}


def racer(**overrides):
    return assemble(parts_list(name="racer", **{**RACER, **overrides}))


def quantities(table, path=""):
    """Iterate over every { value, unit, … } of a file with its path."""
    for key, entry in table.items():
        if isinstance(entry, dict) and "value" in entry:
            yield f"{path}{key}", entry
        elif isinstance(entry, dict):
            yield from quantities(entry, f"{path}{key}.")
        elif isinstance(entry, list) and entry and isinstance(entry[0], dict):
            for i, item in enumerate(entry):
                yield from quantities(item, f"{path}{key}[{i}].")


def test_the_file_reads_back_to_the_same_vehicle_and_flies_as_samara_check_likes_it():
    vehicle = racer()
    reread = parse_vehicle(vehicle_toml(vehicle), "racer.toml", derive_feet=True)
    assert reread == vehicle
    assert reread.structure.sources and reread.structure.relative_uncertainties
    assert warnings(vehicle) == []


def test_every_number_of_the_file_has_a_unit_a_source_and_where_it_is_no_certainty_a_spread():
    certain = re.compile(
        r"^(given|.*: given|standard gravity|upright|none besides .*|.*step of 1 ms|knots of the curve .*)$"
    )
    for path, entry in quantities(tomllib.loads(vehicle_toml(racer()))):
        assert entry["unit"], path
        assert entry["source"] not in ("", "set in Python, or a default"), path
        if not certain.match(entry["source"]) and not path.endswith("position"):
            assert 0.0 < entry["spread"] < 2.0, path


def test_what_is_known_is_given_instead():
    assembled = racer(
        inertia=[1e-3, 1.1e-3, 2e-3], k_thrust=1.9e-6, k_torque=2.6e-8, battery_resistance=0.03, current_max=45.0
    )
    assert (assembled.inertia_B.xx, assembled.inertia_B.yy, assembled.inertia_B.zz) == (1e-3, 1.1e-3, 2e-3)
    assert {rotor.k_thrust for rotor in assembled.rotors} == {1.9e-6}
    assert assembled.rotors[0].motor.current_max == 45.0
    assert assembled["battery"][0].resistance + assembled["battery"][0].polarisation_resistance == pytest.approx(0.03)
    sources, spreads = dict(assembled.structure.sources), dict(assembled.structure.relative_uncertainties)
    for path in ("body.inertia", "rotor.k_thrust", "rotor.k_torque", "motor.current_max"):
        assert sources[path].startswith("given") and path not in spreads


def test_a_battery_in_front_brings_the_centre_of_mass_forward():
    """x̄ = m_b x_b / m, and the hubs are that much farther back"""
    forward = racer(battery_position=[0.03, 0.0, 0.02], battery_mass=0.2)
    mean = np.mean([rotor.r_B.x for rotor in forward.rotors])
    assert mean == pytest.approx(-0.2 * 0.03 / 0.65, abs=2e-6)
    front, back = forward.rotors[0], forward.rotors[3]
    assert front.r_B.x > 0.0 > back.r_B.x
    state, _ = samara.hover(forward)
    assert state.rotor_speed[0] > state.rotor_speed[3]  # the front carries more


def test_inertia_grows_with_the_size_and_lies_where_real_aircraft_lie():
    small, large = racer(), racer(diagonal=0.26)
    assert large.inertia_B.zz > small.inertia_B.zz
    for assembled in (small, large):
        assert (
            assembled.inertia_B.xx + assembled.inertia_B.yy
            > assembled.inertia_B.zz
            > max(assembled.inertia_B.xx, assembled.inertia_B.yy)
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_makes_an_aircraft_that_hovers(layout):
    assembled = assemble(parts_list(name=layout, layout=layout, **{**HEAVY, "mass": 6.0 if layout == "x8" else 4.5}))
    assert set(REQUIRED_AXES) <= set(controllable_axes(assembled)[1])
    state, command = samara.hover(assembled)
    assert 0.1 < max(command) < 0.9
    assert assembled.has("coaxial") == (layout in ("x8", "y6")) and assembled.has("tilt") == (layout == "tricopter")
    if assembled.has("coaxial"):  # the lower rotors turn faster for the same thrust
        assert max(state.rotor_speed) > 1.01 * min(state.rotor_speed)


def test_by_coordinates_it_is_the_same_aircraft():
    entries = {key: value for key, value in RACER.items() if key != "diagonal"}
    by_layout = racer()
    height, positions = by_layout.rotors[0].r_B.z, [rotor.r_B for rotor in by_layout.rotors]
    rows = [[p.x, p.y, 0.0, "ccw" if r.spin > 0 else "cw"] for p, r in zip(positions, by_layout.rotors, strict=True)]
    assembled = assemble(parts_list(name="racer", **entries, rotors=rows))
    assert assembled.inertia_B.xx == pytest.approx(by_layout.inertia_B.xx, rel=1e-4)
    assert assembled.rotors[0].r_B.z == pytest.approx(height, abs=1e-6)


def test_a_brushed_motor_does_not_brake():
    whoop = assemble(
        parts_list(
            name="whoop", mass=0.03, diagonal=0.1, motors="0716 14000KV brushed", props="46x30 mm", battery="1S250"
        )
    )
    assert whoop.rotors[0].motor.current_min == 0.0
    assert racer().rotors[0].motor.current_min < 0.0


def test_a_payload_hangs_below_and_counts():
    bare, loaded = assemble(parts_list(**HEAVY)), assemble(parts_list(**HEAVY, payload=0.8))
    assert loaded.mass == bare.mass
    assert loaded.rotors[0].r_B.z > bare.rotors[0].r_B.z


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diagonal": 0.12}, "props = '5.1x4.3x3' are 130 mm across and diagonal = 0.12 m puts them 85 mm apart"),
        (
            {"battery": "6S8000"},
            "battery = '6S8000' weighs about .* kg and mass = 0.65 kg: expected an aircraft heavier",
        ),
        (
            {"motors": "4020 300KV"},
            r"mass = 0.65 kg and the parts weigh .* \(motors .*\): expected at least 0.039 kg left",
        ),
        (
            {"motors": "2207 400KV"},
            "mass = 0.65 kg: 4 of motors = '2207 400KV' .* lift .* kg; expected at least 1.1 times",
        ),
        (
            {"battery": "6S250"},
            "battery = '6S250': full throttle takes .* A, .* C, under which it retains .* of its voltage",
        ),
        ({"motors": "big ones"}, "motors = 'big ones': expected"),
        ({"props": "5.1"}, "props = '5.1': expected"),
        ({"battery": "lots"}, "battery = 'lots': expected"),
        ({"board_mass": 0.6}, "board_mass = 0.6 kg: expected less than the"),
        ({"payload": 0.6}, "expected at least 0.039 kg left for the frame"),
    ],
)
def test_what_cannot_fly_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message) as error:
        racer(**changes)
    assert "\n" not in str(error.value)


def test_a_mass_that_no_frame_explains_asks_for_the_payload():
    with pytest.raises(
        PartsError, match="expected at most 75 % of the mass left for the frame; set the mass that is carried"
    ):
        assemble(parts_list(**{**HEAVY, "mass": 20.0, "motors": "4014 400KV", "props": "15x5", "diagonal": 1.2}))


def test_feet_are_below_everything_and_may_be_given():
    assembled = racer()
    lowest = min(point.z for point in assembled["contact"].points_B)
    assert lowest < min(rotor.r_B.z for rotor in assembled.rotors)
    tall = racer(leg_height=0.1)
    assert min(p.z for p in tall["contact"].points_B) == pytest.approx(tall.rotors[0].r_B.z - 0.1, abs=2e-6)


@pytest.mark.parametrize("controller", ["geometric", "pid"])
def test_the_racer_flies_the_figure_of_eight(controller, tmp_path):
    samara.save_vehicle(racer(), tmp_path / "racer.toml")
    run = samara.fly("figure8", controller=controller, settings={"drones.vehicle": str(tmp_path / "racer.toml")})
    (track,) = run.drone_records
    assert track.error.max() < 0.1
    assert np.linalg.norm(track.position[-1] - np.array([0.0, 0.0, 3.0])) < 0.01
