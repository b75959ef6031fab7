"""Controllers compensate the moment of airspeed, observe other torques on the body, and fly such a vehicle in wind."""

import numpy as np
import pytest

import samara
from samara.control.default_gains import OTHER_LAG
from samara.control.disturbance_torque import (
    MIN_AIRBORNE_THRUST_FRACTION,
    MIN_TAKE_OFF_THRUST_FRACTION,
    add_rotor_momentum_torque,
    air_torque,
    compensate,
    initial_observer_state,
    lead_state,
    observe,
)
from samara.control.registry import CONTROLLERS, create_controller
from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm, quat_from_euler
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Reference
from samara.scenario.file import parse_scenario

PLAIN = samara.vehicle("crazyflie_documented")
MOTOR_LAG, G = PLAIN.rotors[0].motor.time_constant_up, PLAIN["gravity"].acceleration
WITH_MOMENT = samara.switch_on(PLAIN.without_effect("damping"), "airspeed_moment", roll=0.12, pitch=0.14)
WITH_MOMENT_AND_DAMPING = samara.switch_on(PLAIN, "airspeed_moment", roll=0.12, pitch=0.14)
DESIRED_B = Vec3(1e-5, 2e-5, 3e-6)
WEIGHT = PLAIN.mass * G
PERIOD = 4e-3


def test_the_moment_after_the_lag_is_compensated():
    """τ − τ_air at v + T v̇; level, with the thrust of hover, v̇ = 0 and the remaining torque on the body is τ"""
    state, command = samara.hover(WITH_MOMENT)
    moving = state._replace(v_W=Vec3(1.5, -0.5, 0.0))
    acting_B = samara.wrench_breakdown(moving, command, WITH_MOMENT)["airspeed_moment"].tau_B
    assert compensate(WEIGHT, DESIRED_B, moving, WITH_MOMENT, None) + acting_B == pytest.approx(DESIRED_B, rel=1e-12)
    tilted_state = moving._replace(q_WB=quat_from_euler(0.0, 0.2, 0.0))
    state_after_lag = tilted_state._replace(
        v_W=tilted_state.v_W + Vec3(np.sin(0.2), 0.0, np.cos(0.2) - 1.0) * (G * MOTOR_LAG)
    )
    future_B = samara.wrench_breakdown(state_after_lag, command, WITH_MOMENT)["airspeed_moment"].tau_B
    assert compensate(WEIGHT, DESIRED_B, tilted_state, WITH_MOMENT, None) + future_B == pytest.approx(
        DESIRED_B, rel=1e-12
    )


def test_damping_is_compensated_at_the_rate_after_the_lag():
    """τ + c (ω + T J⁻¹τ): behind a lag T the body then rotates like one without damping, whose motors lag T/(1 + cT/J)"""
    state, _ = samara.hover(WITH_MOMENT_AND_DAMPING)
    rotating = state._replace(omega_B=Vec3(0.0, 3.0, 0.0))
    c, inertia, desired_B = (
        WITH_MOMENT_AND_DAMPING["damping"].linear.y,
        WITH_MOMENT_AND_DAMPING.inertia_B.yy,
        Vec3(0.0, 2e-5, 0.0),
    )
    expected = 2e-5 + c * (3.0 + MOTOR_LAG * 2e-5 / inertia) - air_torque(rotating, WITH_MOMENT_AND_DAMPING).y
    assert compensate(WEIGHT, desired_B, rotating, WITH_MOMENT_AND_DAMPING, None).y == pytest.approx(
        expected, rel=1e-12
    )
    assert compensate(
        WEIGHT, desired_B, rotating, WITH_MOMENT_AND_DAMPING, None, damping_included=True
    ).y == pytest.approx(2e-5 - air_torque(rotating, WITH_MOMENT_AND_DAMPING).y, rel=1e-12)


def test_without_a_moment_of_airspeed_there_is_no_observer():
    state, _ = samara.hover(PLAIN)
    assert compensate(0.3, DESIRED_B, state, PLAIN, None) is DESIRED_B
    assert initial_observer_state(PLAIN) is None
    assert create_controller("geometric", PLAIN).initial_state == ()


def test_the_observer_is_a_first_order_lag():
    """τ_d after n periods is (1 − (1 − k)ⁿ) J ω̇, k = dt / (10 ms + dt), without the torques of rotors and model"""
    hover_state, _ = samara.hover(WITH_MOMENT)
    alpha, gain = 2.0, PERIOD / (OTHER_LAG + PERIOD)
    observer = initial_observer_state(WITH_MOMENT)._replace(airborne=1.0)
    for n in range(1, 20):
        observer = observe(
            hover_state._replace(omega_B=Vec3(0.0, alpha * PERIOD * n, 0.0)), WITH_MOMENT, observer, PERIOD
        )
        expected = WITH_MOMENT.inertia_B.yy * alpha * (1.0 - (1.0 - gain) ** n)
        assert observer.disturbance_B == pytest.approx(Vec3(0.0, expected, 0.0), rel=1e-9, abs=1e-14)


def test_modelled_torques_are_not_observed():
    """In still air the body obeys the model and the estimate is zero; in wind it is the moment of the wind"""
    state, command = samara.hover(WITH_MOMENT_AND_DAMPING)
    state = state._replace(v_W=Vec3(0.6, -0.3, 0.1), omega_B=Vec3(0.4, -0.2, 0.3))
    simulator = samara.compile(WITH_MOMENT_AND_DAMPING)
    for wind_W in (ZERO, Vec3(1.0, 0.0, 0.0)):
        current, observer = state, initial_observer_state(WITH_MOMENT_AND_DAMPING)
        for _ in range(50):
            observer = observe(current, WITH_MOMENT_AND_DAMPING, observer, 1e-3)
            current = simulator.step(current, command, 1e-4, 10, environment=CALM._replace(wind_W=wind_W))
        alpha_in_wind = derivative(current, command, WITH_MOMENT_AND_DAMPING, CALM._replace(wind_W=wind_W)).omega_B
        expected_B = WITH_MOMENT_AND_DAMPING.inertia_B @ (
            alpha_in_wind - derivative(current, command, WITH_MOMENT_AND_DAMPING).omega_B
        )
        assert abs(expected_B.y) == pytest.approx(4.3e-4 * wind_W.x, rel=0.05)
        assert observer.disturbance_B == pytest.approx(expected_B, abs=0.02 * 4.3e-4 * wind_W.x + 2e-7)


def test_ground_contact_is_not_compensated():
    """Until the rotors carry the body, and again when they carry less than half of it"""
    hover_state, _ = samara.hover(WITH_MOMENT)
    for before, fraction, expected in ((0.0, 0.9, 0.0), (0.0, 1.1, 1.0), (1.0, 0.6, 1.0), (1.0, 0.4, 0.0)):
        state = hover_state._replace(rotor_speed=tuple(speed * fraction**0.5 for speed in hover_state.rotor_speed))
        observer = observe(
            state,
            WITH_MOMENT,
            initial_observer_state(WITH_MOMENT)._replace(disturbance_B=DESIRED_B, airborne=before),
            PERIOD,
        )
        assert observer.airborne == expected
        assert (observer.disturbance_B == ZERO) == (before == 0.0)
    assert MIN_AIRBORNE_THRUST_FRACTION < 0.6 < 0.9 < MIN_TAKE_OFF_THRUST_FRACTION < 1.1


def test_the_pendulum_of_moment_and_gravity_grows_as_its_cube_root_says():
    """With constant rotor speeds, s³ = −g κ, κ = ∂ω̇/∂v: the pair ½ (1 ± i√3) (g κ)^⅓, from the exact Jacobian"""
    free = WITH_MOMENT.without_effect("drag", "contact")
    state, command = samara.hover(free)
    a, _ = samara.compile(free).linearize(state, command, 1e-3, tangent=True)
    growth_rates = np.log(np.linalg.eigvals(np.asarray(a)[:12, :12]).astype(complex)) / 1e-3
    stiffness = [
        -air_torque(state._replace(v_W=Vec3(1e-4, 0.0, 0.0)), free).y / 1e-4 / free.inertia_B.yy,
        air_torque(state._replace(v_W=Vec3(0.0, 1e-4, 0.0)), free).x / 1e-4 / free.inertia_B.xx,
    ]
    expected = sorted(0.5 * (G * kappa) ** (1.0 / 3.0) for kappa in stiffness)
    assert sorted(growth_rates.real)[-4::2] == pytest.approx(expected, rel=1e-4)


def test_without_a_controller_state_modelled_torques_are_compensated():
    """`()` in, `()` out, and the command is that of the first call"""
    state, _ = samara.hover(WITH_MOMENT)
    named = create_controller("geometric", WITH_MOMENT)
    moving, reference = state._replace(v_W=Vec3(0.5, 0.0, 0.0)), Reference(state.p_W)
    command, controller_state = named.call(moving, reference, WITH_MOMENT, ())
    assert controller_state == ()
    assert command == named.call(moving, reference, WITH_MOMENT, named.initial_state)[0]


def fly_tasks(controller, wind, tasks, duration, vehicle="crazyflie"):
    scenario = parse_scenario(
        f"""
        schema = 1
        duration = {duration}
        seed = 3
        {wind}
        [[drones]]
        vehicle = "{vehicle}"
        controller = "{controller}"
        start = [0, 0, 3]
        airborne = true
        {tasks}
        """,
        "mine.toml",
    )
    return samara.fly(scenario).drone_records[0]


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_controller_arrives_in_calm_air(controller):
    """Two metres at 1 m/s, and back to rest"""
    tasks = '[[drones.tasks]]\ntype = "waypoints"\npoints = [[0, 0, 3.0], [2, 1, 3.5]]\nspeed = 1.0'
    track = fly_tasks(controller, "", tasks, 15)
    assert np.array(track.position[-1]) == pytest.approx([2.0, 1.0, 3.5], abs=0.02)
    assert np.linalg.norm(track.velocity[-1]) < 0.02


@pytest.mark.long
@pytest.mark.parametrize("vehicle", ["crazyflie", "crazyflie_brushless"])
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize(
    "wind", ['[wind]\nmodel = "constant"\nwind_W = [2.4, 1.8, 0]', '[wind]\nmodel = "dryden"\nmean = [2, 0, 0]']
)
def test_every_controller_holds_and_flies_on_in_wind(vehicle, controller, wind):
    """A step of 3 m/s, as when flying into the flow of fans, and gusty 2 m/s: then a figure of eight"""
    tasks = (
        '[[drones.tasks]]\ntype = "hover"\nduration = 5\n'
        '[[drones.tasks]]\ntype = "figure8"\ncentre = [0, 0, 3]\nhalf_length = 1\nspeed = 1\nlaps = 2'
    )
    track = fly_tasks(controller, wind, tasks, 25, vehicle)
    assert np.degrees(np.max(track.tilt)) < 40.0
    assert np.min(track.position[:, 2]) > 2.4
    assert np.max(track.error) < 1.8


def test_the_extrapolated_state_obeys_the_equations_without_lag():
    """d/dt (ω + T ω̇) is the acceleration of the commanded torque without the motors' lag: near hover, to first order"""
    bare = WITH_MOMENT.without_effect("drag", "contact")
    state, command = samara.hover(bare)
    stepped_command = tuple(u + 1e-4 * side for u, side in zip(command, (1.0, 1.0, -1.0, -1.0), strict=True))
    motor, dt = bare.rotors[0].motor, 1e-6
    after = samara.step(state, stepped_command, bare, dt)
    before, now = (lead_state(current, bare, initial_observer_state(bare)).omega_B for current in (state, after))
    commanded = tuple(motor.speed_min + u * (motor.speed_max - motor.speed_min) for u in stepped_command)
    expected_alpha = derivative(state._replace(rotor_speed=commanded), stepped_command, bare).omega_B
    assert norm(expected_alpha) > 0.1
    assert (now - before) / dt == pytest.approx(expected_alpha, rel=1e-3, abs=1e-3 * norm(expected_alpha))
    disturbance_B, rotating = Vec3(1e-6, 2e-6, 3e-6), state._replace(omega_B=Vec3(0.0, 2.0, 0.0))
    with_disturbance = lead_state(rotating, bare, initial_observer_state(bare)._replace(disturbance_B=disturbance_B))
    difference = with_disturbance.omega_B - lead_state(rotating, bare, initial_observer_state(bare)).omega_B
    assert bare.inertia_B @ difference == pytest.approx(disturbance_B * motor.time_constant_up, rel=1e-9)
    assert euler_from_quat(with_disturbance.q_WB).pitch == pytest.approx(2.0 * motor.time_constant_up, rel=1e-12)


def test_the_observed_torque_is_subtracted():
    state, _ = samara.hover(WITH_MOMENT)
    observer = initial_observer_state(WITH_MOMENT)._replace(disturbance_B=Vec3(3e-6, -2e-6, 1e-6))
    difference = compensate(WEIGHT, DESIRED_B, state, WITH_MOMENT, None) - compensate(
        WEIGHT, DESIRED_B, state, WITH_MOMENT, observer
    )
    assert difference == pytest.approx(observer.disturbance_B, rel=1e-9)


def test_the_spin_up_torque_opposes_the_spin():
    """−spin J_r Ω̇ along the axis, and −ω × J_r spin Ω of a rotating body: neither counts as a disturbance"""
    vehicle = samara.vehicle("crazyflie")
    state, _ = samara.hover(vehicle)
    omega_B, rotor = Vec3(0.0, 2.0, 0.0), vehicle.rotors[0]
    speeds_before = (state.rotor_speed[0] - 5.0, *state.rotor_speed[1:])
    rotating = state._replace(omega_B=omega_B, rotor_speed=(state.rotor_speed[0], 0.0, 0.0, 0.0))
    torque = add_rotor_momentum_torque(ZERO, rotating, (speeds_before[0], 0.0, 0.0, 0.0), vehicle, PERIOD)
    momentum = rotor.spin * rotor.inertia * state.rotor_speed[0]
    assert torque == pytest.approx(Vec3(-2.0 * momentum, 0.0, -rotor.spin * rotor.inertia * 5.0 / PERIOD), rel=1e-9)
