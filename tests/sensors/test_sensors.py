"""Sensors: readings are the true values at their mounting, with the errors of their data sheets and no others."""

import math
from dataclasses import replace

import casadi
import numpy as np
import pytest
from support.stage_runs import StageRun

import samara
from samara.core.algebra import UP, Vec3, conjugate, quat_exp, quat_from_euler, quat_log, rotate
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.air.atmosphere import air_pressure
from samara.physics.frames import earth_from_geodetic, enu_from_geodetic
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.types import CALM
from samara.scenario.timeline import sampling
from samara.sensors import error_models, part, part_names, site_from_degrees
from samara.sensors.error_models import ALLAN_FLOOR, ALLAN_PEAK, ALLAN_PEAK_TIME_RATIO, drift_sigma, quantise
from samara.sensors.imu import ideal_part
from samara.sensors.registry import PartError, parse_part
from samara.sensors.sensor import IMU, Sensor
from samara.sensors.site import HOME, magnetic_field
from samara.sim.python_sensors import SensorsStage
from samara.vehicles.trim import hover
from samara.world.obstacles import Ray, ray_distance

IRIS = samara.vehicle("iris_documented")
MANY = 40_000
FOUR_STANDARD_ERRORS = 4.0 / math.sqrt(2.0 * MANY)  # four standard errors of a standard deviation, relative
DOWN = quat_from_euler(0.0, math.pi / 2, 0.0)  # turns the sensor's x axis to the body's −z


def flying(seed=0):
    """A state in full motion, rotors turning."""
    rng = np.random.default_rng(seed)
    state, command = hover(IRIS)
    v, w, p = (Vec3(*rng.uniform(-2.0, 2.0, 3).tolist()) for _ in range(3))
    q = quat_from_euler(*rng.uniform(-0.5, 0.5, 3).tolist())
    return state._replace(p_W=p + UP * 6.0, v_W=v, omega_B=w, q_WB=q), tuple(u * 1.1 for u in command)


def read_once(sensor, state=None, command=None, *, environment=CALM, draws=None, memory=None, dt=None, vehicle=IRIS):
    """One reading, without noise unless draws are given."""
    at_hover, trim = hover(vehicle)
    draws = draws if draws is not None else (0.0,) * sensor.normals_needed
    inputs = (state or at_hover, command or trim, vehicle, environment, draws)
    if sensor.initial is None:
        return sensor.measure(*inputs)
    if memory is None:
        memory = sensor.initial(vehicle, (0.0,) * sensor.start_normals)
    return sensor.measure(*inputs, memory, dt or 1.0 / sensor.rate)[0]


def read_population(sensor, **more):
    """40 000 readings of as many drones, each with a different part."""
    n = np.arange(MANY)
    start = normals(7, "start", n, 0, sensor.start_normals).T
    memory = sensor.initial(IRIS, start) if sensor.initial else None
    return read_once(sensor, draws=normals(7, "sample", n, 0, sensor.normals_needed).T, memory=memory, **more)


def spread(samples):
    return float(np.std(samples))


def noiseless_part(name, **more):
    """A part whose random numbers are all 0."""
    base_part = part(name)
    kinds = ("noise", "wander", "drift", "gain", "offset", "iron", "resolution")
    zeros = {key: 0.0 for key in base_part.parameters._fields if key.endswith(kinds)}
    return base_part._replace(parameters=base_part.parameters._replace(**zeros, **more))


# Inertial -----------------------------------------------------------------------------------------------------------


def test_at_rest_an_accelerometer_reads_g_upwards_and_in_free_fall_nothing():
    imu = perfect_imu()
    g = IRIS["gravity"].acceleration
    assert flatten(read_once(imu)) == pytest.approx([0.0, 0.0, g, 0.0, 0.0, 0.0], abs=1e-9)
    falling = IRIS.without_effect("drag")
    still = state_at_rest(falling, Vec3(0.0, 0.0, 50.0))
    assert flatten(read_once(imu, still, (0.0,) * 4, vehicle=falling)) == pytest.approx([0.0] * 6, abs=1e-12)


def perfect_imu(**mounting):
    imu_part = part("bmi088")
    return imu_part._replace(parameters=ideal_part(imu_part.parameters)).sensor(**mounting)


def test_at_a_lever_arm_in_steady_spin_it_reads_the_centripetal_acceleration():
    """ω² r towards the axis, at any mounting; free of forces the centre reads 0."""
    free = IRIS.without_effect("drag", "damping", "gravity", "contact")
    omega, r = 3.0, Vec3(0.3, -0.4, 0.1)
    spinning = state_at_rest(free)._replace(omega_B=Vec3(0.0, 0.0, omega))
    reading = read_once(perfect_imu(r_B=r), spinning, (0.0,) * 4, vehicle=free)
    assert tuple(reading.specific_force_B) == pytest.approx((-(omega**2) * r.x, -(omega**2) * r.y, 0.0), abs=1e-12)


def test_at_a_lever_arm_it_reads_the_second_derivative_of_its_own_path():
    """Independent: the sensor's position along the motion, differentiated twice, minus gravity, in body axes."""
    state, command = flying()
    r, h = Vec3(0.11, -0.07, 0.05), 1e-4
    reading = read_once(perfect_imu(r_B=r), state, command)
    rate = derivative(state, command, IRIS)

    def sensor_position(t):
        p = np.array(state.p_W) + t * np.array(state.v_W) + 0.5 * t * t * np.array(rate.v_W)
        turn = quat_exp(state.omega_B * t + rate.omega_B * (0.5 * t * t))
        return p + np.array(rotate(state.q_WB * turn, r))

    acceleration = (sensor_position(h) - 2.0 * sensor_position(0.0) + sensor_position(-h)) / h**2
    g = np.array([0.0, 0.0, -IRIS["gravity"].acceleration])
    expected = rotate(conjugate(state.q_WB), Vec3(*(acceleration - g)))
    assert tuple(reading.specific_force_B) == pytest.approx(tuple(expected), abs=1e-5)


def test_an_imu_that_is_turned_says_the_same_in_its_own_axes():
    state, command = flying()
    q_BS = quat_from_euler(0.2, -0.4, 2.0)
    straight, rotated = read_once(perfect_imu(), state, command), read_once(perfect_imu(q_BS=q_BS), state, command)
    for value, rotated_value in zip(straight, rotated, strict=True):
        assert tuple(rotate(q_BS, rotated_value)) == pytest.approx(tuple(value), abs=1e-12)


def test_the_noise_of_a_sample_is_the_density_over_the_root_of_its_time():
    """σ = N/√dt, at two rates; the axes are independent."""
    imu_part = part(
        "bmi088", calibration_residual=0.0, gyroscope={"bias_instability": 0.0}, accelerometer={"bias_instability": 0.0}
    )
    for dt in (0.004, 0.001):
        reading = read_population(imu_part.sensor(), dt=dt)
        for triad, samples in (
            (imu_part.parameters.accelerometer, reading.specific_force_B),
            (imu_part.parameters.gyroscope, reading.omega_B),
        ):
            for density, axis in zip(triad.noise_density, samples, strict=True):
                steps = triad.resolution / math.sqrt(12.0)
                assert spread(axis) == pytest.approx(
                    math.hypot(density / math.sqrt(dt), steps), rel=FOUR_STANDARD_ERRORS
                )
    everything = np.stack(flatten(reading))
    assert np.abs(np.corrcoef(everything) - np.eye(6)).max() < 4.5 / math.sqrt(MANY)


def test_turn_on_bias_scale_and_misalignment_differ_from_part_to_part():
    """b, S f and m × f at f = (0, 0, g): the spread of the z axis is √(b² + S²g²), of the others √(b² + m²g²)."""
    still = {"noise_density": 0.0, "bias_instability": 0.0, "resolution": 0.0}
    imu_part = part("bmi088", calibration_residual=1.0, accelerometer=still, gyroscope=still)
    f = read_population(imu_part.sensor()).specific_force_B
    a, g = imu_part.parameters.accelerometer, IRIS["gravity"].acceleration
    across, along = math.hypot(a.turn_on_bias, a.misalignment * g), math.hypot(a.turn_on_bias, a.scale_error * g)
    assert [spread(axis) for axis in f] == pytest.approx([across, across, along], rel=FOUR_STANDARD_ERRORS)


def test_readings_saturate_and_come_in_steps():
    imu_part = part("bmi088", calibration_residual=0.0)
    fast = hover(IRIS)[0]._replace(omega_B=Vec3(50.0, -50.0, 1.0))
    full = imu_part.parameters.gyroscope.full_scale
    omega = read_once(imu_part.sensor(), fast).omega_B
    step = imu_part.parameters.gyroscope.resolution
    assert (omega.x, omega.y) == pytest.approx((full, -full), abs=step)
    assert omega.z == step * round(1.0 / step)
    assert quantise(0.26, 0.1) == pytest.approx(0.3)
    assert quantise(-0.26, 0.1) == pytest.approx(-0.3)


def test_an_unbalanced_rotor_shakes_at_its_speed_with_its_force():
    """|a| = U Ω²/m in the rotors' plane; sampled finely, the spectrum's line is at Ω."""
    imu_part = part("bmi088", imbalance=1e-6)
    sensor = imu_part._replace(parameters=ideal_part(imu_part.parameters)._replace(imbalance=1e-6)).sensor()
    state, command = hover(IRIS)
    one = state._replace(rotor_speed=(state.rotor_speed[0], 0.0, 0.0, 0.0))
    dt, memory, readings = 4e-4, sensor.initial(IRIS, (0.0,) * 24), []
    calm = read_once(sensor, one, command, dt=dt, memory=memory._replace(phases=())).specific_force_B
    for _ in range(512):
        reading, memory = sensor.measure(one, command, IRIS, CALM, (0.0,) * 12, memory, dt)
        readings.append(reading.specific_force_B - calm)
    shake = np.array(readings)
    speed = state.rotor_speed[0]
    assert np.hypot(shake[:, 0], shake[:, 1]) == pytest.approx(np.full(512, 1e-6 * speed**2 / IRIS.mass), rel=1e-9)
    assert np.abs(shake[:, 2]).max() < 1e-12
    line = np.abs(np.fft.rfft(shake[:, 0] * np.hanning(512))).argmax() * 2.0 * math.pi / (512 * dt)
    assert line == pytest.approx(speed, abs=2.0 * math.pi / (512 * dt))


# Allan --------------------------------------------------------------------------------------------------------------


def allan_deviation(samples, dt, m):
    """The overlapping estimate, along the first axis: σ²(τ) = ⟨(θ(t+2τ) − 2θ(t+τ) + θ(t))²⟩ / 2τ², θ = ∫ y dt, τ = m dt"""
    theta = np.concatenate([np.zeros((1, *samples.shape[1:])), np.cumsum(samples, axis=0) * dt])
    second = theta[2 * m :] - 2.0 * theta[m:-m] + theta[: -2 * m]
    return np.sqrt((second**2).mean(axis=0) / (2.0 * (m * dt) ** 2))


def readings(sensors, state, command, drones, *, seed, ticks, period_us=4000):
    """Readings of sensors on drones at rest, tick by tick: (ticks, fields, drones)"""
    run = StageRun(
        SensorsStage(),
        **{"vehicle": IRIS, "state": state, "command": command, "sensors": sensors, "drones": drones, "seed": seed},
        period_us=period_us,
    )
    return np.concatenate(run.record(ticks, *(f"{sensor.name}/reading" for sensor in sensors)), axis=1)


@pytest.fixture(scope="module")
def hour():
    """Readings of 200 BMI088 in an hour on the bench, once a second: (3600, 3, 200) of gyroscope and accelerometer."""
    still, drones, rate = {"resolution": 0.0}, 200, 1.0
    sensor = part("bmi088", rate=rate, gyroscope=still, accelerometer=still).sensor()
    rows = readings((sensor,), *hover(IRIS), range(drones), seed=5, ticks=int(3600 * rate), period_us=round(1e6 / rate))
    return {"gyroscope": rows[:, 3:], "accelerometer": rows[:, :3]}


def test_the_constants_of_the_drift_are_those_of_its_allan_deviation():
    """Of a Gauss–Markov process: σ_A²(τ) = (2 T/τ)(1 − (T/2τ)(3 − 4e^{−τ/T} + e^{−2τ/T})); flicker noise: √(2 ln 2/π)"""

    def deviation(x):
        return np.sqrt(2.0 / x * (1.0 - (3.0 - 4.0 * np.exp(-x) + np.exp(-2.0 * x)) / (2.0 * x)))

    x = np.linspace(1.0, 3.0, 200_001)
    assert deviation(x).max() == pytest.approx(ALLAN_PEAK, abs=1e-4)
    assert x[deviation(x).argmax()] == pytest.approx(ALLAN_PEAK_TIME_RATIO, abs=1e-3)
    assert pytest.approx(math.sqrt(2.0 * math.log(2.0) / math.pi), abs=1e-4) == ALLAN_FLOOR


def test_the_allan_deviation_one_can_ask_for_is_that_of_a_straight_sum(hour):
    """Means of non-overlapping halves differ by √2 σ(τ): exact without overlap, τ half of the time"""
    y = hour["gyroscope"][:, 0, 0]
    deviations = error_models.allan_deviation(y, 1.0, [1.0, 1800.0])
    assert deviations[1] == pytest.approx(abs(y[:1800].mean() - y[1800:].mean()) / math.sqrt(2.0), rel=1e-9)
    assert deviations[0] == pytest.approx(allan_deviation(y, 1.0, 1), rel=1e-9)
    with pytest.raises(ValueError, match="an averaging time is 2000 s; expected one from 1 s to 1800 s"):
        error_models.allan_deviation(y, 1.0, [2000.0])


@pytest.mark.parametrize("kind", ["gyroscope", "accelerometer"])
def test_the_allan_deviation_at_one_second_is_the_data_sheets_noise_density(hour, kind):
    """Within 5 % for every single part: an hour has 3600 pairs, good to 1.4 %; and within 0.5 % for all together."""
    triad = getattr(part("bmi088").parameters, kind)
    deviations = allan_deviation(hour[kind], 1.0, 1)
    for axis_deviations, density in zip(deviations, triad.noise_density, strict=True):
        assert axis_deviations == pytest.approx(np.full(200, density), rel=0.05)
        assert math.sqrt((axis_deviations**2).mean()) == pytest.approx(density, rel=0.005)


@pytest.mark.parametrize("kind", ["gyroscope", "accelerometer"])
def test_the_allan_deviation_at_the_bias_floor_is_the_data_sheets_bias_instability(hour, kind):
    """√((0.664 B)² + N²/τ) within 5 % where the drift peaks, τ = 1.893 T.

    An hour holds 2.5 such times of the gyroscope: one part's value is good to 40 % only. 200 parts of three axes give 1.7 %,
    so that 5 % is three standard errors; for the accelerometer, with 25 such times, ten.
    """
    triad = getattr(part("bmi088").parameters, kind)
    m = round(ALLAN_PEAK_TIME_RATIO * triad.bias_time_constant)
    deviation = math.sqrt((allan_deviation(hour[kind], 1.0, m) ** 2).mean())
    noise = sum(density**2 for density in triad.noise_density) / 3.0 / m
    floor = math.sqrt(2.0 * math.log(2.0) / math.pi) * triad.bias_instability
    assert deviation == pytest.approx(math.hypot(floor, math.sqrt(noise)), rel=0.05)
    assert math.sqrt(deviation**2 - noise) == pytest.approx(floor, rel=0.05)  # the part of the drift


# On Earth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("year", "height", "latitude", "longitude", "field"),
    [
        (2020.0, 0.0, 80.0, 0.0, (6570.4, -146.3, 54606.0)),
        (2020.0, 0.0, 0.0, 120.0, (39624.3, 109.9, -10932.5)),
        (2020.0, 0.0, -80.0, -120.0, (5940.6, 15772.1, -52480.8)),
    ],
)
def test_the_magnetic_field_is_the_world_magnetic_models(year, height, latitude, longitude, field):
    """The test values published with WMM2020: north, east, down [nT]"""
    field_W = magnetic_field(site_from_degrees(latitude, longitude, height, year))
    assert (field_W.y * 1e9, field_W.x * 1e9, -field_W.z * 1e9) == pytest.approx(field, abs=0.06)


def test_a_year_without_a_model_and_a_place_that_is_none_are_refused():
    with pytest.raises(ValueError, match="the magnetic field of the year 2040 is not known"):
        magnetic_field(site_from_degrees(0.0, 0.0, 0.0, 2040.0))
    with pytest.raises(ValueError, match=r"latitude_deg is 91.0; expected a number within \[-90, 90\]"):
        site_from_degrees(91.0, 0.0)


def test_a_magnetometer_reads_the_field_turned_into_its_axes():
    q, q_BS = quat_from_euler(0.3, 0.2, 1.0), quat_from_euler(0.0, 0.0, 0.7)
    reading = read_once(noiseless_part("bmm150").sensor(q_BS=q_BS), hover(IRIS)[0]._replace(q_WB=q))
    assert tuple(rotate(q * q_BS, reading.field_B)) == pytest.approx(tuple(magnetic_field(HOME)), abs=1e-18)


def test_iron_and_noise_spread_the_magnetometer_as_told():
    """Each axis: hard iron and noise, and soft iron times the components of the field."""
    magnetometer_part = part("bmm150", calibration_residual=1.0)
    numbers, B = magnetometer_part.parameters, magnetic_field(HOME)
    steps = numbers.resolution / math.sqrt(12.0)
    expected = math.hypot(numbers.noise, numbers.hard_iron, steps, numbers.soft_iron * math.hypot(*B))
    for axis in read_population(magnetometer_part.sensor()).field_B:
        assert spread(axis) == pytest.approx(expected, rel=FOUR_STANDARD_ERRORS)


def test_a_barometer_reads_the_standard_atmosphere_where_it_sits():
    state = hover(IRIS, Vec3(0.0, 0.0, 30.0))[0]
    reading = read_once(noiseless_part("bmp388").sensor(r_B=(0.0, 0.0, 2.0)), state)
    assert reading.pressure == pytest.approx(air_pressure(HOME.origin.altitude + 32.0), rel=1e-14)


def test_the_barometer_has_white_noise_and_a_drift_that_forgets():
    barometer_part = part("bmp388", resolution=0.0)
    sensor, numbers = barometer_part.sensor(), barometer_part.parameters
    start = sensor.initial(IRIS, normals(1, "a", np.arange(MANY), 0, 1).T)
    state, command = hover(IRIS)
    later = (0.0 * start[0],)
    nothing = (np.zeros(MANY), normals(1, "b", np.arange(MANY), 0, 1)[:, 0])
    _, later = sensor.measure(state, command, IRIS, CALM, nothing, start, numbers.drift_time_constant)
    assert spread(start[0]) == pytest.approx(numbers.drift, rel=FOUR_STANDARD_ERRORS)
    assert spread(later[0]) == pytest.approx(numbers.drift, rel=FOUR_STANDARD_ERRORS)
    assert np.corrcoef(start[0], later[0])[0, 1] == pytest.approx(math.exp(-1.0), abs=4.0 / math.sqrt(MANY))
    assert spread(read_population(sensor).pressure) == pytest.approx(
        math.hypot(numbers.noise, numbers.drift), rel=FOUR_STANDARD_ERRORS
    )


def test_moving_air_leaks_into_a_barometer():
    """c ½ρV² of the airspeed, and c T/4A of the rotors: hovering, T = m g over four discs"""
    state = hover(IRIS)[0]._replace(v_W=Vec3(6.0, 0.0, 0.0))
    calm = read_once(noiseless_part("bmp388").sensor(), state).pressure
    windy = read_once(noiseless_part("bmp388", airspeed_pressure=0.4).sensor(), state).pressure
    assert windy - calm == pytest.approx(0.4 * 0.5 * CALM.air_density * 36.0, rel=1e-6)
    hovering = [read_once(noiseless_part("bmp388", rotor_pressure=c).sensor()).pressure for c in (0.0, -0.5)]
    discs = 4.0 * math.pi * IRIS.rotors[0].radius ** 2
    weight = IRIS.mass * IRIS["gravity"].acceleration
    assert hovering[1] - hovering[0] == pytest.approx(-0.5 * weight / (4.0 * discs), rel=1e-6)


WINDY = {
    "imu": perfect_imu(r_B=Vec3(0.1, -0.05, 0.02)),
    "barometer": noiseless_part("bmp388", airspeed_pressure=0.4, rotor_pressure=-0.5).sensor(),
    "range_finder": noiseless_part("vl53l1x", noise_growth=0.0, max_range=100.0).sensor(q_BS=DOWN),
    "optical_flow": part("pmw3901", noise=0.0).sensor(q_BS=DOWN),
}
WIND_W = Vec3(4.0, -2.5, 1.5)


@pytest.mark.parametrize("name", WINDY)
def test_readings_in_body_axes_stay_when_drone_and_wind_turn_together(name):
    """Over level ground no heading is special: a wind in the wrong frame would come from another side"""
    state, command = flying()
    turn = quat_from_euler(0.0, 0.0, 2.1)
    rotated = state._replace(p_W=rotate(turn, state.p_W), v_W=rotate(turn, state.v_W), q_WB=turn * state.q_WB)
    readings_, rotated_readings = (
        flatten(read_once(WINDY[name], flown_state, command, environment=CALM._replace(wind_W=wind_W)))
        for flown_state, wind_W in ((state, WIND_W), (rotated, rotate(turn, WIND_W)))
    )
    assert rotated_readings == pytest.approx(readings_, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", ["imu", "barometer"])
def test_sensors_of_moving_air_feel_the_airspeed_alone(name):
    """Galilean invariance: moving with the air, they read as in still air; and the wind does count"""
    state, command = flying()
    still, moved, blown = (
        flatten(read_once(WINDY[name], flown_state, command, environment=CALM._replace(wind_W=wind_W)))
        for flown_state, wind_W in (
            (state, Vec3(0.0, 0.0, 0.0)),
            (state._replace(v_W=state.v_W + WIND_W), WIND_W),
            (state, WIND_W),
        )
    )
    assert moved == pytest.approx(still, rel=1e-12, abs=1e-12)
    assert np.abs(np.array(blown) - np.array(still)).max() > 0.1


def test_a_gps_fix_is_the_antennas_place_on_the_ellipsoid():
    """Back through the Earth-centred frame, by the difference of two long vectors: to a micrometre, their rounding"""
    state, command = flying()
    r = Vec3(0.1, 0.05, 0.2)
    reading = read_once(noiseless_part("neo-m9n").sensor(r_B=r), state, command)
    antenna = state.p_W + rotate(state.q_WB, r)
    assert tuple(enu_from_geodetic(reading.position, HOME.origin)) == pytest.approx(tuple(antenna), abs=1e-8)
    long = np.array(earth_from_geodetic(reading.position)) - np.array(earth_from_geodetic(HOME.origin))
    assert np.linalg.norm(long) == pytest.approx(np.linalg.norm(antenna), abs=1e-8)
    h = 1e-6
    ahead = state.p_W + state.v_W * h + rotate(state.q_WB * quat_exp(state.omega_B * h), r)
    assert tuple(reading.v_W) == pytest.approx(tuple((ahead - antenna) / h), abs=1e-4)


def test_the_errors_of_a_fix_are_noise_and_wander():
    gps_part = part("neo-m9n")
    reading, numbers = read_population(gps_part.sensor()), gps_part.parameters
    error = enu_from_geodetic(reading.position, HOME.origin)
    across = math.hypot(numbers.horizontal_noise, numbers.horizontal_wander)
    along = math.hypot(numbers.vertical_noise, numbers.vertical_wander)
    assert [spread(axis) for axis in error] == pytest.approx([across, across, along], rel=FOUR_STANDARD_ERRORS)
    assert [spread(axis) for axis in reading.v_W] == pytest.approx(
        [numbers.velocity_noise] * 3, rel=FOUR_STANDARD_ERRORS
    )


def test_fixes_are_lost_as_often_as_told_and_in_an_outage_always():
    reading = read_population(part("neo-m9n", dropout_rate=0.2).sensor())
    assert reading.valid.mean() == pytest.approx(0.8, abs=4.0 * math.sqrt(0.16 / MANY))
    sensor = part("neo-m9n", outages=[[1.0, 2.5]]).sensor()
    memory, valid = sensor.initial(IRIS, (0.0,) * 3), []
    for _ in range(40):
        fix, memory = sensor.measure(*hover(IRIS), IRIS, CALM, (0.0,) * 10, memory, 0.1)
        valid.append(fix.valid)
    lost = [k for k, flag in enumerate(valid) if flag == 0.0]
    assert lost == list(range(10, 25))


# Looking down -------------------------------------------------------------------------------------------------------


def test_a_range_finder_measures_where_its_ray_meets_the_plane():
    """Independent: p + s d = c + a t₁ + b t₂ as three equations for s, a, b"""
    rng = np.random.default_rng(2)
    for _ in range(50):
        normal, d, p, c = rng.normal(size=(4, 3))
        normal, d = normal / np.linalg.norm(normal), d / np.linalg.norm(d)
        t1 = np.cross(normal, [1.0, 2.0, 3.0])
        s, *_ = np.linalg.solve(np.stack([d, -t1, -np.cross(normal, t1)], axis=1), c - p)
        ground = Ground(Vec3(*c.tolist()), Vec3(*normal.tolist()))
        distance = ray_distance(Ray(Vec3(*p.tolist()), Vec3(*d.tolist())), ground)
        above = np.dot(p - c, normal) > 0.0
        assert distance == pytest.approx((s if s >= 0.0 else 1e9) if above else 0.0, rel=1e-9)


def test_a_leaning_range_finder_reads_the_slanted_distance_and_says_when_it_cannot():
    sensor = noiseless_part("vl53l1x", noise_growth=0.0).sensor(q_BS=DOWN)
    above = hover(IRIS, Vec3(0.0, 0.0, 2.0))[0]
    leaning = above._replace(q_WB=quat_from_euler(0.4, 0.0, 0.0))
    assert tuple(read_once(sensor, above)) == pytest.approx((2.0, 1.0), abs=1e-12)
    assert tuple(read_once(sensor, leaning)) == pytest.approx((2.0 / math.cos(0.4), 1.0), rel=1e-12)
    assert tuple(read_once(sensor, hover(IRIS, Vec3(0.0, 0.0, 5.0))[0])) == (4.0, 0.0)
    assert tuple(read_once(sensor, above._replace(q_WB=quat_from_euler(math.pi, 0.0, 0.0)))) == (4.0, 0.0)
    assert tuple(read_once(sensor, above._replace(p_W=Vec3(0.0, 0.0, 0.01)))) == (0.04, 0.0)


def test_the_noise_of_a_range_grows_with_it():
    range_part = part("vl53l1x", resolution=0.0)
    for height in (0.5, 3.0):
        distance = read_population(range_part.sensor(q_BS=DOWN), state=hover(IRIS, Vec3(0.0, 0.0, height))[0]).distance
        expected = range_part.parameters.noise + range_part.parameters.noise_growth * height
        assert spread(distance) == pytest.approx(expected, rel=FOUR_STANDARD_ERRORS)


def test_optical_flow_is_how_a_point_of_the_ground_moves_in_the_picture():
    """Independent: the ground point in the centre of the image, viewed from the lens a moment later"""
    r, dt = Vec3(0.05, -0.02, -0.03), 1e-6
    sensor = part("pmw3901", noise=0.0).sensor(r_B=r, q_BS=DOWN)
    state, command = flying()
    sensor_state = sensor.initial(IRIS, ())
    _, sensor_state = sensor.measure(state, command, IRIS, CALM, (0.0, 0.0), sensor_state, dt)
    reading, _ = sensor.measure(state, command, IRIS, CALM, (0.0, 0.0), sensor_state, dt)
    lens = state.p_W + rotate(state.q_WB, r)
    looking = rotate(state.q_WB * DOWN, Vec3(1.0, 0.0, 0.0))
    point = lens + looking * (-lens.z / looking.z)
    q_after = state.q_WB * quat_exp(state.omega_B * dt)
    lens_after = state.p_W + state.v_W * dt + rotate(q_after, r)
    point_S = rotate(conjugate(q_after * DOWN), point - lens_after)
    angle_y, angle_z = math.atan2(point_S.z, point_S.x), -math.atan2(point_S.y, point_S.x)
    assert (reading.angle_y, reading.angle_z) == pytest.approx((angle_y, angle_z), rel=1e-4)
    assert reading.valid == 1.0


def test_flow_over_the_ground_is_speed_over_height_times_the_period():
    sensor = part("pmw3901", noise=0.0).sensor(q_BS=DOWN)
    state = hover(IRIS, Vec3(0.0, 0.0, 4.0))[0]._replace(v_W=Vec3(0.0, 2.0, 0.0))
    reading = read_once(sensor, state, memory=(0.0, 0.5))
    assert reading.angle_z == pytest.approx(
        0.5 / 50.0
    )  # body y is the lens' y: right-handed about its z, which is forward
    assert reading.angle_y == pytest.approx(0.0, abs=1e-12)
    assert read_once(sensor, state._replace(p_W=Vec3(0.0, 0.0, 31.0))).valid == 0.0
    noisy = read_population(part("pmw3901").sensor(q_BS=DOWN), state=state)
    assert spread(noisy.angle_y) == pytest.approx(part("pmw3901").parameters.noise, rel=FOUR_STANDARD_ERRORS)


# Cameras and batteries ----------------------------------------------------------------------------------------------


def test_motion_capture_tells_the_pose_in_its_own_frame():
    state, command = flying()
    q_WM, p_WM, r = quat_from_euler(0.1, 0.2, 0.3), Vec3(1.0, 2.0, 3.0), Vec3(0.0, 0.0, 0.04)
    vicon_part = noiseless_part("vicon", q_WM=q_WM, p_WM=p_WM)
    reading = read_once(vicon_part.sensor(r_B=r), state, command)
    marker = state.p_W + rotate(state.q_WB, r)
    assert tuple(p_WM + rotate(q_WM, reading.p_M)) == pytest.approx(tuple(marker), abs=1e-12)
    assert tuple(quat_log(conjugate(state.q_WB) * q_WM * reading.q_MB)) == pytest.approx((0.0,) * 3, abs=1e-12)


def test_the_noise_of_a_pose_is_as_told():
    vicon_part = part("vicon")
    reading = read_population(vicon_part.sensor())
    turn = quat_log(reading.q_MB)
    assert [spread(axis) for axis in reading.p_M] == pytest.approx(
        [vicon_part.parameters.position_noise] * 3, rel=FOUR_STANDARD_ERRORS
    )
    assert [spread(axis) for axis in turn] == pytest.approx(
        [vicon_part.parameters.attitude_noise] * 3, rel=FOUR_STANDARD_ERRORS
    )


def test_a_battery_monitor_reads_a_bus_that_obeys_kirchhoff():
    """V = OCV − R I of the pack: the two readings without error agree"""
    reading = read_once(noiseless_part("power-module").sensor())
    pack = IRIS["battery"][0]
    assert reading.current > 1.0
    assert reading.voltage == pytest.approx(pack.table_voltage[-1] - pack.resistance * reading.current, rel=1e-9)


def test_gain_offset_and_noise_of_the_battery_monitor_are_as_told():
    monitor_part = part("power-module", voltage_resolution=0.0, current_resolution=0.0)
    true, reading, numbers = (
        read_once(noiseless_part("power-module").sensor()),
        read_population(monitor_part.sensor()),
        monitor_part.parameters,
    )
    expected = math.hypot(numbers.voltage_gain * true.voltage, numbers.voltage_noise)
    assert spread(reading.voltage) == pytest.approx(expected, rel=FOUR_STANDARD_ERRORS)
    expected = math.hypot(numbers.current_gain * true.current, numbers.current_offset, numbers.current_noise)
    assert spread(reading.current) == pytest.approx(expected, rel=FOUR_STANDARD_ERRORS)


def test_a_vehicle_without_a_battery_has_nothing_to_monitor():
    with pytest.raises(ValueError, match="vehicle 'crazyflie_documented' has no battery to monitor"):
        read_once(part("power-module").sensor(), vehicle=samara.vehicle("crazyflie_documented"))


# In time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("traced", "executor"), [(False, "llvm"), (True, "llvm"), (True, "python")])
@pytest.mark.parametrize(("rate", "delay"), [(250.0, 0.0), (250.0, 0.012), (50.0, 0.1), (25.0, 0.004), (10.0, 0.0)])
def test_a_sensor_is_sampled_at_its_rate_and_heard_exactly_its_delay_later(traced, executor, rate, delay):
    x = Sensor("x", ("x",), ("m",), lambda s, *_: (s.p_W.x,), rate=rate, delay=delay, traced=traced)
    every, late = round(250.0 / rate), round(delay * 250.0)
    run = StageRun(
        SensorsStage(), vehicle=IRIS, state=state_at_rest(IRIS), drones=range(2), sensors=(x,), executor=executor
    )
    (rows,) = run.group.sensors
    received = {}
    for tick in range(200):
        run.group.state.p_W[0] = float(tick)
        run.advance()
        if rows.fresh.any():
            received[tick] = rows.reading[0].tolist()
            assert rows.fresh.tolist() == [1.0, 1.0]
            rows.fresh[:] = 0.0
    assert received == {k: [float(k - late)] * 2 for k in range(late, 200, 1) if (k - late) % every == 0}


def test_a_rate_that_does_not_divide_the_axis_and_a_delay_between_its_ticks_are_refused():
    x = Sensor("x", ("x",), ("m",), lambda s, *_: (s.p_W.x,), rate=100.0)
    with pytest.raises(
        ValueError, match="sensor 'x' samples at 100 Hz, which does not divide the sensor clock of 250 Hz"
    ):
        sampling(x, 4000)
    late = replace(x, rate=0.0, delay=0.005)
    with pytest.raises(
        ValueError, match=r"expected a multiple of the sensor clock's 0.004 s: the nearest are 0.004 s and"
    ):
        sampling(late, 4000)
    with pytest.raises(ValueError, match=r"sensor 'x' has a rate of -1.0 Hz"):
        replace(x, rate=-1.0)


def hundred_readings(names, drones, seed):
    return readings([part(name).sensor() for name in names], *flying(), drones, seed=seed, ticks=100)


def test_a_batch_is_its_drones_and_a_seed_is_its_samples():
    """Bit for bit: nine drones at once equal those nine singly; equal seeds give equal samples, other seeds others."""
    names = ("bmi088", "neo-m9n", "bmp388", "bmm150")
    batch_readings = hundred_readings(names, range(9), 4)
    for drone in (0, 5, 8):
        assert np.array_equal(hundred_readings(names, [drone], 4)[:, :, 0], batch_readings[:, :, drone])
    assert np.array_equal(hundred_readings(names, range(9), 4), batch_readings)
    assert not np.array_equal(hundred_readings(names, range(9), 5), batch_readings)


@pytest.mark.parametrize("name", part_names())
def test_every_part_is_the_same_function_of_floats_arrays_and_symbols(name):
    small = {"depth_camera": {"width": 4, "height": 3}, "lidar": {"columns": 3}}.get(part(name).type_name, {})
    sensor = part(name, **small).sensor(r_B=(0.02, -0.01, 0.03), q_BS=DOWN)
    state, command = flying()
    draws = normals(2, "x", 0, 0, sensor.normals_needed).tolist()
    memory = sensor.initial(IRIS, normals(2, "y", 0, 0, sensor.start_normals).tolist()) if sensor.initial else ()
    inputs = (state, command, tuple(draws), memory, 0.02)

    def call(state, command, draws, memory, dt):
        if sensor.initial is None:
            return sensor.measure(state, command, IRIS, CALM, draws)
        return sensor.measure(state, command, IRIS, CALM, draws, memory, dt)

    by_float = np.array(flatten(call(*inputs)), dtype=float)
    leaves = [np.full(3, leaf) for leaf in flatten(inputs)]
    by_array = np.stack(np.broadcast_arrays(*flatten(call(*unflatten(inputs, iter(leaves)))), np.zeros(3))[:-1])
    x = casadi.SX.sym("x", len(leaves))
    traced = flatten(call(*unflatten(inputs, iter(x[i] for i in range(len(leaves))))))
    by_symbol = np.array(casadi.Function("f", [x], [casadi.vertcat(*traced)])(flatten(inputs)))[:, 0]
    assert by_array == pytest.approx(np.repeat(by_float[:, None], 3, axis=1), rel=1e-12, abs=1e-12)
    assert by_symbol == pytest.approx(by_float, rel=1e-12, abs=1e-12)


# Parts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", part_names())
def test_every_number_of_a_part_says_where_it_is_from(name):
    sensor_part = part(name)
    sourced = [key for key, source in sensor_part.sources if source.startswith(("data sheet", "assumed"))]
    assert len(sourced) == len(sensor_part.sources) >= 5
    assert sensor_part.sensor() is part(name).sensor()  # drones with equal sensors are computed together


BAROMETER = """type = "barometer"
rate = { value = 50, unit = "Hz", source = "s" }
delay = { value = 5, unit = "ms", source = "s" }
noise = { value = 0.02, unit = "hPa", source = "s" }
drift = { value = 0, unit = "Pa", source = "s" }
drift_time_constant = { value = 10, unit = "s", source = "s" }
resolution = { value = 0, unit = "Pa", source = "s" }
airspeed_pressure = { value = 0, unit = "1", source = "s" }
rotor_pressure = { value = 0, unit = "1", source = "s" }
"""


def test_a_user_defined_part_is_a_file(tmp_path):
    (tmp_path / "mine.toml").write_text(BAROMETER)
    user_part = part(tmp_path / "mine.toml", drift=3.0)
    assert (user_part.name, user_part.parameters.noise, user_part.parameters.delay, user_part.parameters.drift) == (
        "mine",
        2.0,
        0.005,
        3.0,
    )


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('type = "barometer"', 'type = "sonar"', "x.toml: type = 'sonar': expected one of imu,"),
        (
            "noise =",
            "nose =",
            "x.toml: nose = {'value': 0.02, 'unit': 'hPa', 'source': 's'}: expected only the keys schema, type, name, ",
        ),
        ('0.02, unit = "hPa"', '0.02, unit = "bar"', "x.toml: noise has the unit 'bar': expected 'Pa' or 'hPa'"),
        ("value = 10,", "value = -10,", "x.toml: drift_time_constant = -10: expected a positive number"),
        ("value = 10,", "value = nan,", "x.toml: drift_time_constant = nan: expected a finite number"),
        ('{ value = 50, unit = "Hz", source = "s" }', "50", "x.toml: rate = 50: expected { value, unit, source }"),
        ("drift_time_constant = {", "#", "x.toml: drift_time_constant is missing"),
        ('type = "barometer"', 'schema = 2\nkind = "barometer"', "x.toml: schema = 2: expected 1"),
        ("type", "type =", "x.toml: is not TOML"),
        ('type = "barometer"', "type = [1]", "x.toml: type = [1]: expected one of imu,"),
        ('0.02, unit = "hPa"', "0.02, unit = [1]", "x.toml: noise.unit = [1]: expected a text"),
        ('source = "s"', "source = 1", "x.toml: rate.source = 1: expected a text"),
        ("value = 10,", f"value = [{'7, ' * 5000}],", "x.toml: drift_time_constant = [7, 7, "),
        ("noise =", '"\\u001b[31m" =', "x.toml: '\\x1b[31m' = {'value': 0.02, "),
    ],
)
def test_a_bad_part_gets_one_sentence(before, after, sentence):
    assert before in BAROMETER
    with pytest.raises(PartError) as caught:
        parse_part(BAROMETER.replace(before, after, 1), "x.toml")
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_part_that_is_not_there_and_a_number_it_does_not_have_are_refused():
    with pytest.raises(PartError, match=r"no part 'bmi999'; expected a .toml file or one of bmi088,"):
        part("bmi999")
    with pytest.raises(PartError, match=r"bmi088.gyroscope: there is no 'nose'; expected one of noise_density,"):
        part("bmi088", gyroscope={"nose": 1.0})


def test_a_drift_of_zero_instability_is_none_and_the_ideal_imu_is_unchanged():
    assert drift_sigma(0.0) == 0.0
    state, command = flying()
    assert IMU.measure(state, command, IRIS, CALM, ()) == pytest.approx(
        flatten(read_once(perfect_imu(), state, command))
    )
