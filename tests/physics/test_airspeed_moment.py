"""The moment of airspeed: nose up in proportion to the airspeed, 0 in hover, smaller in a climb, independent of the axes."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.traced_flights import rotation

import samara
from samara import Environment
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.tree import flatten
from samara.physics.rotors.airspeed_moment import AirspeedMoment, airspeed_moment, wake_speed
from samara.physics.rotors.blade_element import HubFlow
from samara.physics.rotors.inflow import hover_induced, induced_velocity
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.vehicles.build import with_effects
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.parameters import parameter
from samara.vehicles.writer import vehicle_toml

RHO = SEA_LEVEL_DENSITY
BARE = samara.vehicle("crazyflie")
ROTOR = BARE.rotors[0]
EQUAL = AirspeedMoment(0.15, 0.15)
UNEQUAL = AirspeedMoment(0.11, 0.17)
ROTOR_WEIGHT = 0.0718  # [N]: a quarter of its weight
HOVER_INDUCED = hover_induced(ROTOR_WEIGHT, RHO, ROTOR.radius)
speeds = st.floats(-8.0, 8.0)
turns = st.tuples(*[st.floats(-3, 3)] * 3)


@cache
def moment_vehicle(roll: float, pitch: float) -> samara.Vehicle:
    return samara.switch_on(BARE, "airspeed_moment", roll=roll, pitch=pitch)


balanced = cache(samara.hover)


def airspeed_torque(vehicle, v_W=(0.0, 0.0, 0.0), wind_W=(0.0, 0.0, 0.0), **changed):
    state, command = balanced(vehicle)
    state, air = state._replace(v_W=Vec3(*v_W), **changed), Environment(wind_W=Vec3(*wind_W))
    part = samara.wrench_breakdown(state, command, vehicle, air)["airspeed_moment"]
    assert (*part.f_B, *part.f_W) == (0.0,) * 6
    return np.array(part.tau_B)


def rotor_moment(across, climb=0.0, moment=UNEQUAL, rotor=ROTOR, thrust=ROTOR_WEIGHT):
    return np.array(airspeed_moment(thrust, HubFlow(climb, Vec3(*across)), rotor, RHO, moment=moment))


def test_in_level_flight_it_is_the_weight_on_a_lever():
    """Σ c T l v/v_h = c m g l v/v_h; nose up is −y, left side up is +x, and 0.13 is the value of brushed Crazyflies"""
    vehicle = moment_vehicle(0.11, 0.13)
    weight = vehicle.mass * 9.80665
    induced = math.sqrt(0.25 * weight / (2.0 * RHO * math.pi * 0.0231**2))
    lever = weight * 0.046 / induced
    assert airspeed_torque(vehicle, (2.0, 0.0, 0.0)) == pytest.approx(
        [0.0, -0.13 * lever * 2.0, 0.0], rel=1e-12, abs=1e-18
    )
    assert airspeed_torque(vehicle, (0.0, 2.0, 0.0)) == pytest.approx(
        [0.11 * lever * 2.0, 0.0, 0.0], rel=1e-12, abs=1e-18
    )
    assert 0.37e-3 < -airspeed_torque(vehicle, (1.0, 0.0, 0.0))[1] < 0.44e-3


def test_an_arm_that_is_given_stands_for_that_of_every_rotor():
    """The lever is the distance of the rotor's axis from the centre of mass, at any height, unless `arm` is given"""
    high = ROTOR._replace(r_B=ROTOR.r_B + Vec3(0.0, 0.0, 0.3))
    assert rotor_moment((1.0, 2.0, 0.0), rotor=high) == pytest.approx(rotor_moment((1.0, 2.0, 0.0)), rel=1e-12)
    given_arm = rotor_moment((1.0, 2.0, 0.0), moment=UNEQUAL._replace(arm=2.0 * 0.046))
    assert given_arm == pytest.approx(2.0 * rotor_moment((1.0, 2.0, 0.0)), rel=1e-12)


@given(v=st.tuples(speeds, speeds, speeds), wind=st.tuples(speeds, speeds, speeds))
def test_only_the_motion_through_the_air_matters(v, wind):
    """Galileo: flight in wind is flight without it at v − w"""
    vehicle, through = moment_vehicle(0.11, 0.17), np.subtract(v, wind)
    assert airspeed_torque(vehicle, v, wind) == pytest.approx(airspeed_torque(vehicle, through), rel=1e-9, abs=1e-15)


@given(across=st.tuples(speeds, speeds), climb=speeds)
def test_it_reverses_with_the_wind_and_is_linear_in_it(across, climb):
    once = rotor_moment((*across, 0.0), climb)
    assert rotor_moment((-across[0], -across[1], 0.0), climb) == pytest.approx(-once, rel=1e-14)
    assert rotor_moment((3.0 * across[0], 3.0 * across[1], 0.0), climb) == pytest.approx(
        3.0 * once, rel=1e-12, abs=1e-18
    )


def test_there_is_none_in_hover_nor_in_a_climb_nor_of_rotors_that_stand():
    vehicle = moment_vehicle(0.2, 0.2)
    for v_W in ((0.0, 0.0, 0.0), (0.0, 0.0, 3.0), (0.0, 0.0, -3.0)):
        assert not airspeed_torque(vehicle, v_W).any()
    for climb in (-5.0, 0.0, 5.0):
        for v_W in ((4.0, -3.0, climb), (0.0, 0.0, climb)):
            assert not airspeed_torque(vehicle, v_W, rotor_speed=(0.0,) * 4).any()


def test_it_falls_as_the_root_of_thrust():
    """T/v_h = √(2ρA T): a quarter of the thrust has half of the moment, down to none"""
    for n in range(0, 40, 5):
        half_moment, full_moment = (rotor_moment((2.0, 1.0, 0.0), thrust=ROTOR_WEIGHT * 4.0**-k) for k in (n + 1, n))
        assert half_moment == pytest.approx(0.5 * full_moment, rel=1e-12)


def test_it_falls_with_climb():
    """v_h exactly at V_c = 0, momentum theory's V_c + v within 9 % in any climb, and in a descent never more than double"""
    assert wake_speed(HOVER_INDUCED, 0.0) == HOVER_INDUCED
    level = np.linalg.norm(rotor_moment((2.0, 1.0, 0.0)))
    sizes = np.array(
        [np.linalg.norm(rotor_moment((2.0, 1.0, 0.0), climb)) for climb in np.linspace(-200.0, 200.0, 401)]
    )
    assert (np.diff(sizes) < 0.0).all()
    assert sizes[0] == pytest.approx(2.0 * level, rel=0.02) and sizes[0] < 2.0 * level
    for climb in np.linspace(0.0, 30.0, 61):
        through = climb + induced_velocity(ROTOR_WEIGHT, climb, 0.0, RHO, ROTOR.radius)
        assert wake_speed(HOVER_INDUCED, climb) == pytest.approx(through, rel=0.09)


@given(across=st.tuples(speeds, speeds), climb=speeds, turn=turns)
def test_with_equal_coefficients_it_turns_with_the_axes(across, climb, turn):
    """Rotating rotor, position and flow together rotates the moment: the law has no preferred axes"""
    rotated = Rotation.from_euler("xyz", turn)
    tilted = ROTOR._replace(
        r_B=Vec3(*rotated.apply(np.array(ROTOR.r_B))), axis_B=Vec3(*rotated.apply(np.array(ROTOR.axis_B)))
    )
    moment = rotor_moment(rotated.apply([*across, 0.0]), climb, EQUAL, tilted)
    assert moment == pytest.approx(rotated.apply(rotor_moment((*across, 0.0), climb, EQUAL)), rel=1e-9, abs=1e-16)


@given(u=st.tuples(speeds, speeds, speeds), axis=turns)
def test_it_has_no_part_about_the_rotors_axis(u, axis):
    """For upright and tilted rotors, with equal and unequal coefficients"""
    a = Rotation.from_euler("xyz", axis).apply([0.0, 0.0, 1.0])
    across = np.array(u) - np.dot(u, a) * a
    tau = rotor_moment(across, 0.5, UNEQUAL, ROTOR._replace(axis_B=Vec3(*a)))
    assert abs(np.dot(tau, a)) <= 1e-15 * max(1.0, float(np.abs(tau).max()))


def test_in_a_mirror_roll_and_yaw_change_sides_and_pitch_does_not():
    """y → −y with reversed spin directions, which do not matter to this moment"""
    right, left = (rotor_moment((1.0, side, 0.0), 0.3, rotor=ROTOR._replace(spin=side)) for side in (-1.0, 1.0))
    assert right == pytest.approx(left * [-1.0, 1.0, 1.0], rel=1e-14)


def test_a_rolling_body_moves_its_hubs_through_the_air():
    """ω × r lies along an upright rotor's axis when it rolls, and across when it yaws: then the four cancel"""
    vehicle = moment_vehicle(0.15, 0.15)
    assert airspeed_torque(vehicle, omega_B=Vec3(0.0, 0.0, 5.0)) == pytest.approx([0.0, 0.0, 0.0], abs=1e-18)
    steady = airspeed_torque(vehicle, (3.0, 0.0, 0.0))
    rolling = airspeed_torque(vehicle, (3.0, 0.0, 0.0), omega_B=Vec3(10.0, 0.0, 0.0))
    assert rolling[1] == pytest.approx(steady[1], rel=0.02)


def test_thinner_air_has_less_of_it_at_the_same_thrust():
    """v_h = √(T/2ρA): a quarter of the density doubles it"""
    flow = HubFlow(0.0, Vec3(1.0, 0.0, 0.0))
    thin, thick = (np.array(airspeed_moment(ROTOR_WEIGHT, flow, ROTOR, rho, moment=EQUAL)) for rho in (0.25 * RHO, RHO))
    assert thin == pytest.approx(0.5 * thick, rel=1e-12)


def test_body_axes_are_the_vehicles_own():
    """In wind from the world's east the torque is that of the airspeed in body axes, whatever the attitude"""
    vehicle, q_WB = moment_vehicle(0.15, 0.15), quat_from_euler(0.2, -0.3, 1.1)
    v_B = rotation(q_WB).inv().apply([-4.0, 0.0, 0.0])
    torque = airspeed_torque(vehicle, wind_W=(4.0, 0.0, 0.0), q_WB=q_WB)
    share = rotor_moment((v_B[0], v_B[1], 0.0), v_B[2], EQUAL, thrust=vehicle.mass * 9.80665 / 4.0)
    assert torque == pytest.approx(4.0 * share, rel=1e-9)


EVERYTHING = {
    "airspeed_moment": {"roll": 0.11, "pitch": 0.17},
    "rotor_drag": {"coefficient": 1e-6, "axial": 2e-6},
    "thrust_curve": {"linear": 0.2},
    "thrust_scale": {"per_volt": 0.09, "reference": 4.0},
    "battery": True,
    "drag": {"frame": "body", "linear": [0.01, 0.01, 0.01], "isotropic": 0.003},
}
VARIED = (
    *("airspeed_moment.roll", "airspeed_moment.pitch", "rotor_drag.axial", "thrust_curve.linear"),
    *("thrust_scale.per_volt", "drag.isotropic"),
)


def test_a_file_keeps_all_of_these_numbers():
    vehicle = with_effects(BARE, EVERYTHING)
    assert parse_vehicle(vehicle_toml(vehicle), "mine.toml") == vehicle


@pytest.mark.parametrize("backend", ["llvm", pytest.param("jax", marks=pytest.mark.long)])
def test_compiled_equals_written_and_the_numbers_are_inputs(backend):
    """Parameters that identification varies, constant and as inputs: the same step, and another one with other parameters"""
    vehicle = with_effects(BARE, EVERYTHING)
    state, command = samara.hover(vehicle)
    state = state._replace(v_W=Vec3(2.0, -1.0, 0.5), omega_B=Vec3(0.4, -0.3, 0.2))
    written = flatten(samara.step(state, command, vehicle, 1e-3, "euler"))
    other = vehicle.replace({path: 0.5 * parameter(vehicle, path) for path in VARIED})
    given_numbers = samara.compile(vehicle, backend=backend, integrator="euler", vary=VARIED)
    for flown_vehicle, stepped in (
        (vehicle, samara.compile(vehicle, backend=backend, integrator="euler").step(state, command, 1e-3)),
        (vehicle, given_numbers.step(state, command, 1e-3, vehicle=vehicle)),
        (other, given_numbers.step(state, command, 1e-3, vehicle=other)),
    ):
        expected = flatten(samara.step(state, command, flown_vehicle, 1e-3, "euler"))
        assert flatten(stepped) == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert np.abs(np.subtract(expected, written)).max() > 1e-6
