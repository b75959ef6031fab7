"""Batteries by cells and capacity: the fits repeated from their data, series and parallel, and invalid texts."""

import math
from pathlib import Path

import numpy as np
import pytest

from samara.vehicles.parts.battery import MASS, RESISTANCE, battery


def cells():
    """Capacity [A h], C rating, resistance [Ω], mass [g] of cell_data.csv"""
    return np.genfromtxt(Path(__file__).with_name("cell_data.csv"), delimiter=",", skip_header=2).T


def test_the_resistance_is_the_line_of_least_errors():
    """ln(R Ah) = a + b ln(C/30), least absolute errors: a few cells are listed with a tenth of the typical resistance"""
    capacity_ah, rating, resistance, _ = cells()
    values, log_rating = np.log(resistance * capacity_ah), np.log(rating / 30.0)

    def cost(constant, power):
        return np.abs(values - constant - power * log_rating).sum()

    best = cost(math.log(RESISTANCE[0]), RESISTANCE[2])
    for constant, power in [(0.05, 0.0), (-0.05, 0.0), (0.0, 0.1), (0.0, -0.1), (0.05, 0.1), (-0.05, -0.1)]:
        assert cost(math.log(RESISTANCE[0]) + constant, RESISTANCE[2] + power) > best
    error = np.abs(values - math.log(RESISTANCE[0]) - RESISTANCE[2] * log_rating)
    assert np.median(error) < 0.21
    assert np.mean(error < 1.96 * RESISTANCE[3]) > 0.85


def test_the_mass_is_that_of_the_cells():
    """Least squares over the cells whose mass is one cell's; the scatter is within the stated one."""
    capacity_ah, rating, _, mass = cells()
    single = np.isfinite(mass) & (mass / capacity_ah > 18.0) & (mass / capacity_ah < 40.0)
    columns = np.stack([np.ones(single.sum()), np.log(capacity_ah[single]), np.log(rating[single] / 30.0)], axis=1)
    coefficients, *_ = np.linalg.lstsq(columns, np.log(1e-3 * mass[single]), rcond=None)
    assert (math.exp(coefficients[0]), coefficients[1], coefficients[2]) == pytest.approx(MASS[:3], rel=0.03)
    assert (np.log(1e-3 * mass[single]) - columns @ coefficients).std() < MASS[3]


def test_series_and_parallel():
    """Cells in series add voltages; without a rating the resistance is more uncertain."""
    one, six = battery("1S1000 30C"), battery("6S1000 30C")
    assert six.full == pytest.approx(6 * one.full) == pytest.approx(25.2)
    assert six.table_voltage == pytest.approx([6 * volts for volts in one.table_voltage])
    assert six.mass.value == pytest.approx(6 * one.mass.value)
    assert battery("6S1000").resistance.spread > six.resistance.spread
    assert battery("6S1000 100C").resistance.value < six.resistance.value
    assert battery("4S2P5000").parallel == 2
    assert battery("6S22Ah").capacity.value == pytest.approx(22.0 * 3600.0)


def test_round_cells_are_lighter_and_have_more_resistance():
    """A 6S pack of two P42A side by side (8.4 Ah): 12 cells of 16 mΩ and 70 g"""
    ion, polymer = battery("6S2P8400 LiIon"), battery("6S8400 30C LiPo")
    assert ion.mass.value == pytest.approx(12 * 0.070, rel=0.1)
    assert ion.resistance.value == pytest.approx(6 * 0.016 / 2, rel=0.1)
    assert ion.mass.value < polymer.mass.value
    assert ion.resistance.value > polymer.resistance.value
    assert ion.nominal < polymer.nominal


@pytest.mark.parametrize(
    "text", ["", "big", "6S", "1300", "0S1300", "99S1300", "6S0", "6S9999999", "6S1300 9999C", "6S1300C", None, 6]
)
def test_what_is_no_battery_is_said_in_one_sentence(text):
    """The message has the field, the value and the expectation."""
    with pytest.raises(ValueError, match=r"^battery = .*expected") as caught:
        battery(text)
    assert "\n" not in str(caught.value)
