"""Drag, heave damping and moment of airspeed of aircraft from parts, against those that were identified in flight."""

import math

import pytest
from support.flown_aircraft import flown_vehicle, slope, translation_rows, translation_table
from support.repository import REPOSITORY

import samara
from samara.vehicles.rotor_translation import FLOWN_DRAG, FLOWN_MOMENT

PAGE = REPOSITORY / "docs" / "evidence" / "own-drone-check.md"
RACER = "Agilicious (5-inch racer)"
# m Xu [N s/m] of all rotors, hover speed [rad/s], radius [m], kF: three Crazyflies that flew
CRAZYFLIES = (
    (0.012, 1886.0, 0.0231, 2.02e-8),  # NanoBench, crazyflie.toml
    (4 * 1886.0 * 1.025e-6, 1886.0, 0.0231, 2.02e-8),  # Foerster 2015, across the rotors' axes
    (0.02149, 1664.4, 0.0275, 3.839e-8),  # drone-models, cf21B_500
)


@pytest.mark.parametrize("row", list(translation_rows()), ids=lambda row: f"{row.aircraft}, {row.quantity}")
def test_aircraft_in_motion_against_what_was_flown(row):
    """The aim is a factor of 1.6. The X8's drag and moment are within 1.3; its heave damping is half of what was flown."""
    assert row.flown / row.factor < row.predicted < row.flown * row.factor or (
        row.flown < 0.0 and row.flown * row.factor < row.predicted < row.flown / row.factor
    )


def test_what_the_page_says_of_motion_is_what_is_computed():
    """Every line of its table"""
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert all(line in page for line in translation_table().splitlines())


def test_drag_in_units_of_the_rotor_is_the_mean_of_three_crazyflies():
    """χ = m Xu R/(n kF Ω): geometric mean and scatter of aircraft that are not on the page"""
    ratios = [math.log(drag * radius / (4.0 * speed * k_thrust)) for drag, speed, radius, k_thrust in CRAZYFLIES]
    mean = sum(ratios) / len(ratios)
    scatter = math.sqrt(sum((ratio - mean) ** 2 for ratio in ratios) / (len(ratios) - 1))
    assert math.exp(mean) == pytest.approx(FLOWN_DRAG.value, rel=0.02)
    assert scatter == pytest.approx(FLOWN_DRAG.spread, abs=0.02)


def test_the_interval_of_the_moment_is_what_six_aircraft_show():
    """0.09 to 0.20 within the 95 % interval, and most of it"""
    assert 0.07 < FLOWN_MOMENT.low < 0.09
    assert 0.20 < FLOWN_MOMENT.high < 0.26


def test_hover_and_throttle_do_not_change():
    """All three effects vanish in hover: the trim is that without them, to rounding."""
    vehicle = flown_vehicle(RACER)
    bare = vehicle.without_effect("rotor_drag", "airspeed_moment", "translational_lift")
    state, command = samara.hover(vehicle)
    bare_state, bare_command = samara.hover(bare)
    assert state.rotor_speed == pytest.approx(bare_state.rotor_speed, rel=1e-10)
    assert command == pytest.approx(bare_command, rel=1e-10)


def test_motion_along_y_is_motion_along_x_turned():
    """Drag against the motion, the leading side up, nothing across: signs of both axes"""
    vehicle = flown_vehicle(RACER)
    along_x, along_y = slope(vehicle, "x"), slope(vehicle, "y")
    assert along_x.f_B.x == pytest.approx(along_y.f_B.y, rel=1e-3)  # the frame is wider than long
    assert along_x.f_B.x < 0.0
    assert along_x.tau_B.y < 0.0 < along_y.tau_B.x  # nose up; left side up
    scale = abs(along_x.tau_B.y)
    assert max(abs(along_x.tau_B.x), abs(along_y.tau_B.y), abs(along_x.tau_B.z), abs(along_y.tau_B.z)) < 1e-6 * scale


def test_climbing_lowers_the_moment_of_airspeed():
    """The moment is T l u/W with the wake speed W: faster in climb, slower in a descent"""
    vehicle = flown_vehicle(RACER)
    state, command = samara.hover(vehicle)
    moments = [
        -samara.wrench_breakdown(state._replace(v_W=samara.Vec3(5.0, 0.0, climb)), command, vehicle)[
            "airspeed_moment"
        ].tau_B.y
        for climb in (-2.0, 0.0, 2.0)
    ]
    assert moments[0] > moments[1] > moments[2] > 0.0
