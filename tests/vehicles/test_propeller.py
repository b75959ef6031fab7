"""Propellers by size: against measured ones, against momentum theory, and invalid texts."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.propeller.blade import INCH
from samara.vehicles.parts.propeller import (
    _BLADE_MASS,
    _MASS_POWERS,
    _MASS_SPREAD,
    THRUST_TORQUE_CORRELATION,
    PropellerSize,
    expected_error,
    generic_blade,
    neighbours,
    parse_size,
    propeller,
    weighted_mean,
)
from samara.vehicles.parts.propeller_tables import J0_FRACTIONS, TABLE, compute_theory, measured_propellers
from samara.vehicles.parts.uncertain import SIGMAS_95


def leave_one_out(leave_family):
    """ln(measured/predicted) and the stated spread of every propeller, predicted from the others."""
    table = neighbours()
    errors, stated_spreads = [], []
    for i, point in enumerate(table.features):
        is_other = table.family != table.family[i] if leave_family else np.arange(len(table.features)) != i
        features = table.features[is_other]
        errors.append(table.ratio[i] - weighted_mean(point, features, table.ratio[is_other]))
        stated_spreads.append(expected_error(point, features, table.error[is_other]))
    return np.array(errors), np.array(stated_spreads)


def test_stated_intervals_hold_95_percent_of_the_measured_propellers_that_were_left_out():
    """161 propellers, each from other makers' families: CT and CP, static and up to 80 % of J₀"""
    errors, stated = leave_one_out(leave_family=True)
    is_covered = np.abs(errors) < SIGMAS_95 * stated
    thrust, power = is_covered[:, 1:6], is_covered[:, 6:11]
    assert 0.94 <= thrust.mean() <= 0.98
    assert 0.94 <= power.mean() <= 0.98
    assert np.median(np.abs(errors[:, 1])) < 0.10  # standing thrust
    assert np.median(np.abs(errors[:, 6])) < 0.145  # standing power


def test_errors_of_thrust_and_power_go_together():
    """Their correlation over the propellers whose family was left out, static."""
    errors = leave_one_out(leave_family=True)[0]
    assert np.corrcoef(errors[:, 1], errors[:, 6])[0, 1] == pytest.approx(THRUST_TORQUE_CORRELATION, abs=0.02)


def test_neighbours_of_the_same_family_help():
    """A propeller is predicted better with its own family in the table than without, in thrust and in power."""
    without_family, with_family = leave_one_out(leave_family=True)[0], leave_one_out(leave_family=False)[0]
    assert np.sqrt(np.mean(with_family**2, axis=0))[1] < np.sqrt(np.mean(without_family**2, axis=0))[1]
    assert np.sqrt(np.mean(with_family**2, axis=0))[6] < np.sqrt(np.mean(without_family**2, axis=0))[6]


def test_the_table_is_small_and_what_the_code_makes():
    """Under 50 kB with its source line; the theory of a line equals the code's."""
    from importlib.resources import files

    text = files("samara.vehicles.parts").joinpath(TABLE).read_text(encoding="utf-8")
    assert len(text.encode()) < 50_000
    assert text.startswith("# UIUC Propeller Data Site, volumes 1 and 2")
    assert len(measured_propellers()) == 161
    for measured in (measured_propellers()[7], measured_propellers()[91]):
        computed = compute_theory(generic_blade(PropellerSize(measured.diameter, measured.pitch, 2)), measured.rpm)
        assert computed.advance == pytest.approx(measured.advance_bem, abs=1e-3)
        assert np.allclose(computed.thrust[:-1], measured.thrust_bem[:-1], atol=2e-4)
        assert np.allclose(computed.power, measured.power_bem, atol=2e-4)


@pytest.mark.parametrize("text", ["10x4.5", "5.1x4.3x3", "45x35 mm", "21x7", "0.13x0.11 m", "30x10x2"])
def test_no_rotor_does_better_than_momentum_theory(text):
    """Static: P ≥ T^(3/2)/√(2ρA), that is CP ≥ CT^(3/2) √(2/π); and at most four times it"""
    estimate = propeller(text)
    ideal = estimate.ct.values[0] ** 1.5 * math.sqrt(2.0 / math.pi)
    assert ideal < estimate.cp.values[0] < 4.0 * ideal
    thrust = estimate.k_thrust.value * 500.0**2
    area = math.pi * estimate.radius.value**2
    ideal_power = thrust**1.5 / math.sqrt(2.0 * SEA_LEVEL_DENSITY * area)
    assert ideal_power < estimate.k_torque.value * 500.0**3 < 4.0 * ideal_power


def test_constants_are_the_coefficients_in_other_units():
    """T = ρ n² D⁴ CT = kF Ω², P = ρ n³ D⁵ CP = kM Ω³"""
    estimate, revolutions = propeller("8x4.5"), 100.0
    diameter, speed = 8.0 * INCH, 2.0 * math.pi * revolutions
    assert estimate.k_thrust.value * speed**2 == pytest.approx(
        SEA_LEVEL_DENSITY * revolutions**2 * diameter**4 * estimate.ct.values[0]
    )
    assert estimate.k_torque.value * speed**3 == pytest.approx(
        SEA_LEVEL_DENSITY * revolutions**3 * diameter**5 * estimate.cp.values[0]
    )


def test_a_measured_propeller_is_met_within_its_own_error_bar():
    """Slow-flyer and thin electric propellers lie on either side of the prediction for their size."""
    by_name = {measured.name: measured for measured in measured_propellers()}
    estimate = propeller("10x4.7", rpm=5300.0)
    slow, thin = by_name["apcsf 10.0x4.7"], by_name["apce 10.0x5.0"]
    assert thin.thrust[0] * 0.95 < estimate.ct.values[0] < slow.thrust[0]
    assert abs(math.log(slow.thrust[0] / estimate.ct.values[0])) < SIGMAS_95 * estimate.ct.spread
    assert len(estimate.ct.advance) == len(J0_FRACTIONS)
    assert estimate.ct.values[-1] == 0.0


def test_error_bars_grow_beyond_what_was_measured():
    """More blades than two, toys of 2.5 inches and propellers larger than 19: each adds to the spread"""
    inside = propeller("10x5").k_thrust.spread
    assert propeller("10x5x3").k_thrust.spread > inside + 0.01
    assert propeller("2.5x1.25").k_thrust.spread > inside + 0.01
    assert propeller("40x20").k_thrust.spread > inside + 0.01


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5.1x4.3x3", (5.1 * INCH, 4.3 * INCH, 3)),
        ("10x4.5", (10 * INCH, 4.5 * INCH, 2)),
        (" 10 × 4.5 ", (10 * INCH, 4.5 * INCH, 2)),
        ("0.13x0.11 m", (0.13, 0.11, 2)),
        ("45x35mm", (0.045, 0.035, 2)),
        ("7x4x3 in", (7 * INCH, 4 * INCH, 3)),
        ("51433", (5.1 * INCH, 4.3 * INCH, 3)),
        ("5143x3", (5.1 * INCH, 4.3 * INCH, 3)),
        ("5143-3", (5.1 * INCH, 4.3 * INCH, 3)),
        ("5045", (5.0 * INCH, 4.5 * INCH, 2)),
        ("1045", (10 * INCH, 4.5 * INCH, 2)),
        ("51466", (5.1 * INCH, 4.66 * INCH, 3)),
    ],
)
def test_sizes_as_shops_write_them(text, size):
    """Inches unless a unit follows, two blades unless a third number does; or the digits of a maker's code."""
    assert parse_size(text) == pytest.approx(size)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "big",
        "5.1",
        "5.1x",
        "0x0",
        "5x4x0",
        "5x4x9",
        "900x4",
        "10x40",
        "nanx4",
        "5x4x3x2",
        "1e9x1e9",
        "514",
        "514333",
        "5143x",
        "5143x9",
        None,
        5,
    ],
)
def test_what_is_no_size_is_said_in_one_sentence(text):
    """The message has the field, the value and the expectation."""
    with pytest.raises(ValueError, match=r"^props = .*expected") as caught:
        parse_size(text)
    assert "\n" not in str(caught.value)


def test_masses_are_a_curve_through_those_of_thirty_propellers():
    """ln m/B = ln a + b x + c x² by least squares, x = ln(D/0.2 m); 40 mm to 29 inches, each within the error bar"""
    lines = Path(__file__).with_name("propeller_masses.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    x = np.array([math.log(float(row["diameter"]) / 200.0) for row in rows])
    y = np.array([math.log(1e-3 * float(row["mass"]) / int(row["blades"])) for row in rows])
    columns = np.stack([np.ones(len(x)), x, x * x], axis=1)
    coefficients, *_ = np.linalg.lstsq(columns, y, rcond=None)
    assert len(rows) == 30
    assert (math.exp(coefficients[0]), *coefficients[1:]) == pytest.approx((_BLADE_MASS, *_MASS_POWERS), rel=0.01)
    error = y - columns @ coefficients
    assert math.sqrt(error @ error / (len(x) - 3)) == pytest.approx(_MASS_SPREAD, abs=0.015)
    for row in rows:
        mass = propeller(f"{row['diameter']}x{row['pitch']}x{row['blades']} mm").mass
        assert mass.low < 1e-3 * float(row["mass"]) < mass.high


def test_inertia_is_that_of_a_blade_between_a_rod_and_its_middle():
    """I < m R²/3 of a rod, for blades are narrow at the tip, and more than half of it"""
    estimate = propeller("10x4.5")
    rod = estimate.mass.value * estimate.radius.value**2 / 3.0
    assert 0.5 * rod < estimate.inertia.value < rod


# Propellers on makers' stands, with sizes and blades outside the tunnel's table: rpm and thrust [g] at full throttle
STANDS = [
    ("5.1x4.5x3", 30342, 1699),  # MEPS SZ5145 on a Neon 2207
    ("4.9x4.2x3", 31973, 1584),  # MEPS SZ4942
    ("5.1x3.6x3", 33163, 1958),  # Gemfan 51466 on a T-Motor F60 Pro V
    ("5.1x4.3x3", 36418, 1967),  # T-Motor T5143S on an F40 Pro V
    ("15x5", 6000, 1920),  # T-Motor 15x5 on an MN4014
    ("28x9.2", 3709, 8716),  # T-Motor G28x9.2 on a U8II
]


def test_propellers_on_makers_stands():
    """CT of three blades of 5 inch and of 28 inches, in no fit: within 3 % in the median; T-Motor's T5143S is 25 % below"""
    errors = []
    for text, rpm, grams in STANDS:
        estimate = propeller(text, rpm=rpm)
        measured = 9.80665e-3 * grams / (SEA_LEVEL_DENSITY * (rpm / 60.0) ** 2 * estimate.size.diameter**4)
        errors.append(abs(math.log(measured / estimate.ct.values[0])))
        assert errors[-1] < SIGMAS_95 * estimate.ct.spread
    assert np.median(errors) < 0.03
    assert max(errors) < 0.30
