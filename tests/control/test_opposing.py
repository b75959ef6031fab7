"""Controllers that know the moment of airspeed oppose it, see what else turns the body, and fly such a vehicle in wind too."""

import numpy as np
import pytest

import samara
from samara.control.default_gains import OTHER_LAGS
from samara.control.disturbance_torque import (
    CARRIES,
    STANDS,
    air_torque,
    led,
    nothing_seen,
    opposed,
    seen,
    with_spin_up,
)
from samara.control.registry import CONTROLLERS, controller_named
from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm, quat_from_euler
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Reference
from samara.scenario.file import parse_scenario

PLAIN = samara.vehicle("crazyflie_documented")
MOTOR_LAG, G = PLAIN.rotors[0].motor.rise, PLAIN["gravity"].acceleration
TURNED = samara.switch_on(PLAIN.without_effect("damping"), "airspeed_moment", roll=0.12, pitch=0.14)
DAMPED = samara.switch_on(PLAIN, "airspeed_moment", roll=0.12, pitch=0.14)
WANTED_B = Vec3(1e-5, 2e-5, 3e-6)
WEIGHT = PLAIN.mass * G
PERIOD = 4e-3


def test_what_is_opposed_is_the_moment_that_will_act():
    """τ − τ_air at v + T v̇; level, with the lift of hover, v̇ = 0 and what is left on the body is τ"""
    state, command = samara.hover(TURNED)
    moving = state._replace(v_W=Vec3(1.5, -0.5, 0.0))
    acting_B = samara.wrench_breakdown(moving, command, TURNED)["airspeed_moment"].tau_B
    assert opposed(WEIGHT, WANTED_B, moving, TURNED, None) + acting_B == pytest.approx(WANTED_B, rel=1e-12)
    leaning = moving._replace(q_WB=quat_from_euler(0.0, 0.2, 0.0))
    ahead = leaning._replace(v_W=leaning.v_W + Vec3(np.sin(0.2), 0.0, np.cos(0.2) - 1.0) * (G * MOTOR_LAG))
    will_act_B = samara.wrench_breakdown(ahead, command, TURNED)["airspeed_moment"].tau_B
    assert opposed(WEIGHT, WANTED_B, leaning, TURNED, None) + will_act_B == pytest.approx(WANTED_B, rel=1e-12)


def test_damping_is_opposed_at_the_rate_there_will_be():
    """τ + c (ω + T J⁻¹τ): behind a lag T the body then turns as one without damping, whose motors lag T/(1 + cT/J)"""
    state, _ = samara.hover(DAMPED)
    turning = state._replace(omega_B=Vec3(0.0, 3.0, 0.0))
    c, inertia, wanted_B = DAMPED["damping"].linear.y, DAMPED.inertia_B.yy, Vec3(0.0, 2e-5, 0.0)
    expected = 2e-5 + c * (3.0 + MOTOR_LAG * 2e-5 / inertia) - air_torque(turning, DAMPED).y
    assert opposed(WEIGHT, wanted_B, turning, DAMPED, None).y == pytest.approx(expected, rel=1e-12)
    assert opposed(WEIGHT, wanted_B, turning, DAMPED, None, resisted=True).y == pytest.approx(
        2e-5 - air_torque(turning, DAMPED).y, rel=1e-12
    )


def test_without_such_a_moment_nothing_is_added_and_nothing_is_remembered():
    state, _ = samara.hover(PLAIN)
    assert opposed(0.3, WANTED_B, state, PLAIN, None) is WANTED_B
    assert nothing_seen(PLAIN) is None
    assert controller_named("geometric", PLAIN).memory == ()


def test_a_steady_torque_is_seen_as_a_first_order_lag_sees_it():
    """τ_d after n periods is (1 − (1 − k)ⁿ) J ω̇, k = dt / (10 ms + dt), and what the rotors and the model give is not in it"""
    still, _ = samara.hover(TURNED)
    alpha, share = 2.0, PERIOD / (OTHER_LAGS + PERIOD)
    turned = nothing_seen(TURNED)._replace(aloft=1.0)
    for n in range(1, 20):
        turned = seen(still._replace(omega_B=Vec3(0.0, alpha * PERIOD * n, 0.0)), TURNED, turned, PERIOD)
        expected = TURNED.inertia_B.yy * alpha * (1.0 - (1.0 - share) ** n)
        assert turned.rest_B == pytest.approx(Vec3(0.0, expected, 0.0), rel=1e-9, abs=1e-14)


def test_what_the_model_knows_is_not_seen_again():
    """The body flies by its own equations in still air: nothing is left over; in wind the moment of that wind is"""
    state, command = samara.hover(DAMPED)
    state = state._replace(v_W=Vec3(0.6, -0.3, 0.1), omega_B=Vec3(0.4, -0.2, 0.3))
    simulator = samara.compile(DAMPED)
    for wind_W in (ZERO, Vec3(1.0, 0.0, 0.0)):
        own, turned = state, nothing_seen(DAMPED)
        for _ in range(50):
            turned = seen(own, DAMPED, turned, 1e-3)
            own = simulator.step(own, command, 1e-4, 10, environment=CALM._replace(wind_W=wind_W))
        blown = derivative(own, command, DAMPED, CALM._replace(wind_W=wind_W)).omega_B
        expected_B = DAMPED.inertia_B @ (blown - derivative(own, command, DAMPED).omega_B)
        assert abs(expected_B.y) == pytest.approx(4.3e-4 * wind_W.x, rel=0.05)
        assert turned.rest_B == pytest.approx(expected_B, abs=0.02 * 4.3e-4 * wind_W.x + 2e-7)


def test_the_ground_is_not_opposed():
    """Until the rotors carry the body, and again when they carry less than half of it"""
    still, _ = samara.hover(TURNED)
    for before, share, now in ((0.0, 0.9, 0.0), (0.0, 1.1, 1.0), (1.0, 0.6, 1.0), (1.0, 0.4, 0.0)):
        state = still._replace(rotor_speed=tuple(speed * share**0.5 for speed in still.rotor_speed))
        found = seen(state, TURNED, nothing_seen(TURNED)._replace(rest_B=WANTED_B, aloft=before), PERIOD)
        assert found.aloft == now
        assert (found.rest_B == ZERO) == (before == 0.0)
    assert STANDS < 0.6 < 0.9 < CARRIES < 1.1


def test_the_pendulum_of_moment_and_gravity_grows_as_its_cube_root_says():
    """Rotors held, s³ = −g κ, κ = ∂ω̇/∂v: the pair ½ (1 ± i√3) (g κ)^⅓, from the exact Jacobian of the vehicle"""
    free = TURNED.without_effect("drag", "contact")
    state, command = samara.hover(free)
    a, _ = samara.compile(free).linearize(state, command, 1e-3, tangent=True)
    grows = np.log(np.linalg.eigvals(np.asarray(a)[:12, :12]).astype(complex)) / 1e-3
    tilted = [
        -air_torque(state._replace(v_W=Vec3(1e-4, 0.0, 0.0)), free).y / 1e-4 / free.inertia_B.yy,
        air_torque(state._replace(v_W=Vec3(0.0, 1e-4, 0.0)), free).x / 1e-4 / free.inertia_B.xx,
    ]
    expected = sorted(0.5 * (G * kappa) ** (1.0 / 3.0) for kappa in tilted)
    assert sorted(grows.real)[-4::2] == pytest.approx(expected, rel=1e-4)


def test_with_no_memory_what_the_model_knows_is_opposed():
    """`()` in, `()` out, and the command is that of the first call"""
    state, _ = samara.hover(TURNED)
    named = controller_named("geometric", TURNED)
    moving, there = state._replace(v_W=Vec3(0.5, 0.0, 0.0)), Reference(state.p_W)
    command, memory = named.call(moving, there, TURNED, ())
    assert memory == ()
    assert command == named.call(moving, there, TURNED, named.memory)[0]


def flown(controller, wind, tasks, duration, vehicle="crazyflie"):
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
    return samara.fly(scenario).tracks[0]


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_controller_arrives_in_calm_air(controller):
    """Two metres at 1 m/s, and back to rest"""
    tasks = '[[drones.tasks]]\nkind = "waypoints"\npoints = [[0, 0, 3.0], [2, 1, 3.5]]\nspeed = 1.0'
    track = flown(controller, "", tasks, 15)
    assert np.array(track.position[-1]) == pytest.approx([2.0, 1.0, 3.5], abs=0.02)
    assert np.linalg.norm(track.velocity[-1]) < 0.02


@pytest.mark.long
@pytest.mark.parametrize("vehicle", ["crazyflie", "crazyflie_brushless"])
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize(
    "wind", ['[wind]\nkind = "constant"\nwind_W = [2.4, 1.8, 0]', '[wind]\nkind = "dryden"\nmean = [2, 0, 0]']
)
def test_every_controller_holds_and_flies_on_in_wind(vehicle, controller, wind):
    """3 m/s that are there at once, as when a hall's fans are entered, and gusty 2 m/s: then a figure of eight"""
    tasks = (
        '[[drones.tasks]]\nkind = "hover"\nduration = 5\n'
        '[[drones.tasks]]\nkind = "figure8"\ncentre = [0, 0, 3]\nreach = 1\nspeed = 1\nlaps = 2'
    )
    track = flown(controller, wind, tasks, 25, vehicle)
    assert np.degrees(np.max(track.tilt)) < 40.0
    assert np.min(track.position[:, 2]) > 2.4
    assert np.max(track.error) < 1.8


def test_what_is_led_obeys_the_equations_without_the_lag():
    """d/dt (ω + T ω̇) is what the torque commanded gives at once, not what the motors give yet: near hover, to first order"""
    bare = TURNED.without_effect("drag", "contact")
    state, command = samara.hover(bare)
    told = tuple(u + 1e-4 * side for u, side in zip(command, (1.0, 1.0, -1.0, -1.0), strict=True))
    motor, dt = bare.rotors[0].motor, 1e-6
    after = samara.step(state, told, bare, dt)
    before, now = (led(own, bare, nothing_seen(bare)).omega_B for own in (state, after))
    commanded = tuple(motor.speed_min + u * (motor.speed_max - motor.speed_min) for u in told)
    driven = derivative(state._replace(rotor_speed=commanded), told, bare).omega_B
    assert norm(driven) > 0.1
    assert (now - before) / dt == pytest.approx(driven, rel=1e-3, abs=1e-3 * norm(driven))
    rest_B, turning = Vec3(1e-6, 2e-6, 3e-6), state._replace(omega_B=Vec3(0.0, 2.0, 0.0))
    seen_too = led(turning, bare, nothing_seen(bare)._replace(rest_B=rest_B))
    more = seen_too.omega_B - led(turning, bare, nothing_seen(bare)).omega_B
    assert bare.inertia_B @ more == pytest.approx(rest_B * motor.rise, rel=1e-9)
    assert euler_from_quat(seen_too.q_WB).pitch == pytest.approx(2.0 * motor.rise, rel=1e-12)


def test_what_is_seen_is_taken_off():
    state, _ = samara.hover(TURNED)
    turned = nothing_seen(TURNED)._replace(rest_B=Vec3(3e-6, -2e-6, 1e-6))
    apart = opposed(WEIGHT, WANTED_B, state, TURNED, None) - opposed(WEIGHT, WANTED_B, state, TURNED, turned)
    assert apart == pytest.approx(turned.rest_B, rel=1e-9)


def test_rotors_that_spin_up_turn_the_body_the_other_way():
    """−spin J_r Ω̇ along the axis, and −ω × J_r spin Ω of a body that turns: neither is taken for a push from outside"""
    vehicle = samara.vehicle("crazyflie")
    state, _ = samara.hover(vehicle)
    omega_B, rotor = Vec3(0.0, 2.0, 0.0), vehicle.rotors[0]
    earlier = (state.rotor_speed[0] - 5.0, *state.rotor_speed[1:])
    turning = state._replace(omega_B=omega_B, rotor_speed=(state.rotor_speed[0], 0.0, 0.0, 0.0))
    found = with_spin_up(ZERO, turning, (earlier[0], 0.0, 0.0, 0.0), vehicle, PERIOD)
    momentum = rotor.spin * rotor.inertia * state.rotor_speed[0]
    assert found == pytest.approx(Vec3(-2.0 * momentum, 0.0, -rotor.spin * rotor.inertia * 5.0 / PERIOD), rel=1e-9)
