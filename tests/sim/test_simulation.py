"""The running simulation: the order of its stages, the effects of events, values constant between ticks, and determinism."""

import math
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Vec3, quat_exp, quat_from_euler
from samara.documents.rigid_body import RigidBodyQuadrotor
from samara.estimate.ideal import delayed_estimator, noisy_estimator
from samara.physics.effect import Effect, Wrench
from samara.physics.inputs import command_range
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.events import QUANTITIES, Event, at, at_step, when
from samara.scenario.flight_events import ContactTarget, OccurrenceType
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import BUS_SCHEMA_VERSION, require_command, sanitize_command
from samara.scenario.timeline import Rates
from samara.sensors.sensor import IMU, Sensor
from samara.sim.fly import fingerprint, fly
from samara.sim.initial_state import initial_state
from samara.sim.simulation import Simulation
from samara.vehicles.defaults import contact_depths
from samara.wind.sources import Constant, OrnsteinUhlenbeck

ABOVE = Vec3(0.0, 0.0, 3.0)


def hovering(*, vehicle="crazyflie_documented", duration=1.0, drone_events=(), **options):
    """One drone that hovers at 3 m."""
    drone_options = {
        key: options.pop(key) for key in ("estimator", "controller", "motor_map", "armed", "sensors") if key in options
    }
    drone = Drone("drone", samara.vehicle(vehicle), trajectory.hover(ABOVE), ABOVE, airborne=True, **drone_options)
    return Scenario("test", (drone,), duration, events=tuple(drone_events), **options)


# Stages and holds ---------------------------------------------------------------------------------------------------


def test_events_come_before_wind_and_wind_before_the_log_of_the_same_instant():
    """A wind step at 0.5 s is in the environment recorded at 0.5 s, and the state logged there has not felt it."""
    run = fly(hovering(drone_events=[Event(at(0.5), events.wind_step((3.0, 0.0, 0.0)))]))
    changes = run.drone_records[0].tables["environment"]
    assert (changes["wind_W.x"] == np.where(changes.times_us < 500_000, 0.0, 3.0)).all()
    assert 500_000 in changes.times_us
    row = np.searchsorted(run.time, 0.5)
    assert run.time[row] == 0.5
    assert abs(run.velocity[row, 0]) < 1e-12
    assert run.velocity[row + 5, 0] > 1e-3


def test_a_log_faster_than_the_controller_has_a_row_for_each_of_its_ticks():
    """Every table of a block has the room of its own clock; 500 Hz for 10 s are 5001 rows, and the flight is the same."""
    fast, usual = (fly(hovering(duration=10.0, rates=Rates(log=rate))) for rate in (500.0, 100.0))
    assert len(fast.time) == 5001
    assert np.array_equal(fast.position[::5], usual.position)


def test_an_event_between_ticks_happens_at_its_microsecond():
    """0.123457 s is between clock ticks: the plant stops there, and the change is recorded there."""
    run = fly(hovering(drone_events=[Event(at(0.123457), events.fail_motor(0))], duration=0.2))
    changes = run.drone_records[0].tables["environment"]
    assert changes.times_us[changes["motor_effectiveness[0]"] == 0.0][0] == 123_457


def test_a_failed_motor_spins_down_with_its_lag_from_that_instant():
    """Ω(t) = Ω₀ e^{−(t − t₀)/τ}, by closed form."""
    run = fly(hovering(drone_events=[Event(at(0.1), events.fail_motor(2))], duration=0.15))
    lag = samara.vehicle("crazyflie_documented").rotors[2].motor.time_constant_down
    row = np.searchsorted(run.time, 0.1)
    elapsed = run.time[row:] - 0.1
    assert run.rotor_speed[row:, 2] == pytest.approx(run.rotor_speed[row, 2] * np.exp(-elapsed / lag), rel=1e-6)


def test_the_wind_is_held_between_its_ticks():
    """Turbulence sampled at 20 Hz: its recorded changes are 50 ms apart, and the plant sees nothing between."""
    run = fly(hovering(wind=OrnsteinUhlenbeck(Vec3(2.0, 0.0, 0.0), 0.5, 1.0), rates=Rates(wind=20.0)))
    assert set(np.diff(run.drone_records[0].tables["environment"].times_us)) == {50_000}


def test_disarmed_motors_get_nothing_until_armed():
    """On the ground with armed = False every command is 0; after `arm` the same drone lifts off."""
    drone = Drone(
        "drone", samara.vehicle("crazyflie_documented"), trajectory.take_off(Vec3(0, 0, 0), height=1.0), armed=False
    )
    run = fly(Scenario("arming", (drone,), 3.0, events=(Event(at(1.0), events.arm()),)))
    is_disarmed = run.command_time < 1.0
    assert run.command[is_disarmed].max() == 0.0
    assert run.command[~is_disarmed].max() > 0.3


def test_at_step_counts_physics_steps():
    """Step 123 of 1 ms is 0.123 s."""
    run = fly(hovering(drone_events=[Event(at_step(123), events.wind_step((1.0, 0, 0)))], duration=0.2))
    changes = run.drone_records[0].tables["environment"]
    assert changes.times_us[changes["wind_W.x"] == 1.0][0] == 123_000


def test_a_condition_fires_once_at_the_first_scenario_tick_at_which_it_holds():
    """Climbing past 3.1 m: the event fires at the next tick of the 50 Hz clock, and never again."""
    up = trajectory.take_off(ABOVE, height=4.0, speed=0.5)
    scenario = hovering(
        drone_events=[Event(at(0.0), events.follow(up)), Event(when("height > 3.1"), events.wind_step((0.5, 0, 0)))],
        duration=2.0,
    )
    run = fly(scenario)
    table = run.drone_records[0].tables["environment"]
    fired_us = int(table.times_us[np.flatnonzero(table["wind_W.x"] == 0.5)[0]])
    assert fired_us % 20_000 == 0
    crossing = run.time[np.searchsorted(run.position[:, 2], 3.1)]
    assert crossing <= fired_us / 1e6 <= crossing + 0.021
    assert sum("wind" in line.message for line in run.logs) == 1


def test_a_condition_may_be_any_function_of_the_bus():
    times_us = []

    def is_past_half(bus):
        times_us.append(bus.time_us)
        return bus.time >= 0.5

    run = fly(hovering(drone_events=[Event(when(is_past_half), events.gust((2.0, 0, 0), 0.2))]))
    assert times_us == list(range(0, 500_001, 20_000)), "evaluated at every scenario tick, and never after the event"
    wind = run.drone_records[0].tables["environment"]
    assert wind["wind_W.x"].max() == pytest.approx(2.0, rel=0.05)
    assert wind["wind_W.x"][-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 135.0, 180.0])
def test_the_tilt_is_the_angle_between_the_vertical_and_the_body_z_axis(degrees):
    """About any horizontal axis, for any heading."""
    angle = math.radians(degrees)
    for yaw in (0.0, 1.0):
        q_WB = quat_from_euler(0.0, 0.0, yaw) * quat_exp(Vec3(0.6 * angle, 0.8 * angle, 0.0))
        drone = SimpleNamespace(state=SimpleNamespace(q_WB=q_WB))
        assert QUANTITIES["tilt_deg"](None, drone) == pytest.approx(degrees, abs=1e-5)


# The tasks that events give -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [events.go_to((2.0, 0.0, 3.0)), events.take_off(5.0)])
def test_a_task_without_a_speed_has_a_peak_of_two_metres_a_second(task):
    """Over 2 m in 15/8 · 2 m / (2 m/s), fastest in the middle"""
    run = fly(hovering(duration=1.9, drone_events=[Event(at(0.0), task)]))
    speeds = np.linalg.norm(run.drone_records[0].tables["reference"]["v_W"], axis=1)
    assert speeds.max() == pytest.approx(2.0, rel=1e-3)
    assert run.time[speeds.argmax()] == pytest.approx(15.0 / 16.0, abs=0.02)


def test_go_to_return_and_land():
    """Three tasks one after the other: each ends at its target."""
    scenario = hovering(
        duration=16.0,
        drone_events=[
            Event(at(0.5), events.go_to((2.0, 1.0, 3.0))),
            Event(at(5.0), events.return_home()),
            Event(at(9.0), events.land(speed=1.0)),
        ],
    )
    run = fly(scenario)
    assert run.position[np.searchsorted(run.time, 4.9)] == pytest.approx([2.0, 1.0, 3.0], abs=0.05)
    assert run.position[np.searchsorted(run.time, 8.9)] == pytest.approx([0.0, 0.0, 3.0], abs=0.05)
    assert run.position[-1, 2] < 0.05
    aim = run.drone_records[0].tables["reference"]["p_W"][-1]
    assert aim == pytest.approx([0.0, 0.0, -0.3], abs=1e-9)  # below the ground, so that the feet carry load
    assert run.logs[-1].message == "landed"
    assert run.crashed == ()


def test_a_new_task_starts_where_the_reference_is():
    """No jump of position, velocity or acceleration when one task ends another in mid-flight."""
    run = fly(
        hovering(duration=3.0, drone_events=[Event(at(0.5), events.go_to((3.0, 0, 3))), Event(at(1.2), events.land())])
    )
    reference = run.drone_records[0].tables["reference"]
    for field, max_step in (("p_W", 0.03), ("v_W", 0.06), ("a_W", 0.4)):
        assert np.abs(np.diff(reference[field], axis=0)).max() < max_step, field
    assert reference["v_W.x"].max() > 1.0


# Faults -------------------------------------------------------------------------------------------------------------


def test_a_disconnected_battery_stops_the_motors():
    """No current: the rotors coast down and the iris falls."""
    run = fly(
        hovering(vehicle="iris_documented", drone_events=[Event(at(0.2), events.disconnect_battery())], duration=0.8)
    )
    assert run.rotor_speed[-1].max() < 0.6 * run.rotor_speed[0].max()
    assert run.velocity[-1, 2] < -1.5


def test_a_failed_cell_reduces_the_voltage_by_its_fraction():
    """Eleven of twelve cells: the duty that hovers is the exact trim of a battery with a twelfth less open-circuit voltage."""
    iris = samara.vehicle("iris_documented")
    table = tuple(11.0 / 12.0 * volts for volts in iris["battery"][0].table_voltage)
    trims = [samara.hover(vehicle)[1][0] for vehicle in (iris, iris.replace({"battery.table_voltage": table}))]
    run = fly(hovering(vehicle="iris_documented", drone_events=[Event(at(1.0), events.fail_cell(12))], duration=3.0))
    intact = fly(hovering(vehicle="iris_documented", duration=3.0))
    assert run.command[-1].mean() / intact.command[-1].mean() == pytest.approx(trims[1] / trims[0], rel=0.003)
    assert trims[1] / trims[0] > 12.0 / 11.0, "less voltage, more current, more sag"


def test_a_payload_keeps_position_and_momentum_of_the_body_continuous():
    """50 g under a hovering 28 g Crazyflie would be too much; 8 g at 3 cm below make it sink, and the controller adds
    thrust."""
    run = fly(hovering(drone_events=[Event(at(0.5), events.add_payload(0.008, (0.0, 0.0, -0.03)))], duration=3.0))
    jump = np.abs(np.diff(run.position[:, 2]))
    assert jump.max() < 0.008, (
        "the centre of mass moves by m_p r/(m + m_p) = 6.7 mm, and the state is otherwise continuous"
    )
    assert run.rotor_speed[-1].mean() / run.rotor_speed[0].mean() == pytest.approx(math.sqrt(36.0 / 28.0), rel=0.01)


def test_failed_sensors_freeze_the_estimate():
    """Without GPS the estimate of position is frozen; the true position drifts with the wind."""
    fault_and_wind = [Event(at(0.5), events.fail_sensor("gps")), Event(at(0.6), events.wind_step((2.0, 0, 0)))]
    run = fly(hovering(estimator=noisy_estimator(), drone_events=fault_and_wind, duration=2.0))
    estimate = run.drone_records[0].tables["estimate"]
    is_frozen = estimate.times_us > 500_000
    assert np.ptp(estimate["p_W.x"][is_frozen]) == 0.0
    assert run.position[-1, 0] > 0.3


def test_a_delayed_estimate_is_the_earlier_state():
    """40 ms late at 250 Hz: the estimate logged at t is the state logged at t − 40 ms, bit for bit, at common ticks."""
    moving = [Event(at(0.0), events.follow(trajectory.line(ABOVE, (2.0, 0.0, 3.0), speed=1.0)))]
    run = fly(hovering(estimator=delayed_estimator(0.04, 0.004), drone_events=moving))
    estimate = run.drone_records[0].tables["estimate"]["p_W.x"]
    assert (estimate[4::2] == run.position[:-4:2, 0]).all()
    assert estimate[-1] > 0.1


def test_the_controller_uses_the_estimate():
    """Noise in the estimate shakes the commands; the truth does not."""
    calm, shaken = (
        fly(hovering(estimator=estimator, duration=0.5)) for estimator in (samara_truth(), noisy_estimator())
    )
    assert shaken.command.std(axis=0).max() > 50.0 * calm.command[5:].std(axis=0).max() + 1e-6


def samara_truth():
    from samara.estimate.ideal import TRUTH

    return TRUTH


def test_a_motor_map_wires_channels_to_rotors():
    """With mixed-up channels and a controller that is unaware of them, the wrong rotors speed up."""

    def only_channel_one(state, reference, vehicle, controller_state):
        return (0.0, 0.8, 0.0, 0.0)

    run = fly(hovering(controller=only_channel_one, motor_map=(2, 3, 0, 1), duration=0.2))
    assert run.command[-1].tolist() == [0.0, 0.0, 0.0, 0.8], "channel 1 drives rotor 3"


# Custom controllers -------------------------------------------------------------------------------------------------


def test_a_custom_controller_is_one_function():
    """A constant hover command: it stays up for a moment, with its state counting its calls."""
    vehicle = samara.vehicle("crazyflie_documented")
    _, command = samara.hover(vehicle)

    def hold(state, reference, vehicle, controller_state):
        count = controller_state[0] + 1 if controller_state else 1
        return command, (count,)

    run = fly(hovering(duration=0.4), controller=hold)
    assert run.drone_records[0].controller == "hold"
    assert run.position[-1, 2] == pytest.approx(3.0, abs=1e-3)
    assert (run.command == np.array(command)).all()


def test_nan_from_a_custom_controller_is_an_error_with_channel_and_time():
    def bad(state, reference, vehicle, controller_state):
        return (0.5, 0.5, math.nan, 0.5)

    with pytest.raises(ValueError, match=r"command of motor 2 is nan at 0\.000000 s"):
        fly(hovering(), controller=bad)


def test_a_custom_controller_gets_time_and_period_by_name():
    """Any of them, as a keyword or not; at 100 Hz they are 0, 10, 20 ms … and 10 ms."""
    trim, arguments = samara.hover(samara.vehicle("crazyflie_documented"))[1], []

    def both(state, reference, vehicle, controller_state, time, dt):
        arguments.append((time, dt))
        return trim

    def one(state, reference, vehicle, controller_state, *, time=-1.0):
        arguments.append(time)
        return trim

    class Timed:
        def __call__(self, state, reference, vehicle, controller_state, dt):
            arguments.append(dt)
            return trim

    for controller, expected in (
        (both, [(0.0, 0.01), (0.01, 0.01), (0.02, 0.01)]),
        (one, [0.0, 0.01, 0.02]),
        (Timed(), [0.01, 0.01, 0.01]),
        (lambda *_: trim, []),
    ):
        arguments.clear()
        fly(hovering(duration=0.02, rates=Rates(control=100.0)), controller=controller)
        assert arguments == expected


def excessive_command(state, reference, vehicle, controller_state):
    """Within its range but for motors 1 and 3 from the fifth call on: 1.7 and -0.2."""
    count = controller_state[0] + 1 if controller_state else 1
    return ((0.5, 1.7, 0.5, -0.2) if count >= 5 else (0.5, 0.5, 0.5, 0.5)), (count,)


def test_strict_a_command_out_of_range_is_an_error_with_drone_time_channel_and_value(tmp_path):
    """The recording has it, with the flight before it."""
    sentence = "drone: the controller's command of motor 1 is 1.7 at 0.016000 s; expected a number within [0, 1]"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        fly(hovering(strict=True), controller=excessive_command, out=tmp_path / "run.mcap")
    run = samara.load_run(tmp_path / "run.mcap")
    assert [line.message for line in run.logs if line.level == "error"] == [sentence]
    assert len(run.command) == 4


def test_a_command_out_of_range_is_clipped_counted_and_warned_about_once(tmp_path):
    """0.4 s at 250 Hz are 101 commands; of two motors 97 of them are out of range, by 0.7 and by -0.2."""
    with pytest.warns(RuntimeWarning, match=r"motor 1 is 1\.7 at 0\.016000 s.* it is clipped to that range") as warned:
        run = fly(hovering(duration=0.4), controller=excessive_command, out=tmp_path / "run.mcap")
    assert len(warned) == 1 and [line.level for line in run.logs].count("warning") == 1
    assert run.command_time.size == 101 and (run.command[4:] == (0.5, 1.0, 0.5, 0.0)).all()
    assert run.tables["command_excess"].rows == pytest.approx(np.tile([0.0, 0.7, 0.0, -0.2], (97, 1)), abs=1e-15)
    assert run.clipped_command_count == 2 * 97 == samara.load_run(tmp_path / "run.mcap").clipped_command_count
    summary = run.summary()["commands out of range"]
    assert (summary.value, summary.text) == (194, "194")


@pytest.mark.filterwarnings("error")
def test_a_command_limited_by_the_allocation_is_within_range(tmp_path):
    """A compiled controller stays within the limits of its rotors for any distance to its target; rounding does not count."""
    scenario = hovering(duration=0.1, strict=True)
    scenario = replace(
        scenario, drones=tuple(replace(drone, task=trajectory.hover((50.0, 0.0, 90.0))) for drone in scenario.drones)
    )
    assert fly(scenario).clipped_command_count == 0
    run = fly(scenario, controller=lambda *_: (1.0 + 1e-9, -1e-9, 0.5, 0.5), out=tmp_path / "run.mcap")
    assert run.clipped_command_count == 0 and "commands out of range" not in run.summary()
    assert (run.command == (1.0, 0.0, 0.5, 0.5)).all()


def test_a_speed_has_its_motors_range_and_a_wrench_has_none():
    """The range is [0, 1] for a normalized command, idle to top speed for one in rad/s; a thrust of 40 N has no range."""
    lag = samara.vehicle("crazyflie_documented").rotors[0].motor
    quadrotor = RigidBodyQuadrotor(motor_lag=0.05).vehicle
    max_speed = quadrotor.rotors[0].motor.speed_max
    assert command_range(samara.vehicle("crazyflie_documented")) == (0.0, 1.0) and lag.speed_max == 2500.0
    assert command_range(quadrotor) == (quadrotor.rotors[0].motor.speed_min, max_speed)
    drone = Drone(
        "it", quadrotor, trajectory.hover(ABOVE), ABOVE, airborne=True, controller=lambda *_: (2.0 * max_speed,) * 4
    )
    with pytest.raises(ValueError, match=r"it: the controller's command of motor 0 is .* at 0\.000000 s"):
        fly(Scenario("fast", (drone,), 0.1, strict=True))
    body = samara.vehicle("rigid_body_quadrotor")
    strong = replace(drone, vehicle=body, controller=lambda *_: (40.0, 0.0, 0.0, 0.0))
    assert command_range(body) is None
    assert fly(Scenario("strong", (strong,), 0.1, strict=True)).clipped_command_count == 0


def test_an_invalid_result_of_a_controller_is_an_error():
    with pytest.raises(ValueError, match=r"expected 4 numbers, or \(4 numbers, its state\)"):
        fly(hovering(), controller=lambda *arguments: (1.0, 2.0))


def test_sanitising_counts_what_it_changes():
    assert sanitize_command((0.5, math.nan, 1.5, -0.1, math.inf)) == ((0.5, 0.0, 1.0, 0.0, 0.0), 4)
    assert sanitize_command((0.5, 1.0)) == ((0.5, 1.0), 0)
    with pytest.raises(
        ValueError, match=r"px4: command of motor 1 is 1\.1 at 2\.500000 s; expected .* within \[0, 1\]"
    ):
        require_command((0.5, 1.1), (0.0, 1.0), "px4", 2_500_000)
    require_command((0.5, 1.0 + 1e-7), (0.0, 1.0), "px4", 0)


# The bus ------------------------------------------------------------------------------------------------------------


def test_the_bus_has_the_values_of_the_instant():
    simulation = Simulation(hovering(vehicle="iris_documented", wind=Constant(Vec3(1.0, 2.0, 0.0))))
    for _ in range(40):
        simulation.advance()
    bus = simulation.bus()
    drone = bus.drones[0]
    assert bus.schema == BUS_SCHEMA_VERSION
    assert bus.time_us == simulation.time_us
    assert bus.wind_W == drone.environment.wind_W == (1.0, 2.0, 0.0)
    assert len(drone.command.motors) == 12 and len(drone.command.servos) == 8
    assert drone.command.motors[4:] == (0.0,) * 8
    assert drone.faults.motor_disable_mask == 0
    (battery,) = drone.batteries
    assert 0.9 < battery.charge < 1.0
    assert 10.0 < battery.voltage < 12.6
    assert battery.current > 10.0, "positive discharges"


def test_a_load_between_two_ticks_of_the_autopilot_leaves_the_reference_of_the_next():
    """At 0.5001 s the vehicle changes: the reference is that of the tick at 0.504 s."""
    ring = trajectory.circle(ABOVE, radius=2.0, speed=2.0)
    scenario = hovering(drone_events=[Event(at(0.5001), events.add_payload(0.002))])
    simulation = Simulation(replace(scenario, drones=(replace(scenario.drones[0], task=ring),)))
    while simulation.time_us < 500_100:
        simulation.advance()
    reference = simulation.bus().drones[0].reference
    assert reference.p_W == pytest.approx(ring.evaluate(0.504).p_W, abs=1e-12)
    assert reference.p_W != pytest.approx(ring.evaluate(0.5).p_W, abs=1e-4)


# Determinism --------------------------------------------------------------------------------------------------------


def gusty_scenario():
    return hovering(
        wind=OrnsteinUhlenbeck(Vec3(1.0, 0.0, 0.0), 0.4, 1.0), estimator=noisy_estimator(), seed=7, duration=1.5
    )


def test_the_same_scenario_and_seed_are_the_same_bits():
    """Also after another flight and in other threads; another seed is another flight."""
    first = fingerprint(fly(gusty_scenario()))
    fly(hovering(duration=0.2))
    assert fingerprint(fly(gusty_scenario())) == first
    fingerprints = []
    threads = [
        threading.Thread(target=lambda: fingerprints.append(fingerprint(fly(gusty_scenario())))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fingerprints == [first] * 3
    assert fingerprint(fly(replace(gusty_scenario(), seed=8))) != first


def test_a_drone_does_not_depend_on_its_neighbours():
    """Alone, and as the first of three in one world: its draws do not depend on the others, nor do its bits."""
    one = gusty_scenario()
    drone = one.drones[0]
    three = replace(
        one,
        drones=(
            drone,
            replace(drone, name="b", start_W=Vec3(5, 0, 3)),
            replace(drone, name="c", start_W=Vec3(9, 0, 3)),
        ),
    )
    single, fleet = fly(one), fly(three)
    assert (single["drone"].tables["state"].rows == fleet["drone"].tables["state"].rows).all()
    assert not np.array_equal(fleet["b"].velocity, fleet["c"].velocity), "each has its own noise"


def test_ten_thousand_events_at_one_instant():
    """All happen, in their order: the last wind stands."""
    wind_steps = [Event(at(0.1), events.wind_step((k / 10_000, 0.0, 0.0))) for k in range(10_000)]
    run = fly(hovering(drone_events=wind_steps, duration=0.2))
    assert list(dict.fromkeys(run.drone_records[0].tables["environment"]["wind_W.x"].tolist())) == [0.0, 0.9999]
    assert len(run.logs) == 10_001


def test_a_state_that_is_not_finite_is_an_error(tmp_path):
    """The state is corrupted by hand, as no input can make it infinite."""
    simulation = Simulation(hovering(duration=0.5))
    simulation.groups[0].plant.state[4, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"drone: v_W\.y is nan at 0\.000000 s; expected a finite number"):
        simulation.run()


# Sensors ------------------------------------------------------------------------------------------------------------


def test_an_ideal_imu_feels_g_at_hover_and_nothing_in_free_fall():
    """Specific force: (0, 0, g) while the rotors carry the weight; without rotors and drag it is 0."""
    run = fly(hovering(sensors=(IMU,), duration=8.0))
    imu, g = run.drone_records[0].tables["imu"], samara.vehicle("crazyflie_documented")["gravity"].acceleration
    assert imu.times_us.tolist() == list(range(0, 8_000_001, 10_000))
    assert imu["specific_force_B.z"][0] == pytest.approx(g, rel=1e-12)  # in trim at the density of its height
    # the controller's model has the density at home, 2.9e-4 more than 3 m above it: it sags by 0.2 mm, settled after 8 s
    assert imu["specific_force_B.z"][-1] == pytest.approx(g, rel=1e-6)
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping", "rotors")
    falling = Drone("drone", vehicle, trajectory.hover(ABOVE), ABOVE, controller=lambda *_: (0.0,) * 4, sensors=(IMU,))
    falling_imu = fly(Scenario("fall", (falling,), 0.3)).drone_records[0].tables["imu"]
    assert np.abs(falling_imu["specific_force_B"]).max() == 0.0


def test_a_custom_sensor_is_one_function():
    """An altimeter with 5 cm of noise: separate draws, recorded with its units, and on the bus."""

    def height(state, command, vehicle, environment, normals):
        return (state.p_W.z + 0.05 * normals[0],)

    altimeter = Sensor("altimeter", ("height",), ("m",), height, normals_needed=1)
    bus_readings = []
    watch = Event(
        when(lambda bus: bus_readings.append(bus.drones[0].measurements.get("altimeter")) or False), events.arm()
    )
    run = fly(hovering(sensors=(altimeter,), drone_events=[watch], duration=2.0))
    readings = run.drone_records[0].tables["altimeter"]
    assert readings.units == ("m",)
    error = readings["height"] - np.interp(readings.time, run.time, run.position[:, 2])
    assert error.std() == pytest.approx(0.05, rel=0.25)
    assert abs(error.mean()) < 0.02
    assert bus_readings[50][0] in readings["height"]


def test_a_reading_of_the_wrong_size_is_an_error():
    wrong = Sensor("wrong", ("a", "b"), ("1", "1"), lambda *_: (1.0,))
    with pytest.raises(ValueError, match=r"sensor 'wrong' gave \(1\.0,\); expected 2 numbers: a, b"):
        fly(hovering(sensors=(wrong,), duration=0.1))
    with pytest.raises(ValueError, match="has 1 fields and 2 units"):
        Sensor("x", ("a",), ("1", "1"), lambda *_: (1.0,))


def test_follow_brings_the_drone_to_where_a_trajectory_begins():
    """A circle 2 m away, from flight: the reference is continuous, and ends on the circle."""
    circle = trajectory.circle((3.0, 0.0, 3.0), radius=1.0, speed=1.0)
    run = fly(hovering(duration=12.0, drone_events=[Event(at(0.5), events.follow(circle))]))
    assert np.abs(np.diff(run.drone_records[0].tables["reference"]["p_W"], axis=0)).max() < 0.03
    distance = np.linalg.norm(run.reference_position[-1] - [3.0, 0.0, 3.0])
    assert distance == pytest.approx(1.0, abs=1e-6)


def test_ground_contact_faster_than_three_metres_per_second_is_a_crash():
    """Dropped from v²/2g without drag, checked every millisecond: 2.97 m/s is a landing, 3.03 m/s a crash, which is logged."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    g = vehicle["gravity"].acceleration

    def drop(speed):
        start = Vec3(speed, 0.0, speed**2 / (2.0 * g))
        return Drone(f"at {speed}", vehicle, trajectory.hover(start), start, armed=False)

    speeds = (1.0, 2.97, 3.03, 3.5)
    run = fly(Scenario("drop", tuple(map(drop, speeds)), 0.5, rates=Rates(scenario=1000.0)))
    assert run.crashed == ("at 3.03", "at 3.5")
    messages = [line.message for line in run.logs[:-1] if "crashed" in line.message]
    assert messages == [f"at {speed} crashed: touched the ground at {speed:.1f} m/s" for speed in speeds[2:]]
    assert run.logs[-1].message == "crashed: at 3.03, at 3.5"


@pytest.mark.parametrize("integrator", ["rk4", "rk45"])
def test_an_impact_between_two_checks_is_evaluated_by_its_speed(integrator):
    """At the default period of 20 ms an impact is over before the next check: v = √(2 g h) at the contact decides, for any time
    between two checks.
    """
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    speeds = [2.9, *np.linspace(3.05, 4.3, 6 if integrator == "rk45" else 26).tolist()]

    def drop(speed):
        start = Vec3(speed, 0.0, speed**2 / (2.0 * vehicle["gravity"].acceleration))
        return Drone(f"{speed:.2f}", vehicle, trajectory.hover(start), start, armed=False)

    run = fly(Scenario("drop", tuple(map(drop, speeds)), 0.7, integrator=integrator))
    names = [f"{speed:.2f}" for speed in speeds[1:]]
    crashes = [event for event in run.occurrences if event.type is OccurrenceType.CRASHED]
    assert {event.target for event in crashes} == {ContactTarget.GROUND}
    assert {run.drone_records[event.drone].name: event.speed for event in crashes} == pytest.approx(
        dict(zip(names, speeds[1:], strict=True)), abs=0.02
    )
    assert run.crashed == tuple(names)
    assert not any(track.status("landed")[1:].any() for track in run.drone_records[1:])


def test_a_drone_upside_down_has_not_landed():
    """Set down gently on its propellers: it is tilted over and has crashed; neither its status nor its track is landed."""
    vehicle = samara.vehicle("crazyflie_documented").replace({"rotors.motor.speed_min": 0.0})
    start = Vec3(0.0, 0.0, 0.05)
    drone = Drone("drone", vehicle, trajectory.hover(start), start, armed=False, airborne=True)
    simulation = Simulation(Scenario("upset", (drone,), 1.0))
    simulation.groups[0].plant.state[6:10, 0] = (0.0, 1.0, 0.0, 0.0)
    simulation.run()
    state = simulation.groups[0].plant.state[:, 0]
    assert state[2] == pytest.approx(vehicle["contact"].top_height, abs=1e-3)
    assert np.linalg.norm(state[3:6]) < 0.01
    assert simulation.crashed[0] and not simulation.landed[0]


@pytest.mark.parametrize(("speed", "outcome"), [(1.0, "landed"), (4.0, "crashed")])
def test_a_crashed_drone_at_rest_has_not_landed(speed, outcome):
    """Dropped and come to rest: the last log line is `landed` after a landing, and never after a crash."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    start = Vec3(0.0, 0.0, speed**2 / (2.0 * vehicle["gravity"].acceleration))
    drone = Drone("drone", vehicle, trajectory.hover(start), start, armed=False)
    run = fly(Scenario("drop", (drone,), 4.0, rates=Rates(scenario=1000.0)))
    track = run.drone_records[0]
    assert np.linalg.norm(track.velocity[-1]) < 0.01
    assert track.status("landed")[-1] == (outcome == "landed") and track.status("crashed")[-1] == (outcome == "crashed")
    assert run.logs[-1].message == outcome


# On another backend --------------------------------------------------------------------------------------------------


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("integrator", "backend", "tolerance"),
    [
        ("rk4", "python", 1e-9),
        ("rk4", "numpy", 1e-9),
        pytest.param("rk4", "jax", 1e-9, marks=LONG),
        pytest.param("rk45", "python", 1e-7, marks=LONG),
    ],
)
def test_physics_on_another_backend_is_the_same_flight(integrator, backend, tolerance):
    """Two drones in wind, one of them on its feet: to rounding, as the trace adds in another order than Python.

    Adaptive steps agree to their tolerance, and only in the air: rounding decides at which microsecond a foot begins to slip.
    """
    one = hovering(vehicle="rigid_body_quadrotor", duration=0.02, wind=Constant(Vec3(3.0, -1.0, 0.0)))
    iris = replace(one.drones[0], name="iris", vehicle=samara.vehicle("iris"), start_W=Vec3(2.0, 0.0, 4.0))
    if integrator == "rk4":
        iris = replace(iris, airborne=False, start_W=ZERO)
    scenario = replace(one, drones=(*one.drones, iris), integrator=integrator)
    compiled, on_backend = fly(scenario), fly(scenario, backend=backend)
    assert "backend" not in compiled.metadata and on_backend.metadata["backend"] == backend
    for a, b in zip(compiled.drone_records, on_backend.drone_records, strict=True):
        assert np.abs(a.velocity).max() > 1e-3
        for name in ("state", "command", "environment"):
            np.testing.assert_allclose(b.tables[name].rows, a.tables[name].rows, rtol=tolerance, atol=tolerance)
    replayed = samara.replay(on_backend)
    assert fingerprint(replayed) == fingerprint(on_backend)


def test_in_python_an_equation_gets_plain_floats():
    """As a debugger would show: three drones, each in plain floats at every stage of every step."""
    types = set()

    def record_types(parameters, state, command, vehicle, environment):
        types.add((type(state.p_W.z), type(command[0]), type(environment.wind_W.x)))
        return Wrench()

    scenario = hovering(vehicle="rigid_body_quadrotor", duration=0.004)
    observed = replace(
        scenario.drones[0], vehicle=scenario.drones[0].vehicle.with_effect(Effect("look", wrench=record_types))
    )
    drones = tuple(replace(observed, name=f"drone{k}") for k in range(3))
    simulation = Simulation(replace(scenario, drones=drones, backend="python"))
    types.clear()
    while simulation.advance():
        pass
    assert types == {(float, float, float)}


def test_an_unsupported_backend_is_an_error_in_one_sentence():
    with pytest.raises(ValueError, match=r"^backend 'pallas': expected one of llvm, python, numpy, jax"):
        fly("hover", backend="pallas")


# The end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", [0.2, 0.205, 0.2034])
def test_the_last_state_is_recorded(duration):
    """A free fall ends at z₀ − g t²/2 of its duration, also between two ticks of the log; and replays."""
    body = samara.vehicle("rigid_body_quadrotor").without_effect("drag")
    drone = Drone("drone", body, trajectory.hover(ABOVE), ABOVE, airborne=True, armed=False)
    run = fly(Scenario("fall", (drone,), duration))
    fall = 0.5 * body["gravity"].acceleration * duration**2
    assert run["drone"].tables["state"].rows[-1, 2] == pytest.approx(3.0 - fall, abs=1e-12)
    for name in ("state", "reference", "derived"):
        assert run["drone"].tables[name].times_us[-1] == round(1e6 * duration)
        assert (np.diff(run["drone"].tables[name].times_us) > 0).all()
    replayed = samara.replay(run)
    assert np.array_equal(replayed["drone"].tables["state"].rows, run["drone"].tables["state"].rows)


def test_an_airborne_drone_without_a_start_hovers_above_the_ground():
    scenario = samara.load_scenario("hover", {"drones.airborne": True})
    drone = scenario.drones[0]
    state = initial_state(drone, scenario.environment_by_height(drone.start_W.z))
    assert state.p_W == (0.0, 0.0, 1.0)
    assert max(contact_depths(state, drone.vehicle, scenario.environment)) < -0.9


def test_a_scenario_shows_its_world():
    shown = repr(samara.load_scenario("stack", {"environment.altitude": 1488.0}))
    assert "drones    3 × iris, geometric" in shown
    assert shown.endswith("world     1 event, home at 1488 m")
