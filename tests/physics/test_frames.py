"""Laws of frames: vectors, attitudes and positions on the Earth are the same in every frame."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.traced_flights import rotation

import samara
from samara import State, Wrench
from samara.core.algebra import (
    EAST,
    IDENTITY,
    Euler,
    Mat3,
    Quat,
    Vec3,
    cross,
    dot,
    quat_from_euler,
    rotate,
)
from samara.physics.frames import (
    Geodetic,
    altitude_from_ned,
    attitude_enu_flu_from_ned_frd,
    attitude_ned_frd_from_enu_flu,
    attitude_ned_frd_from_nwu_flu,
    attitude_nwu_flu_from_ned_frd,
    earth_from_geodetic,
    enu_from_geodetic,
    enu_from_ned,
    euler_enu_from_ned,
    euler_ned_from_enu,
    flu_from_frd,
    frd_from_flu,
    geodetic_from_earth,
    geodetic_from_enu,
    ned_from_enu,
    ned_from_nwu,
    nwu_from_ned,
    state_enu_flu_from_ned_frd,
    state_ned_frd_from_enu_flu,
    state_ned_frd_from_nwu_flu,
    state_nwu_flu_from_ned_frd,
    wind_enu_from_direction,
    wind_ned_from_direction,
    wrench_enu_flu_from_ned_frd,
    wrench_ned_frd_from_enu_flu,
    yaw_enu_from_ned,
    yaw_from_quat,
    yaw_ned_from_enu,
    yaw_ned_from_nwu,
    yaw_nwu_from_ned,
)
from samara.physics.motion.body import angular_acceleration, translational_acceleration
from samara.physics.multirotor import derivative, wrench_breakdown

law = settings(deadline=None, derandomize=True)
EPS = float(np.finfo(float).eps)

number = st.floats(-100.0, 100.0, allow_subnormal=False).map(lambda x: x if abs(x) > 1e-100 else 0.0)  # no underflow
vectors = st.builds(Vec3, number, number, number)
angles = st.floats(-math.pi, math.pi)
attitudes = st.builds(quat_from_euler, angles, st.floats(-math.pi / 2, math.pi / 2), angles)
states = st.builds(
    State, vectors, vectors, attitudes, vectors, st.just((1.0, 2.0, 3.0, 4.0)), st.just((Vec3(5.0, 6.0, 7.0),))
)

# A frame is defined by the names of its axes: every map below is derived from them.
ENU, NED, NWU = ("east", "north", "up"), ("north", "east", "down"), ("north", "west", "up")
FLU, FRD = ("forward", "left", "up"), ("forward", "right", "down")
OPPOSITE = {"west": "east", "down": "up", "right": "left"}
VECTOR_MAPS = [
    (ned_from_enu, ENU, NED, enu_from_ned),
    (enu_from_ned, NED, ENU, ned_from_enu),
    (ned_from_nwu, NWU, NED, nwu_from_ned),
    (nwu_from_ned, NED, NWU, ned_from_nwu),
    (frd_from_flu, FLU, FRD, flu_from_frd),
    (flu_from_frd, FRD, FLU, frd_from_flu),
]
every_map = pytest.mark.parametrize(
    ("convert", "source", "target", "back"), VECTOR_MAPS, ids=[convert.__name__ for convert, *_ in VECTOR_MAPS]
)


def axis(name: str) -> dict[str, float]:
    return {OPPOSITE[name]: -1.0} if name in OPPOSITE else {name: 1.0}


def matrix_by_names(source: tuple[str, ...], target: tuple[str, ...]) -> np.ndarray:
    """Rᵢⱼ = target axis i · source axis j"""
    return np.array([[sum(axis(i).get(k, 0.0) * c for k, c in axis(j).items()) for j in source] for i in target])


def distance(actual, expected) -> float:
    return float(np.abs(np.asarray(actual, dtype=float) - np.asarray(expected, dtype=float)).max())


def same_turn(a: Quat, b: Quat) -> float:
    """The largest difference of two quaternions, irrespective of their common sign."""
    return min(distance(a, b), distance(a, -b))


# Vectors -----------------------------------------------------------------------------------------------------------


@every_map
def test_vector_maps_follow_from_the_names_of_the_axes_and_are_rotations(convert, source, target, back):
    """Column j is the source's axis j along the target's axes; the determinant is +1: no lone flip of z (000)."""
    columns = np.array([convert(Vec3(*e)) for e in np.eye(3)]).T
    assert (columns == matrix_by_names(source, target)).all()
    assert np.linalg.det(columns) == 1.0


@every_map
@law
@given(v=vectors)
def test_vectors_come_back_to_the_last_bit(convert, source, target, back, v):
    """Converting there and back changes no bit."""
    assert back(convert(v)) == v


@every_map
@law
@given(a=vectors, b=vectors)
def test_vector_maps_keep_dot_and_cross_products(convert, source, target, back, a, b):
    """A rotation keeps lengths, angles and handedness, so torques and rates convert as vectors do."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    assert abs(dot(convert(a), convert(b)) - dot(a, b)) <= 2 * EPS * size
    assert convert(cross(a, b)) == cross(convert(a), convert(b))


# Attitudes ---------------------------------------------------------------------------------------------------------

ATTITUDE_MAPS = [
    (attitude_ned_frd_from_enu_flu, attitude_enu_flu_from_ned_frd, ned_from_enu, frd_from_flu),
    (attitude_enu_flu_from_ned_frd, attitude_ned_frd_from_enu_flu, enu_from_ned, flu_from_frd),
    (attitude_ned_frd_from_nwu_flu, attitude_nwu_flu_from_ned_frd, ned_from_nwu, frd_from_flu),
    (attitude_nwu_flu_from_ned_frd, attitude_ned_frd_from_nwu_flu, nwu_from_ned, flu_from_frd),
]
every_attitude_map = pytest.mark.parametrize(
    ("convert", "back", "world", "body"), ATTITUDE_MAPS, ids=[convert.__name__ for convert, *_ in ATTITUDE_MAPS]
)


@every_attitude_map
@law
@given(q_WB=attitudes, v_B=vectors)
def test_rotating_then_converting_is_converting_then_rotating(convert, back, world, body, q_WB, v_B):
    """world(q v) = q' body(v): the quaternion map and the vector maps relate the same two frames."""
    actual, expected = rotate(convert(q_WB), body(v_B)), world(rotate(q_WB, v_B))
    assert distance(actual, expected) <= 8 * EPS * np.linalg.norm(v_B)


@every_attitude_map
@law
@given(q_WB=attitudes)
def test_attitudes_come_back_with_their_sign(convert, back, world, body, q_WB):
    """Converting back gives q, not −q; to the rounding of √½ for ENU, exactly for NWU."""
    exact = world in (ned_from_nwu, nwu_from_ned)
    assert distance(back(convert(q_WB)), q_WB) <= (0.0 if exact else 2 * EPS)


def test_level_and_facing_east_is_yaw_90_degrees_in_ned():
    """The identity of ENU/FLU has its nose to the east and its belly down: q_NED,FRD = ±(√½, 0, 0, √½)."""
    q_ned_frd = attitude_ned_frd_from_enu_flu(IDENTITY)
    half = math.sqrt(0.5)
    assert same_turn(q_ned_frd, Quat(half, 0.0, 0.0, half)) <= EPS
    assert math.degrees(yaw_from_quat(q_ned_frd)) == pytest.approx(90.0, rel=2 * EPS)
    assert attitude_ned_frd_from_nwu_flu(IDENTITY) == -IDENTITY  # NWU/FLU: level and facing north in both


@law
@given(roll=angles, pitch=st.floats(-1.57, 1.57), yaw=angles)
def test_euler_angles_roll_same_pitch_negated_yaw_from_90_degrees(roll, pitch, yaw):
    """φ, −θ, 90° − ψ, by SciPy's angles of the converted rotation; and the map is its own inverse."""
    converted = euler_ned_from_enu(Euler(roll, pitch, yaw))
    turn = Rotation.from_matrix(matrix_by_names(ENU, NED)) * Rotation.from_euler("ZYX", [yaw, pitch, roll])
    expected = turn * Rotation.from_matrix(matrix_by_names(FRD, FLU))
    actual = Rotation.from_euler("ZYX", [converted.yaw, converted.pitch, converted.roll])
    assert (actual * expected.inv()).magnitude() <= 1e-15
    assert rotation(attitude_ned_frd_from_enu_flu(quat_from_euler(roll, pitch, yaw))).approx_equal(expected, atol=2e-15)
    assert (converted.roll, converted.pitch) == (roll, -pitch)
    assert abs(math.remainder(euler_enu_from_ned(converted).yaw - yaw, 2.0 * math.pi)) <= 4 * EPS


@law
@given(yaw=angles)
def test_yaw_is_where_the_nose_points_in_each_world(yaw):
    """ENU yaw is counter-clockwise from east, NED clockwise from north, NWU counter-clockwise from north."""
    east, north = math.cos(yaw), math.sin(yaw)  # of the nose
    for actual, expected in (
        (yaw_ned_from_enu(yaw), math.atan2(east, north)),
        (yaw_enu_from_ned(yaw_ned_from_enu(yaw)), math.atan2(north, east)),
        (yaw_nwu_from_ned(yaw_ned_from_enu(yaw)), math.atan2(-east, north)),
        (yaw_ned_from_nwu(yaw_nwu_from_ned(yaw)), yaw),
        (yaw_from_quat(quat_from_euler(0.4, -0.9, yaw)), yaw),
        (yaw_from_quat(attitude_ned_frd_from_enu_flu(quat_from_euler(0.4, -0.9, yaw))), math.atan2(east, north)),
    ):
        assert abs(math.remainder(actual - expected, 2.0 * math.pi)) <= 8 * EPS
        assert abs(actual) <= math.pi * (1.0 + EPS)


# Whole states, wrenches, and the laws they obey --------------------------------------------------------------------

STATE_MAPS = [
    (state_ned_frd_from_enu_flu, state_enu_flu_from_ned_frd, ned_from_enu, frd_from_flu),
    (state_enu_flu_from_ned_frd, state_ned_frd_from_enu_flu, enu_from_ned, flu_from_frd),
    (state_ned_frd_from_nwu_flu, state_nwu_flu_from_ned_frd, ned_from_nwu, frd_from_flu),
    (state_nwu_flu_from_ned_frd, state_ned_frd_from_nwu_flu, nwu_from_ned, flu_from_frd),
]
every_state_map = pytest.mark.parametrize(
    ("convert", "back", "world", "body"), STATE_MAPS, ids=[convert.__name__ for convert, *_ in STATE_MAPS]
)


def place_and_velocity(state: State, r_B: Vec3) -> tuple[Vec3, Vec3]:
    """Of a point of the body: p + R r and v + R (ω × r)."""
    return state.p_W + rotate(state.q_WB, r_B), state.v_W + rotate(state.q_WB, cross(state.omega_B, r_B))


@every_state_map
@law
@given(state=states, r_B=vectors)
def test_every_point_of_the_body_keeps_its_place_and_velocity(convert, back, world, body, state, r_B):
    """A converted state describes the same motion: each of its points has the same position and velocity."""
    expected = [world(vector) for vector in place_and_velocity(state, r_B)]
    actual = place_and_velocity(convert(state), body(r_B))
    size = 1.0 + np.linalg.norm(r_B) * (1.0 + np.linalg.norm(state.omega_B)) + np.linalg.norm((state.p_W, state.v_W))
    assert distance(actual, expected) <= 8 * EPS * size


@every_state_map
@law
@given(state=states)
def test_states_come_back_and_keep_what_has_no_axes(convert, back, world, body, state):
    """Converting back gives the same state; rotor speeds and effects have no axes and stay."""
    converted = convert(state)
    assert (converted.rotor_speed, converted.effects) == (state.rotor_speed, state.effects)
    again = back(converted)
    assert again._replace(q_WB=state.q_WB) == state
    assert distance(again.q_WB, state.q_WB) <= 2 * EPS


@law
@given(state=states, f_B=vectors, tau_B=vectors, f_W=vectors)
def test_the_power_of_a_wrench_is_the_same_number_in_either_frame(state, f_B, tau_B, f_W):
    """P = (R f_B + f_W)·v + τ·ω is the same in every frame."""

    def power(wrench: Wrench, state: State) -> float:
        return dot(rotate(state.q_WB, wrench.f_B) + wrench.f_W, state.v_W) + dot(wrench.tau_B, state.omega_B)

    wrench = Wrench(f_B, tau_B, f_W)
    actual = power(wrench_ned_frd_from_enu_flu(wrench), state_ned_frd_from_enu_flu(state))
    size = sum(np.linalg.norm(a) * np.linalg.norm(b) for a in wrench for b in (state.v_W, state.omega_B))
    assert abs(actual - power(wrench, state)) <= 8 * EPS * size
    assert wrench_enu_flu_from_ned_frd(wrench_ned_frd_from_enu_flu(wrench)) == wrench


@law
@given(state=states, f_B=vectors, tau_B=vectors, f_W=vectors)
def test_newton_s_and_euler_s_equations_read_the_same_in_ned_frd(state, f_B, tau_B, f_W):
    """The same functions, with NED/FRD arguments, give the NED/FRD accelerations: both worlds are right-handed."""
    J = np.array([[0.012, 0.001, -0.002], [0.001, 0.017, 0.0015], [-0.002, 0.0015, 0.021]])
    S = matrix_by_names(FLU, FRD)
    other, wrench = state_ned_frd_from_enu_flu(state), wrench_ned_frd_from_enu_flu(Wrench(f_B, tau_B, f_W))
    a_W = translational_acceleration(state.q_WB, f_B, f_W, mass=1.3)
    actual = translational_acceleration(other.q_WB, wrench.f_B, wrench.f_W, mass=1.3)
    assert distance(actual, ned_from_enu(a_W)) <= 8 * EPS * (np.linalg.norm(f_B) + np.linalg.norm(f_W))
    alpha_B = angular_acceleration(state.omega_B, tau_B, inertia_B=Mat3(*J.ravel()))
    actual = angular_acceleration(other.omega_B, wrench.tau_B, inertia_B=Mat3(*(S @ J @ S.T).ravel()))
    assert distance(actual, frd_from_flu(alpha_B)) <= 1e-12 * (1.0 + np.linalg.norm(alpha_B))


# The NED simulator's quick sanity checks -----------------------------------------------------------------------------


def test_ned_simulator_check_1_hover_thrust_is_upward_in_ned():
    """Level, q_bn = identity, rotor axis (0, 0, 1) in FRD: F_body.z < 0 and F_ned.z < 0, equal to the weight."""
    iris = samara.vehicle("iris_documented")
    state, command = samara.hover(iris)
    q_enu_flu = attitude_enu_flu_from_ned_frd(IDENTITY)
    state = state._replace(q_WB=q_enu_flu)
    thrust = wrench_ned_frd_from_enu_flu(wrench_breakdown(state, command, iris)["rotors"])
    f_ned = rotate(state_ned_frd_from_enu_flu(state).q_WB, thrust.f_B)
    assert thrust.f_B.z < 0.0
    assert distance(f_ned, (0.0, 0.0, -1.5 * 9.80665)) <= 1e-13
    assert all(frd_from_flu(-rotor.axis_B) == (0.0, 0.0, 1.0) for rotor in iris.rotors)  # 003's axis_b is −axis_B


def test_ned_simulator_check_2_air_moving_north_pushes_north():
    """wind_ned = (5, 0, 0) on a resting vehicle: v̇ = (d/m) 5 m/s² northwards, d = 0.05 N·s/m, m = 1.5 kg."""
    iris = samara.vehicle("iris_documented")
    state, command = samara.hover(iris)
    air = samara.CALM._replace(wind_W=enu_from_ned(Vec3(5.0, 0.0, 0.0)))
    calm = derivative(state, command, iris).v_W
    push = ned_from_enu(derivative(state, command, iris, air).v_W - calm)
    assert push.x == pytest.approx(0.05 / 1.5 * 5.0, rel=1e-15)
    assert push.y == 0.0


def test_ned_simulator_check_3_ten_metres_down_is_ten_metres_lower():
    """alt_msl = origin.alt_msl − pos_ned[3], and the ellipsoid agrees."""
    assert altitude_from_ned(Vec3(3.0, 4.0, 10.0), 488.0) == 478.0
    home = Geodetic(math.radians(47.397742), math.radians(8.545594), 488.0)
    assert geodetic_from_enu(enu_from_ned(Vec3(0.0, 0.0, 10.0)), home).altitude == pytest.approx(478.0, abs=5e-9)


def test_ned_simulator_check_4_yaw_90_degrees_aligns_the_nose_with_east():
    """In NED; in ENU the same attitude is the identity."""
    q_ned_frd = quat_from_euler(0.0, 0.0, math.pi / 2)
    assert distance(rotate(q_ned_frd, Vec3(1.0, 0.0, 0.0)), (0.0, 1.0, 0.0)) <= 2 * EPS
    assert same_turn(attitude_enu_flu_from_ned_frd(q_ned_frd), IDENTITY) <= 2 * EPS
    assert distance(rotate(attitude_enu_flu_from_ned_frd(q_ned_frd), EAST), EAST) <= 2 * EPS


@law
@given(speed=st.floats(0.0, 40.0), degrees=st.floats(0.0, 360.0))
def test_wind_blows_away_from_its_origin(speed, degrees):
    """A wind "from ψ" carries a balloon towards ψ + 180°: a compass bearing, by complex numbers (north + i east)."""
    towards = speed * np.exp(1j * math.radians(degrees + 180.0))
    expected_ned = (towards.real, towards.imag, 0.0)
    w_ned = wind_ned_from_direction(speed, math.radians(degrees))
    w_enu = wind_enu_from_direction(speed, math.radians(degrees))
    assert distance(w_ned, expected_ned) <= 16 * EPS * speed
    assert enu_from_ned(w_ned) == w_enu


@pytest.mark.parametrize(
    ("degrees", "towards_enu"), [(0, (0, -7, 0)), (90, (-7, 0, 0)), (180, (0, 7, 0)), (270, (7, 0, 0))]
)
def test_north_wind_blows_south_and_east_wind_blows_west(degrees, towards_enu):
    """The four winds, in east and north."""
    assert distance(wind_enu_from_direction(7.0, math.radians(degrees)), towards_enu) <= 16 * EPS


# The Earth ---------------------------------------------------------------------------------------------------------


def degrees(full_degrees: int, minutes: int, seconds: float) -> float:
    return math.radians(full_degrees + minutes / 60 + seconds / 3600)


def test_earth_centred_coordinates_of_the_published_example():
    """EPSG guidance note 7-2, method 9602: 53°48'33.820"N 2°07'46.380"E 73.0 m, given to the millimetre."""
    place = Geodetic(degrees(53, 48, 33.820), degrees(2, 7, 46.380), 73.0)
    published = (3771793.968, 140253.342, 5124304.349)
    assert distance(earth_from_geodetic(place), published) <= 5e-4
    back = geodetic_from_earth(Vec3(*published))
    assert abs(back.latitude - place.latitude) * 6.4e6 <= 1e-3
    assert abs(back.longitude - place.longitude) * 6.4e6 * math.cos(place.latitude) <= 1e-3
    assert abs(back.altitude - place.altitude) <= 1e-3


def test_local_coordinates_of_the_published_example():
    """EPSG guidance note 7-2, method 9837: the same place in the tangent plane at 55°N 5°E 200 m, to the millimetre."""
    origin = Geodetic(math.radians(55.0), math.radians(5.0), 200.0)
    place = Geodetic(degrees(53, 48, 33.820), degrees(2, 7, 46.380), 73.0)
    assert distance(enu_from_geodetic(place, origin), (-189013.869, -128642.040, -4220.171)) <= 5e-4


def test_geodetic_coordinates_come_back_to_nanometres_over_the_globe():
    """From pole to pole, −1 to 10 km high; one ulp of the Earth's radius is 0.9 nm."""
    rng = np.random.default_rng(1)
    latitude = np.concatenate([np.arcsin(rng.uniform(-1, 1, 100_000)), [math.pi / 2, -math.pi / 2, 0.0, 1e-9]])
    longitude = np.concatenate([rng.uniform(-math.pi, math.pi, 100_000), [1.0, -2.0, 0.0, math.pi]])
    altitude = rng.uniform(-1e3, 1e4, latitude.size)
    back = geodetic_from_earth(earth_from_geodetic(Geodetic(latitude, longitude, altitude)))
    longitude_error = np.angle(np.exp(1j * (back.longitude - longitude)))
    assert np.abs(back.latitude - latitude).max() * 6.4e6 <= 5e-9
    assert np.abs(longitude_error * np.cos(latitude)).max() * 6.4e6 <= 5e-9
    assert np.abs(back.altitude - altitude).max() <= 6e-9


def test_local_coordinates_come_back_to_nanometres():
    """ENU within 5 km of any position → latitude, longitude, altitude → ENU."""
    rng = np.random.default_rng(2)
    origin = Geodetic(
        np.arcsin(rng.uniform(-1, 1, 20_000)), rng.uniform(-3, 3, 20_000), rng.uniform(-100, 9000, 20_000)
    )
    p_enu = Vec3(*rng.uniform(-5000, 5000, size=(3, 20_000)))
    assert distance(enu_from_geodetic(geodetic_from_enu(p_enu, origin), origin), p_enu) <= 1e-8


def test_a_short_walk_follows_the_radii_of_curvature():
    """dN = (M + h) dφ, dE = (N + h) cos φ dλ with M = a(1−e²)/(1−e² sin²φ)^{3/2}, N = a/√(1−e² sin²φ): textbook radii.

    The tangent plane departs from the Earth by d²/2R upwards and d² tan φ/2R sideways; both are subtracted.
    """
    a, e2 = 6378137.0, 0.0066943799901413165  # WGS 84, e² as published (NGA.STND.0036)
    phi, lam, h = math.radians(47.397742), math.radians(8.545594), 488.0  # the NED simulator's home
    W2 = 1.0 - e2 * math.sin(phi) ** 2
    M, N = a * (1.0 - e2) / W2**1.5, a / math.sqrt(W2)
    d = 1e-5  # 64 m: third-order terms are d³R ≈ 6 nm
    north = enu_from_geodetic(Geodetic(phi + d, lam, h), Geodetic(phi, lam, h))
    east = enu_from_geodetic(Geodetic(phi, lam + d, h), Geodetic(phi, lam, h))
    up = enu_from_geodetic(Geodetic(phi, lam, h + 12.5), Geodetic(phi, lam, h))
    parallel = (N + h) * math.cos(phi)
    # dM/dφ = 3 M e² sin φ cos φ / W²: the meridian arc lengthens polewards
    growth = 1.5 * M * e2 * math.sin(phi) * math.cos(phi) / W2 * d**2
    assert distance(north, (0.0, (M + h) * d + growth, -(M + h) * d**2 / 2)) <= 1e-8
    sideways, sinking = parallel * d**2 / 2 * math.sin(phi), -parallel * d**2 / 2 * math.cos(phi)
    assert distance(east, (parallel * d, sideways, sinking)) <= 1e-8
    assert distance(up, (0.0, 0.0, 12.5)) <= 5e-9


def test_home_is_the_origin_of_its_own_frame():
    """The NED simulator's home, 47.397742°N 8.545594°E 488 m: 0 at home, and 100 m NED is recovered as 100 m."""
    home = Geodetic(math.radians(47.397742), math.radians(8.545594), 488.0)
    assert enu_from_geodetic(home, home) == (0.0, 0.0, 0.0)
    p_ned = Vec3(100.0, -100.0, -20.0)
    position = geodetic_from_enu(enu_from_ned(p_ned), home)
    assert distance(ned_from_enu(enu_from_geodetic(position, home)), p_ned) <= 5e-9
    assert position.latitude > home.latitude and position.longitude < home.longitude
    # the Earth falls away from the tangent plane by d²/2R
    assert position.altitude - altitude_from_ned(p_ned, 488.0) == pytest.approx(2e4 / 2 / 6.38e6, rel=0.01)


@pytest.mark.parametrize("convert", [ned_from_enu, enu_from_ned, frd_from_flu, flu_from_frd])
def test_vector_maps_take_lists_and_arrays_with_the_components_first(convert):
    expected = convert(Vec3(1.0, 2.0, 3.0))
    assert convert([1.0, 2.0, 3.0]) == convert((1.0, 2.0, 3.0)) == expected
    assert convert(np.array([1.0, 2.0, 3.0])) == expected
    many = convert(np.array([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]))
    assert [tuple(row) for row in np.array(many).T] == [tuple(expected), tuple(-expected)]
    for wrong in (np.zeros((5, 3)), [1.0, 2.0], 3.0):
        with pytest.raises(ValueError, match=r"expected a Vec3, or three components"):
            convert(wrong)
