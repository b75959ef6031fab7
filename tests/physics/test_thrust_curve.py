"""Corrections of kF Ω²: polynomials of thrust stands, climb, and battery voltage; and the trim with them."""

import math

import numpy as np
import pytest

import samara
from samara import Environment
from samara.core.algebra import Vec3
from samara.physics.multirotor import derivative
from samara.physics.rotors.blade_element import HubFlow, RotorAir, RotorDrag, air_load, climb_loss
from samara.physics.rotors.propulsion import rotor_loads, supply_voltage
from samara.physics.rotors.rotor import rotor_load
from samara.physics.rotors.thrust_curve import ThrustCurve, ThrustScale, curve_load, thrust_gain
from samara.physics.types import CALM
from samara.vehicles.build import with_effects

BARE = samara.vehicle("crazyflie")
ROTOR = BARE.rotors[0]
SPEED = samara.hover(BARE)[0].rotor_speed[0]


def checked_trim(vehicle):
    """Return the trim after checking that all rates vanish in it"""
    state, command = samara.hover(vehicle)
    rate = derivative(state, command, vehicle)
    assert np.abs([*rate.v_W, *rate.omega_B]).max() < 1e-10
    return state


# A part that is linear in the speed --------------------------------------------------------------------------------


def test_a_thrust_stands_polynomial_is_met_at_every_speed():
    """T = k₂ Ω² + k₁ Ω with kF = k₂ + k₁/Ω₀, b = k₁/(kF Ω₀); the brushless Crazyflie's of drone-models, 37 % linear in hover"""
    k2, k1, at = 2.728e-8, 2.551e-5, 1562.0
    k_thrust = k2 + k1 / at
    rotor, curve = ROTOR._replace(k_thrust=k_thrust, k_torque=0.006 * k_thrust), ThrustCurve(k1 / (k_thrust * at), at)
    for speed in np.linspace(0.0, 2500.0, 26):
        plain, more = rotor_load(speed, rotor), curve_load(speed, rotor, curve)
        thrust = k2 * speed**2 + k1 * speed
        assert plain.thrust + more.thrust == pytest.approx(thrust, rel=1e-12, abs=1e-15)
        assert plain.torque + more.torque == pytest.approx(0.006 * thrust, rel=1e-12, abs=1e-15)
    assert curve.linear == pytest.approx(0.374, abs=1e-3)


def test_it_vanishes_at_its_speed_so_hover_is_what_it_was():
    """Ω₀ is the speed of hover by default; otherwise the trim is the root of the quadratic"""
    curved = samara.switch_on(BARE, "thrust_curve", linear=0.3)
    assert curved["thrust_curve"].speed == pytest.approx(SPEED, rel=1e-14)
    assert checked_trim(curved).rotor_speed == pytest.approx(samara.hover(BARE)[0].rotor_speed, rel=1e-12)
    explicit = samara.switch_on(BARE, "thrust_curve", linear=0.3, speed=1500.0)
    k2, k1 = 0.7 * ROTOR.k_thrust, 0.3 * ROTOR.k_thrust * 1500.0
    share = BARE.mass * 9.80665 / 4.0
    root = (math.sqrt(k1 * k1 + 4.0 * k2 * share) - k1) / (2.0 * k2)
    assert checked_trim(explicit).rotor_speed == pytest.approx((root,) * 4, rel=1e-10)


def test_it_thins_with_the_air_and_turns_with_the_rotor():
    assert curve_load(900.0, ROTOR, ThrustCurve(0.2, SPEED), 0.5) == pytest.approx(
        np.multiply(0.5, curve_load(900.0, ROTOR, ThrustCurve(0.2, SPEED))), rel=1e-14
    )
    assert curve_load(-900.0, ROTOR, ThrustCurve(0.2, SPEED)) == curve_load(900.0, ROTOR, ThrustCurve(0.2, SPEED))


def test_dc_motors_feel_it():
    """Its torque is the rotor's load: the same duty turns a rotor with more thrust at low speeds more slowly there"""
    iris = samara.vehicle("iris_documented")
    curved = samara.switch_on(iris, "thrust_curve", linear=0.4)
    state, command = samara.hover(curved)
    slow = state._replace(rotor_speed=tuple(0.5 * speed for speed in state.rotor_speed))
    plain, loaded = (
        vehicle.structure.actuation.rotor_acceleration(slow, command, vehicle, CALM) for vehicle in (iris, curved)
    )
    assert all(b < a for a, b in zip(plain, loaded, strict=True))


# Climb ---------------------------------------------------------------------------------------------------------------


def test_thrust_falls_with_climb_by_the_slope_of_blade_elements():
    """k_a = ¼ρσaA R: ∂T/∂V_c of the rotor's blade elements at constant inflow, by a difference of them"""
    blades, induced = RotorAir(0.1, 5.7), 4.0
    axial = 0.25 * 1.225 * blades.solidity * blades.lift_slope * math.pi * ROTOR.radius**3
    climbing, level = (
        air_load(SPEED, induced, HubFlow(climb, Vec3(0.0, 0.0, 0.0)), ROTOR, blades, 1.225).thrust
        for climb in (0.5, 0.0)
    )
    loss = climb_loss(SPEED, HubFlow(0.5, Vec3(1.0, 2.0, 0.0)), RotorDrag(0.0, axial))
    assert loss == pytest.approx(climbing - level, rel=1e-10)


def test_a_climbing_vehicle_pushes_less_and_a_falling_one_more():
    """T = kF Ω² − k_a Ω V_c of each rotor, in the wind at its hub; the torque is unchanged"""
    vehicle = samara.switch_on(BARE, "rotor_drag", coefficient=1e-6, axial=2e-6)
    state, _ = samara.hover(vehicle)
    level = rotor_loads(state, vehicle, CALM)
    for climb in (-2.0, 3.0):
        loads = rotor_loads(state._replace(v_W=Vec3(1.0, -1.0, climb)), vehicle, CALM)
        for load, still, speed in zip(loads, level, state.rotor_speed, strict=True):
            assert load.thrust - still.thrust == pytest.approx(-2e-6 * speed * climb, rel=1e-10)
            assert load.torque == still.torque
    draught = Environment(hub_wind_W=(Vec3(0.0, 0.0, 1.0), *[Vec3(0.0, 0.0, 0.0)] * 3))
    lifted = rotor_loads(state, vehicle, draught)
    assert lifted[0].thrust > level[0].thrust and lifted[1:] == level[1:]


def test_axial_drag_damps_what_is_left_to_rise():
    """m V̇ = −n k_a Ω V: a vehicle in trim, thrown upwards without other drag, slows down as e^(−t n k_a Ω/m)"""
    vehicle = with_effects(BARE, {"rotor_drag": {"coefficient": 0.0, "axial": 2e-6}, "drag": False})
    state, command = samara.hover(vehicle, (0.0, 0.0, 50.0))
    rising, decay = state._replace(v_W=Vec3(0.0, 0.0, 1.0)), 4.0 * 2e-6 * SPEED / vehicle.mass
    for _ in range(20):
        rising = samara.step(rising, command, vehicle, 5e-3)
    assert rising.v_W.z == pytest.approx(math.exp(-0.1 * decay), rel=1e-9)


def test_beside_an_inflow_model_it_would_be_there_twice():
    iris = samara.vehicle("iris_documented")
    assert samara.switch_on(iris, "rotor_drag", coefficient=1e-6).structure.inflow is not None
    with pytest.raises(
        samara.VehicleError, match=r"rotor_drag.axial = 1e-05 N s\^2/\(rad m\) beside inflow: expected one"
    ):
        samara.switch_on(iris, "rotor_drag", coefficient=1e-6, axial=1e-5)


# Voltage -------------------------------------------------------------------------------------------------------------


def test_thrust_and_torque_gain_nine_percent_for_each_volt():
    """The complete wrench of the rotors, 1 + s (V − V_ref) of it, with V under the load of the motors"""
    sagging = samara.switch_on(BARE, "battery")
    vehicle = samara.switch_on(sagging, "thrust_scale", per_volt=0.09, reference=3.7)
    state, command = samara.hover(sagging)
    state = state._replace(
        rotor_speed=tuple(speed * (1.0 + 0.02 * i) for i, speed in enumerate(state.rotor_speed)),
        effects=(*state.effects, ()),
    )
    parts = samara.wrench_breakdown(state, command, vehicle)
    gain = 0.09 * (supply_voltage(state, command, vehicle, CALM) - 3.7)
    assert 0.005 < gain < 0.045
    for field in ("f_B", "tau_B"):
        expected = gain * np.array(getattr(parts["rotors"], field))
        assert np.array(getattr(parts["thrust_scale"], field)) == pytest.approx(expected, rel=1e-12, abs=1e-18)


def test_an_ideal_supply_moves_the_trim_by_the_root_of_the_factor():
    """kF Ω² (1 + s (V − V_ref)) is the same weight; V does not change the motors' speeds"""
    for volts in (3.4, 3.7, 4.1):
        supplied = with_effects(BARE, {"battery": {"model": "ideal", "voltage": volts}})
        vehicle = samara.switch_on(supplied, "thrust_scale", reference=3.7)
        assert vehicle["thrust_scale"].per_volt == 0.09
        speed = SPEED / math.sqrt(1.0 + 0.09 * (volts - 3.7))
        assert checked_trim(vehicle).rotor_speed == pytest.approx((speed,) * 4, rel=1e-10)


def test_its_reference_is_the_full_battery_and_it_takes_no_more_than_all():
    full = samara.switch_on(samara.switch_on(BARE, "battery"), "thrust_scale")
    assert full["thrust_scale"].reference == pytest.approx(4.2, rel=1e-14)
    assert thrust_gain(0.0, ThrustScale(0.5, 12.0)) == -1.0


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ({"thrust_scale": {"reference": 3.7}}, "thrust_scale is on and there is no battery: expected one"),
        (
            {"thrust_curve": {"linear": 1.0}},
            "thrust_curve.linear = 1: expected a fraction of the thrust, below 1 in magnitude",
        ),
        (
            {"thrust_curve": {"linear": 0.1}, "rotor_air": True},
            "thrust_curve is on beside rotor_air: expected one of them",
        ),
        ({"thrust_curve": True}, "thrust_curve.linear is missing: expected a number"),
        ({"airspeed_moment": {"roll": 0.1}}, "airspeed_moment.pitch is missing: expected a number"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(effects, sentence):
    with pytest.raises(samara.VehicleError, match=sentence):
        with_effects(BARE, effects)
