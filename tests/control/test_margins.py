"""Phase margins of every controller on every shipped vehicle, and checks of the margins."""

import math

import numpy as np
import pytest

import samara
from samara.comparison.controllers import compare_on_trajectory
from samara.control.default_gains import Gains, default_gains
from samara.control.geometric import add_drag_derivatives, geometric, reference_drag
from samara.control.margins import AXES, hover_loop
from samara.control.registry import CONTROLLERS, create_controller
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.types import Reference
from samara.vehicles.loader import vehicle_names

PERIOD = 4e-3
REQUIRED = math.radians(35.0)
FIRMWARE_BEST = 0.035  # [m]: the firmware's Mellinger controller has 33 mm on this flight
ORIGIN = Reference(Vec3(0.0, 0.0, 0.0))
TRACED = [name for name in CONTROLLERS if name != "mpc"]
SLOW_AND_UNSTABLE = "crazyflie_brushless"  # 62 ms of lag, and a pendulum of gravity and air that grows with 3 /s


def airborne_vehicle(name):
    return samara.vehicle(name).without_effect("contact")


def compute_margins(vehicle, name):
    controller = create_controller(name, vehicle, period=PERIOD).call
    return hover_loop(vehicle, controller, PERIOD).margins(delay_periods=1)


def min_phase_margin(vehicle, name):
    return min(margin.phase for margin in compute_margins(vehicle, name).values())


# Requirements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("controller", TRACED)
def test_phase_margin_of_slow_motors(controller):
    """Including motor lag, the hold over a period and a period of delay; earlier gains gave 9° to 20°."""
    assert min_phase_margin(airborne_vehicle(SLOW_AND_UNSTABLE), controller) > REQUIRED


@pytest.mark.long
@pytest.mark.parametrize("vehicle", [name for name in vehicle_names() if name != SLOW_AND_UNSTABLE])
def test_phase_margin_of_every_shipped_vehicle(vehicle):
    margins = {name: math.degrees(min_phase_margin(airborne_vehicle(vehicle), name)) for name in TRACED}
    assert min(margins.values()) > math.degrees(REQUIRED), margins


@pytest.mark.long
def test_figure_of_eight_as_good_as_the_firmware():
    """At 1 m/s on the Crazyflie, as measured, with 72 ms of lag: every controller within the firmware's best."""
    entries = compare_on_trajectory(samara.vehicle("crazyflie"), tuple(CONTROLLERS), speed=1.0)
    assert {entry.controller: entry.rmse for entry in entries if not entry.rmse < FIRMWARE_BEST} == {}
    assert not any(entry.crashed for entry in entries)


# Checks of the margins ---------------------------------------------------------------------------------------------


def test_thrust_margin_in_closed_form():
    """A double integrator behind a hold and a delay of one period: L = (2ω dt/(z−1) + ω² dt²/2 (z+1)/(z−1)²) / z"""
    vehicle = airborne_vehicle("rigid_body_quadrotor").without_effect("drag")
    w = default_gains(vehicle).position
    margin = hover_loop(vehicle, geometric(vehicle), PERIOD).margins(delay_periods=1)["thrust"]
    frequency = np.linspace(0.9, 1.1, 20001) * margin.crossover
    z = np.exp(1j * frequency * PERIOD)
    loop = (2.0 * w * PERIOD / (z - 1.0) + 0.5 * (w * PERIOD) ** 2 * (z + 1.0) / (z - 1.0) ** 2) / z
    crossing = np.argmin(np.abs(np.abs(loop) - 1.0))
    assert margin.crossover == pytest.approx(frequency[crossing], rel=1e-3)
    assert margin.phase == pytest.approx(np.angle(-loop[crossing]), abs=1e-3)


def test_a_lead_as_long_as_the_lag_removes_it():
    """L = (2W s + W²)/s² + W² (2w s + w²)/(s⁴ (1 + Ts)): the attitude loop as if the motors had no lag, T = 60 ms."""
    vehicle = airborne_vehicle("crazyflie_documented").without_effect("damping", "drag")
    slow = vehicle.replace({"rotors.motor.time_constant_up": 0.06, "rotors.motor.time_constant_down": 0.06})
    gains = Gains(2.0, Vec3(10.0, 10.0, 3.0), lead=0.06)
    W, w = gains.attitude.x, gains.position
    frequency = np.array([3.0, 8.0, 20.0, 40.0])
    s = 1j * frequency
    delay = np.exp(-1.5 * PERIOD * s)  # half a period of the hold and one of delay
    attitude, position = (2.0 * W * s + W**2) / s**2 * delay, W**2 * (2.0 * w * s + w**2) / s**4 * delay
    lag = 1.0 + 0.06 * s
    loop, loop_without_lead = (
        hover_loop(slow, geometric(slow, loop_gains), PERIOD).open_loop(frequency)[
            :, AXES.index("roll"), AXES.index("roll")
        ]
        for loop_gains in (gains, gains._replace(lead=0.0))
    )
    assert np.abs(loop_without_lead / ((attitude + position) / lag) - 1.0).max() < 0.02
    assert np.abs(loop / (attitude + position / lag) - 1.0).max() < 0.02


class DelayedController:
    """A controller whose commands are delayed by `periods`; the queue is part of its state."""

    def __init__(self, controller, trim, periods):
        self.controller = controller
        self.initial_state = (controller.initial_state, (tuple(trim),) * periods)

    def __call__(self, state, reference, vehicle, controller_state):
        inner_state, waiting = controller_state
        command, inner_state = self.controller(state, reference, vehicle, inner_state)
        queue = (*waiting, command)
        return queue[0], (inner_state, queue[1:])


def test_the_delay_that_destabilizes_is_the_one_predicted():
    """The simulated loop with increasing delay of its commands, against margin/crossover of the linear loop."""
    vehicle = airborne_vehicle("octorotor_x")
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    controller = geometric(vehicle, period=PERIOD)
    margins = hover_loop(vehicle, controller, PERIOD).margins(delay_periods=0)
    periods = min(margin.delay for margin in margins.values()) / PERIOD
    disturbed = state._replace(omega_B=Vec3(0.01, 0.0, 0.0))
    rows = np.tile(flatten(ORIGIN), (1500, 1))

    def growth(delay):
        closed = samara.compile(vehicle, controller=DelayedController(controller, trim, delay))
        rate = np.abs(closed.rollout(disturbed, reference=rows, dt=PERIOD, record_every=1).states.omega_B.x)
        return rate[-250:].max() / rate[500:750].max()

    assert growth(math.floor(periods) - 1) < 0.9
    assert growth(math.ceil(periods) + 1) > 1.1


@pytest.mark.long
def test_ilqr_margin_as_measured():
    """iLQR has no Jacobian: sines on the roll command, and the controller's response; hakoniwa had 21° without lead."""
    margin = measure_margin(
        airborne_vehicle("hakoniwa"), create_controller("mpc", airborne_vehicle("hakoniwa"), period=PERIOD).call, 1
    )
    assert margin > REQUIRED


def test_measured_margin_of_a_traced_controller():
    """For a controller with a Jacobian, the measurement gives the margin computed from the Jacobian."""
    vehicle = airborne_vehicle("rigid_body_quadrotor")
    controller = geometric(vehicle, period=PERIOD)
    computed = hover_loop(vehicle, controller, PERIOD).margins(delay_periods=1)["roll"].phase
    assert measure_margin(vehicle, controller, 1, period=300) == pytest.approx(computed, abs=math.radians(2.0))


def measure_margin(vehicle, controller, axis, period=750):
    """Phase margin of the simulated loop with one period of delay: −c/(c + r) for sines r added to the commanded wrench"""
    sim = samara.compile(vehicle)
    state, trim = samara.hover(vehicle, p_W=(0.0, 0.0, 0.0))
    controller_state, trim = controller.initial_state, np.array(trim)
    pattern = np.zeros(4)
    pattern[axis] = 1.0
    if vehicle.rotors:
        pattern = np.sign([rotor.r_B.y for rotor in vehicle.rotors]) * 1.0
        assert axis == AXES.index("roll")
    bins = np.unique(np.round(np.geomspace(period * PERIOD * 1.2, period / 12, 24)).astype(int))
    time = np.arange(3 * period)
    phase = np.random.default_rng(0).uniform(0.0, 2.0 * math.pi, len(bins))
    amplitude = 1e-3 * abs(trim).max()
    excitation = (
        amplitude * np.sin(2.0 * math.pi / period * np.outer(time, bins) + phase).sum(axis=1) / math.sqrt(len(bins))
    )
    response, last_command = np.zeros(len(time)), trim
    for k in range(len(time)):
        command, controller_state = controller(state, ORIGIN, vehicle, controller_state)
        response[k] = (last_command - trim) @ pattern / (pattern @ pattern)
        state = sim.step(state, tuple(last_command + pattern * excitation[k]), PERIOD)
        last_command = np.array(command, dtype=float)
    spectrum, input_spectrum = (np.fft.rfft(samples[-period:])[bins] for samples in (response, response + excitation))
    loop = -spectrum / input_spectrum
    k = int(np.flatnonzero(np.abs(loop) > 1.0)[-1])
    fraction = math.log(abs(loop[k])) / math.log(abs(loop[k] / loop[k + 1]))
    return abs(float(np.angle(-loop[k] * (loop[k + 1] / loop[k]) ** fraction)))


# The drag of the reference -----------------------------------------------------------------------------------------


def test_the_thrust_turns_with_the_drag_of_the_reference():
    """Jerk and snap of a_d − d(v_d)/m, by finite differences along a curve: linear, and quadratic about each axis"""
    vehicle = samara.vehicle("crazyflie_documented")
    quadratic = samara.switch_on(vehicle.without_effect("drag"), "drag", quadratic=(0.01, 0.02, 0.03), frame="world")
    state = samara.hover(vehicle)[0]

    def reference(t):
        """p = (2 sin t, cos 1.3t, 0.4 sin t) and its derivatives"""
        size, rate, start = np.array([2.0, 1.0, 0.4]), np.array([1.0, 1.3, 1.0]), np.array([0.0, math.pi / 2, 0.0])
        p, v, a, j, s = (Vec3(*(size * rate**n * np.sin(rate * t + start + n * math.pi / 2))) for n in range(5))
        return Reference(p, v, a, j, s_W=s)

    for tested_vehicle in (vehicle, quadratic):
        t, h = 0.9, 1e-3

        def thrust_acceleration(t, tested_vehicle=tested_vehicle):
            return np.array(
                reference(t).a_W - reference_drag(state, reference(t), tested_vehicle) / tested_vehicle.mass
            )

        with_drag_derivatives = add_drag_derivatives(reference(t), state, tested_vehicle)
        assert np.array(with_drag_derivatives.j_W) == pytest.approx(
            (thrust_acceleration(t + h) - thrust_acceleration(t - h)) / (2.0 * h), abs=2e-3
        )
        assert np.array(with_drag_derivatives.s_W) == pytest.approx(
            (thrust_acceleration(t + h) - 2.0 * thrust_acceleration(t) + thrust_acceleration(t - h)) / h**2, abs=2e-2
        )
        assert np.linalg.norm(np.array(with_drag_derivatives.j_W - reference(t).j_W)) > 0.1


def test_without_drag_the_reference_is_unchanged():
    vehicle = samara.vehicle("hakoniwa")
    assert add_drag_derivatives(ORIGIN, samara.hover(vehicle)[0], vehicle) is ORIGIN
