"""Performance figures against trims, closed forms, and the spread of a known law."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.physics.air.drag import Drag
from samara.physics.rotors.propulsion import bus_current
from samara.physics.types import CALM
from samara.vehicles.build import Provenance
from samara.vehicles.parts.performance import full_throttle_current, performance_figures
from samara.vehicles.trim import thrust_to_weight


def figures(vehicle):
    return {figure.name: figure for figure in performance_figures(vehicle)}


def quad(spreads=(), drag=None, **motor):
    from samara.physics.rotors.actuator import Lag
    from samara.physics.rotors.rotor import Rotor

    lag_motor = Lag(
        **{"speed_min": 0.0, "speed_max": 1500.0, "time_constant_up": 0.02, "time_constant_down": 0.02} | motor
    )
    rotors = [
        Rotor(Vec3(x, y, 0.0), Vec3(0.0, 0.0, 1.0), spin, 2e-6, 3e-8, 0.0, 0.06, lag_motor)
        for x, y, spin in ((0.1, -0.1, 1), (-0.1, 0.1, 1), (0.1, 0.1, -1), (-0.1, -0.1, -1))
    ]
    return samara.build_vehicle(
        "quad",
        mass=0.8,
        inertia=(2e-3, 2e-3, 4e-3),
        rotors=rotors,
        effects={"drag": drag},
        provenance=Provenance(spreads=spreads),
    )


def test_the_iris_hovers_and_lifts_as_its_trim_says():
    iris = samara.vehicle("iris")
    state, command = samara.hover(iris)
    by_name = figures(iris)
    assert by_name["hover throttle"].value == pytest.approx(100.0 * sum(command) / 4, rel=1e-6)
    assert by_name["hover current"].value == pytest.approx(float(bus_current(state, command, iris, CALM)), rel=1e-6)
    assert by_name["thrust/weight"].value == pytest.approx(
        thrust_to_weight(iris), rel=0.02
    )  # with all rotors at their limits instead of the first
    assert by_name["full throttle"].value == pytest.approx(full_throttle_current(iris))
    assert by_name["full throttle"].value > 4.0 * by_name["hover current"].value
    assert all(figure.interval == "" for figure in by_name.values())  # its file has no spreads


def test_hover_time_of_a_battery_that_does_not_sag():
    """C / I to empty and 0.8 of it to the reserve, with a flat curve and no resistance"""
    iris = samara.vehicle("iris")
    flat = iris["battery"][0]._replace(
        table_charge=(0.0, 1.0), table_voltage=(12.0, 12.0001), resistance=1e-9, polarisation_resistance=1e-9
    )
    by_name = figures(iris.replace({f"battery.{key}": getattr(flat, key) for key in flat._fields}))
    minutes = flat.capacity / by_name["hover current"].value / 60.0
    assert by_name["hover time to empty"].value == pytest.approx(minutes, rel=1e-4)
    assert by_name["hover time, 20 % left"].value == pytest.approx(0.8 * minutes, rel=1e-4)


def test_hovering_ends_where_the_voltage_does_not_suffice():
    """A battery that falls below the voltage of hover at 60 % of its charge: neither time counts what is left"""
    iris = samara.vehicle("iris")
    full = {figure.name: figure.value for figure in performance_figures(iris)}
    voltage = iris["battery"][0].table_voltage[-1]
    steep = {"table_charge": (0.0, 0.59, 0.6, 1.0), "table_voltage": (0.4 * voltage, 0.4 * voltage, voltage, voltage)}
    by_name = figures(iris.replace({f"battery.{key}": value for key, value in steep.items()}))
    for name in ("hover time to empty", "hover time, 20 % left"):
        assert 0.3 * full["hover time to empty"] < by_name[name].value < 0.6 * full["hover time to empty"]


def test_climb_and_top_speed_against_quadratic_drag():
    """T − m g = d v² straight up; level d v² = √(T² − (m g)²), with equal drag along all axes"""
    d = 0.02
    by_name = figures(quad(drag=Drag(isotropic=d)))
    thrust, weight = 4 * 2e-6 * 1500.0**2, 0.8 * 9.80665
    assert by_name["climb"].value == pytest.approx(math.sqrt((thrust - weight) / d), rel=1e-6)
    level = math.sqrt(math.sqrt(thrust**2 - weight**2) / d)
    assert by_name["top speed"].value == pytest.approx(3.6 * level, rel=1e-6)
    assert by_name["thrust/weight"].value == pytest.approx(thrust / weight)


def test_the_interval_is_that_of_the_only_number_in_doubt():
    """T/W ∝ k_thrust: 95 % within e^(±1.96 s); throttle ∝ 1/√k_thrust"""
    spread = 0.1
    by_name = figures(quad(spreads=[("rotor.k_thrust", spread)], drag=Drag(isotropic=0.02)))
    lift, throttle = by_name["thrust/weight"], by_name["hover throttle"]
    assert np.log([lift.low / lift.value, lift.high / lift.value]) == pytest.approx([-0.196, 0.196], abs=0.04)
    ends = np.log([throttle.low / throttle.value, throttle.high / throttle.value])
    assert ends == pytest.approx([-0.098, 0.098], abs=0.02)
    assert by_name["climb"].low < by_name["climb"].value < by_name["climb"].high


def test_figures_of_marginal_aircraft_cover_only_the_samples_that_lift():
    hardly = figures(quad(speed_max=1000.0, drag=Drag(isotropic=0.02), spreads=[("rotor.k_thrust", 0.1)]))
    assert 1.0 < hardly["thrust/weight"].value < 1.03 and hardly["thrust/weight"].low < 1.0
    assert 0.0 < hardly["climb"].low <= hardly["climb"].value < hardly["climb"].high
    with pytest.raises(ValueError, match="cannot hover"):
        figures(quad(speed_max=980.0))
