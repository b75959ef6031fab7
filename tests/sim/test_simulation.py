"""The running simulation: the order of its stages, what events do and when, what is held, and what two runs share."""

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
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.events import QUANTITIES, Event, at, at_step, when
from samara.scenario.flight_events import Against, Fact
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import BUS_SCHEMA_VERSION, require_command, sanitized
from samara.scenario.timeline import Rates
from samara.sensors.sensor import IMU, Sensor
from samara.sim.fly import fingerprint, fly
from samara.sim.initial_state import initial_state
from samara.sim.simulation import Simulation
from samara.vehicles.defaults import contact_depths
from samara.vehicles.limits import command_range
from samara.wind.sources import Constant, OrnsteinUhlenbeck

ABOVE = Vec3(0.0, 0.0, 3.0)


def hovering(*, vehicle="crazyflie_documented", duration=1.0, happening=(), **more):
    """One drone that hovers at 3 m."""
    own = {key: more.pop(key) for key in ("estimator", "controller", "motor_map", "armed", "sensors") if key in more}
    drone = Drone("drone", samara.vehicle(vehicle), trajectory.hover(ABOVE), ABOVE, airborne=True, **own)
    return Scenario("test", (drone,), duration, events=tuple(happening), **more)


# Stages and holds ---------------------------------------------------------------------------------------------------


def test_events_come_before_wind_and_wind_before_the_log_of_the_same_instant():
    """A wind step at 0.5 s is in the environment recorded at 0.5 s, and the state logged there has not felt it."""
    run = fly(hovering(happening=[Event(at(0.5), events.wind_step((3.0, 0.0, 0.0)))]))
    changes = run.tracks[0].tables["environment"]
    assert (changes["wind_W.x"] == np.where(changes.times_us < 500_000, 0.0, 3.0)).all()
    assert 500_000 in changes.times_us
    moment = np.searchsorted(run.time, 0.5)
    assert run.time[moment] == 0.5
    assert abs(run.velocity[moment, 0]) < 1e-12
    assert run.velocity[moment + 5, 0] > 1e-3


def test_an_event_between_ticks_happens_at_its_own_microsecond():
    """0.123457 s is on no axis: the plant stops there, and the change is recorded there."""
    run = fly(hovering(happening=[Event(at(0.123457), events.fail_motor(0))], duration=0.2))
    changes = run.tracks[0].tables["environment"]
    assert changes.times_us[changes["motor_power[0]"] == 0.0][0] == 123_457


def test_a_failed_motor_spins_down_with_its_lag_from_that_instant():
    """Ω(t) = Ω₀ e^{−(t − t₀)/τ}, by closed form."""
    run = fly(hovering(happening=[Event(at(0.1), events.fail_motor(2))], duration=0.15))
    lag = samara.vehicle("crazyflie_documented").rotors[2].motor.fall
    moment = np.searchsorted(run.time, 0.1)
    after = run.time[moment:] - 0.1
    assert run.rotor_speed[moment:, 2] == pytest.approx(run.rotor_speed[moment, 2] * np.exp(-after / lag), rel=1e-6)


def test_the_wind_is_held_between_its_ticks():
    """Turbulence sampled at 20 Hz: its recorded changes are 50 ms apart, and the plant sees nothing between."""
    run = fly(hovering(wind=OrnsteinUhlenbeck(Vec3(2.0, 0.0, 0.0), 0.5, 1.0), rates=Rates(wind=20.0)))
    assert set(np.diff(run.tracks[0].tables["environment"].times_us)) == {50_000}


def test_disarmed_motors_get_nothing_until_armed():
    """On the ground with armed = False every command is 0; after `arm` the same drone lifts off."""
    drone = Drone(
        "drone", samara.vehicle("crazyflie_documented"), trajectory.take_off(Vec3(0, 0, 0), height=1.0), armed=False
    )
    run = fly(Scenario("arming", (drone,), 3.0, events=(Event(at(1.0), events.arm()),)))
    before = run.command_time < 1.0
    assert run.command[before].max() == 0.0
    assert run.command[~before].max() > 0.3


def test_at_step_counts_physics_steps():
    """Step 123 of 1 ms is 0.123 s."""
    run = fly(hovering(happening=[Event(at_step(123), events.wind_step((1.0, 0, 0)))], duration=0.2))
    changes = run.tracks[0].tables["environment"]
    assert changes.times_us[changes["wind_W.x"] == 1.0][0] == 123_000


def test_when_happens_once_at_the_first_scenario_tick_that_sees_it():
    """Climbing past 3.1 m: the event fires on the 50 Hz axis, just after, and never again."""
    up = trajectory.take_off(ABOVE, height=4.0, speed=0.5)
    scenario = hovering(
        happening=[Event(at(0.0), events.follow(up)), Event(when("height > 3.1"), events.wind_step((0.5, 0, 0)))],
        duration=2.0,
    )
    run = fly(scenario)
    table = run.tracks[0].tables["environment"]
    fired = int(table.times_us[np.flatnonzero(table["wind_W.x"] == 0.5)[0]])
    assert fired % 20_000 == 0
    crossing = run.time[np.searchsorted(run.position[:, 2], 3.1)]
    assert crossing <= fired / 1e6 <= crossing + 0.021
    assert sum("wind" in line.message for line in run.logs) == 1


def test_a_condition_may_be_any_function_of_the_bus():
    seen = []

    def after_half(bus):
        seen.append(bus.time_us)
        return bus.time >= 0.5

    run = fly(hovering(happening=[Event(when(after_half), events.gust((2.0, 0, 0), 0.2))]))
    assert seen == list(range(0, 500_001, 20_000)), "asked at every scenario tick, and no more once it has happened"
    wind = run.tracks[0].tables["environment"]
    assert wind["wind_W.x"].max() == pytest.approx(2.0, rel=0.05)
    assert wind["wind_W.x"][-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 135.0, 180.0])
def test_the_tilt_is_the_angle_between_up_and_the_bodys_own(degrees):
    """About any level axis, whatever the heading"""
    about = math.radians(degrees)
    for yaw in (0.0, 1.0):
        q_WB = quat_from_euler(0.0, 0.0, yaw) * quat_exp(Vec3(0.6 * about, 0.8 * about, 0.0))
        own = SimpleNamespace(state=SimpleNamespace(q_WB=q_WB))
        assert QUANTITIES["tilt_deg"](None, own) == pytest.approx(degrees, abs=1e-5)


# The tasks that events give -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [events.go_to((2.0, 0.0, 3.0)), events.take_off(5.0)])
def test_a_task_without_a_speed_has_a_peak_of_two_metres_a_second(task):
    """Over 2 m in 15/8 · 2 m / (2 m/s), fastest in the middle"""
    run = fly(hovering(duration=1.9, happening=[Event(at(0.0), task)]))
    speeds = np.linalg.norm(run.tracks[0].tables["reference"]["v_W"], axis=1)
    assert speeds.max() == pytest.approx(2.0, rel=1e-3)
    assert run.time[speeds.argmax()] == pytest.approx(15.0 / 16.0, abs=0.02)


def test_go_to_return_and_land():
    """Three tasks one after the other: each ends where it says."""
    scenario = hovering(
        duration=16.0,
        happening=[
            Event(at(0.5), events.go_to((2.0, 1.0, 3.0))),
            Event(at(5.0), events.return_home()),
            Event(at(9.0), events.land(speed=1.0)),
        ],
    )
    run = fly(scenario)
    assert run.position[np.searchsorted(run.time, 4.9)] == pytest.approx([2.0, 1.0, 3.0], abs=0.05)
    assert run.position[np.searchsorted(run.time, 8.9)] == pytest.approx([0.0, 0.0, 3.0], abs=0.05)
    assert run.position[-1, 2] < 0.05
    aim = run.tracks[0].tables["reference"]["p_W"][-1]
    assert aim == pytest.approx([0.0, 0.0, -0.3], abs=1e-9)  # below the ground, to be pressed onto it
    assert run.logs[-1].message == "landed"
    assert run.crashed == ()


def test_a_new_task_starts_where_the_reference_is():
    """No jump of position, velocity or acceleration when one task ends another in mid-flight."""
    run = fly(
        hovering(duration=3.0, happening=[Event(at(0.5), events.go_to((3.0, 0, 3))), Event(at(1.2), events.land())])
    )
    reference = run.tracks[0].tables["reference"]
    for field, most in (("p_W", 0.03), ("v_W", 0.06), ("a_W", 0.4)):
        assert np.abs(np.diff(reference[field], axis=0)).max() < most, field
    assert reference["v_W.x"].max() > 1.0


# Faults -------------------------------------------------------------------------------------------------------------


def test_a_disconnected_battery_stops_the_motors():
    """No current: the rotors coast down and the iris falls."""
    run = fly(
        hovering(vehicle="iris_documented", happening=[Event(at(0.2), events.disconnect_battery())], duration=0.8)
    )
    assert run.rotor_speed[-1].max() < 0.6 * run.rotor_speed[0].max()
    assert run.velocity[-1, 2] < -1.5


def test_a_failed_cell_takes_its_share_of_the_voltage():
    """Eleven of twelve cells: the duty that hovers is the exact trim of a battery with a twelfth less open-circuit voltage."""
    iris = samara.vehicle("iris_documented")
    table = tuple(11.0 / 12.0 * volts for volts in iris["battery"][0].table_voltage)
    trims = [samara.hover(own)[1][0] for own in (iris, iris.replace({"battery.table_voltage": table}))]
    run = fly(hovering(vehicle="iris_documented", happening=[Event(at(1.0), events.fail_cell(12))], duration=3.0))
    whole = fly(hovering(vehicle="iris_documented", duration=3.0))
    assert run.command[-1].mean() / whole.command[-1].mean() == pytest.approx(trims[1] / trims[0], rel=0.003)
    assert trims[1] / trims[0] > 12.0 / 11.0, "less voltage, more current, more sag"


def test_a_payload_keeps_position_and_momentum_of_the_body_continuous():
    """50 g under a hovering 28 g Crazyflie would be too much; 8 g at 3 cm below makes it sink, and the controller adds lift."""
    run = fly(hovering(happening=[Event(at(0.5), events.add_payload(0.008, (0.0, 0.0, -0.03)))], duration=3.0))
    jump = np.abs(np.diff(run.position[:, 2]))
    assert jump.max() < 0.008, "the centre of mass moves by m_p r/(m + m_p) = 6.7 mm, and by nothing else at once"
    assert run.rotor_speed[-1].mean() / run.rotor_speed[0].mean() == pytest.approx(math.sqrt(36.0 / 28.0), rel=0.01)


def test_sensors_that_fail_leave_what_they_said():
    """Without GPS the estimate of position stays; the truth drifts away with the wind."""
    blown = [Event(at(0.5), events.fail_sensor("gps")), Event(at(0.6), events.wind_step((2.0, 0, 0)))]
    run = fly(hovering(estimator=noisy_estimator(), happening=blown, duration=2.0))
    estimate = run.tracks[0].tables["estimate"]
    late = estimate.times_us > 500_000
    assert np.ptp(estimate["p_W.x"][late]) == 0.0
    assert run.position[-1, 0] > 0.3


def test_a_delayed_estimate_is_the_state_of_then():
    """40 ms late at 250 Hz: the estimate logged at t is the state logged at t − 40 ms, bit for bit, where both axes meet."""
    moving = [Event(at(0.0), events.follow(trajectory.line(ABOVE, (2.0, 0.0, 3.0), speed=1.0)))]
    run = fly(hovering(estimator=delayed_estimator(0.04, 0.004), happening=moving))
    estimate = run.tracks[0].tables["estimate"]["p_W.x"]
    assert (estimate[4::2] == run.position[:-4:2, 0]).all()
    assert estimate[-1] > 0.1


def test_the_controller_flies_on_the_estimate():
    """Noise in the estimate shakes the commands; the truth does not."""
    calm, shaken = (fly(hovering(estimator=own, duration=0.5)) for own in (samara_truth(), noisy_estimator()))
    assert shaken.command.std(axis=0).max() > 50.0 * calm.command[5:].std(axis=0).max() + 1e-6


def samara_truth():
    from samara.estimate.ideal import TRUTH

    return TRUTH


def test_a_motor_map_wires_channels_to_rotors():
    """With the channels of a mixed-up wiring and a controller that knows nothing of it, the wrong rotors speed up."""

    def only_channel_one(state, reference, vehicle, memory):
        return (0.0, 0.8, 0.0, 0.0)

    run = fly(hovering(controller=only_channel_one, motor_map=(2, 3, 0, 1), duration=0.2))
    assert run.command[-1].tolist() == [0.0, 0.0, 0.0, 0.8], "channel 1 drives rotor 3"


# Commands of one's own ----------------------------------------------------------------------------------------------


def test_a_controller_of_ones_own_is_one_function():
    """Hover command held: it stays up for a moment, with memory counting its calls."""
    vehicle = samara.vehicle("crazyflie_documented")
    _, command = samara.hover(vehicle)

    def hold(state, reference, vehicle, memory):
        count = memory[0] + 1 if memory else 1
        return command, (count,)

    run = fly(hovering(duration=0.4), controller=hold)
    assert run.tracks[0].controller == "hold"
    assert run.position[-1, 2] == pytest.approx(3.0, abs=1e-3)
    assert (run.command == np.array(command)).all()


def test_nan_from_ones_own_controller_is_an_error_with_channel_and_time():
    def bad(state, reference, vehicle, memory):
        return (0.5, 0.5, math.nan, 0.5)

    with pytest.raises(ValueError, match=r"command of motor 2 is nan at 0\.000000 s"):
        fly(hovering(), controller=bad)


def test_ones_own_controller_may_ask_for_the_time_and_the_period_by_name():
    """Whichever of them it names, as a keyword or not; at 100 Hz they are 0, 10, 20 ms … and 10 ms."""
    trim, heard = samara.hover(samara.vehicle("crazyflie_documented"))[1], []

    def both(state, reference, vehicle, memory, time, dt):
        heard.append((time, dt))
        return trim

    def one(state, reference, vehicle, memory, *, time=-1.0):
        heard.append(time)
        return trim

    class Timed:
        def __call__(self, state, reference, vehicle, memory, dt):
            heard.append(dt)
            return trim

    for controller, expected in (
        (both, [(0.0, 0.01), (0.01, 0.01), (0.02, 0.01)]),
        (one, [0.0, 0.01, 0.02]),
        (Timed(), [0.01, 0.01, 0.01]),
        (lambda *_: trim, []),
    ):
        heard.clear()
        fly(hovering(duration=0.02, rates=Rates(autopilot=100.0)), controller=controller)
        assert heard == expected


def too_much(state, reference, vehicle, memory):
    """Within its range but for motors 1 and 3 from the fifth call on: 1.7 and -0.2."""
    count = memory[0] + 1 if memory else 1
    return ((0.5, 1.7, 0.5, -0.2) if count >= 5 else (0.5, 0.5, 0.5, 0.5)), (count,)


def test_strict_a_command_out_of_range_is_an_error_with_drone_time_channel_and_value(tmp_path):
    """And the recording has it, up to there."""
    sentence = "drone: the controller's command of motor 1 is 1.7 at 0.016000 s; expected a number within [0, 1]"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        fly(hovering(strict=True), controller=too_much, out=tmp_path / "run.mcap")
    run = samara.load_run(tmp_path / "run.mcap")
    assert [line.message for line in run.logs if line.level == "error"] == [sentence]
    assert len(run.command) == 4


def test_a_command_out_of_range_is_cut_counted_and_warned_of_once(tmp_path):
    """0.4 s at 250 Hz are 101 commands; of two motors 97 of them are out of range, by 0.7 and by -0.2."""
    with pytest.warns(RuntimeWarning, match=r"motor 1 is 1\.7 at 0\.016000 s.* it is clipped to that range") as warned:
        run = fly(hovering(duration=0.4), controller=too_much, out=tmp_path / "run.mcap")
    assert len(warned) == 1 and [line.level for line in run.logs].count("warning") == 1
    assert run.command_time.size == 101 and (run.command[4:] == (0.5, 1.0, 0.5, 0.0)).all()
    assert run.tables["excess"].rows == pytest.approx(np.tile([0.0, 0.7, 0.0, -0.2], (97, 1)), abs=1e-15)
    assert run.commands_cut == 2 * 97 == samara.load_run(tmp_path / "run.mcap").commands_cut
    told = run.summary()["commands out of range"]
    assert (told.value, told.text) == (194, "194")


@pytest.mark.filterwarnings("error")
def test_what_the_allocation_limits_is_no_command_out_of_range(tmp_path):
    """A compiled controller stays within what its rotors give, however far it is asked to go; nor does rounding count."""
    far = hovering(duration=0.1, strict=True)
    far = replace(far, drones=tuple(replace(own, task=trajectory.hover((50.0, 0.0, 90.0))) for own in far.drones))
    assert fly(far).commands_cut == 0
    run = fly(far, controller=lambda *_: (1.0 + 1e-9, -1e-9, 0.5, 0.5), out=tmp_path / "run.mcap")
    assert run.commands_cut == 0 and "commands out of range" not in run.summary()
    assert (run.command == (1.0, 0.0, 0.5, 0.5)).all()


def test_a_speed_has_its_motors_range_and_a_wrench_has_none():
    """What [0, 1] is to a normalized command, idle and top speed are to one in rad/s; a thrust of 40 N is nothing odd."""
    lag = samara.vehicle("crazyflie_documented").rotors[0].motor
    own = RigidBodyQuadrotor(motor_lag=0.05).vehicle
    top = own.rotors[0].motor.speed_max
    assert command_range(samara.vehicle("crazyflie_documented")) == (0.0, 1.0) and lag.speed_max == 2500.0
    assert command_range(own) == (own.rotors[0].motor.speed_min, top)
    drone = Drone("it", own, trajectory.hover(ABOVE), ABOVE, airborne=True, controller=lambda *_: (2.0 * top,) * 4)
    with pytest.raises(ValueError, match=r"it: the controller's command of motor 0 is .* at 0\.000000 s"):
        fly(Scenario("fast", (drone,), 0.1, strict=True))
    body = samara.vehicle("rigid_body_quadrotor")
    strong = replace(drone, vehicle=body, controller=lambda *_: (40.0, 0.0, 0.0, 0.0))
    assert command_range(body) is None
    assert fly(Scenario("strong", (strong,), 0.1, strict=True)).commands_cut == 0


def test_a_controller_that_answers_nonsense_is_told_what_is_expected():
    with pytest.raises(ValueError, match=r"expected 4 numbers, or \(those, its state\)"):
        fly(hovering(), controller=lambda *arguments: (1.0, 2.0))


def test_sanitising_counts_what_it_changes():
    assert sanitized((0.5, math.nan, 1.5, -0.1, math.inf)) == ((0.5, 0.0, 1.0, 0.0, 0.0), 4)
    assert sanitized((0.5, 1.0)) == ((0.5, 1.0), 0)
    with pytest.raises(
        ValueError, match=r"px4: command of motor 1 is 1\.1 at 2\.500000 s; expected .* within \[0, 1\]"
    ):
        require_command((0.5, 1.1), (0.0, 1.0), "px4", 2_500_000)
    require_command((0.5, 1.0 + 1e-7), (0.0, 1.0), "px4", 0)


# The bus ------------------------------------------------------------------------------------------------------------


def test_the_bus_holds_the_instant():
    simulation = Simulation(hovering(vehicle="iris_documented", wind=Constant(Vec3(1.0, 2.0, 0.0))))
    for _ in range(40):
        simulation.advance()
    bus = simulation.bus()
    own = bus.drones[0]
    assert bus.schema == BUS_SCHEMA_VERSION
    assert bus.time_us == simulation.time_us
    assert bus.wind_W == own.environment.wind_W == (1.0, 2.0, 0.0)
    assert len(own.command.motors) == 12 and len(own.command.servos) == 8
    assert own.command.motors[4:] == (0.0,) * 8
    assert own.faults.motor_disable_mask == 0
    (battery,) = own.batteries
    assert 0.9 < battery.charge < 1.0
    assert 10.0 < battery.voltage < 12.6
    assert battery.current > 10.0, "positive discharges"


def test_a_load_between_two_ticks_of_the_autopilot_leaves_the_reference_of_the_next():
    """At 0.5001 s the vehicle becomes another: what it is asked is what the tick at 0.504 s will ask."""
    ring = trajectory.circle(ABOVE, radius=2.0, speed=2.0)
    scenario = hovering(happening=[Event(at(0.5001), events.add_payload(0.002))])
    simulation = Simulation(replace(scenario, drones=(replace(scenario.drones[0], task=ring),)))
    while simulation.time_us < 500_100:
        simulation.advance()
    asked = simulation.bus().drones[0].reference
    assert asked.p_W == pytest.approx(ring.at(0.504).p_W, abs=1e-12)
    assert asked.p_W != pytest.approx(ring.at(0.5).p_W, abs=1e-4)


# Determinism --------------------------------------------------------------------------------------------------------


def gusty():
    return hovering(
        wind=OrnsteinUhlenbeck(Vec3(1.0, 0.0, 0.0), 0.4, 1.0), estimator=noisy_estimator(), seed=7, duration=1.5
    )


def test_the_same_scenario_and_seed_are_the_same_bits():
    """Also with another flight before it, in other threads, and another seed is another flight."""
    first = fingerprint(fly(gusty()))
    fly(hovering(duration=0.2))
    assert fingerprint(fly(gusty())) == first
    found = []
    threads = [threading.Thread(target=lambda: found.append(fingerprint(fly(gusty())))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first] * 3
    assert fingerprint(fly(replace(gusty(), seed=8))) != first


def test_a_drone_does_not_depend_on_its_neighbours():
    """Alone, and as the second of three in one world: the first drone's draws are its own, and so are its bits."""
    one = gusty()
    drone = one.drones[0]
    three = replace(
        one,
        drones=(
            drone,
            replace(drone, name="b", start_W=Vec3(5, 0, 3)),
            replace(drone, name="c", start_W=Vec3(9, 0, 3)),
        ),
    )
    alone, among = fly(one), fly(three)
    assert (alone["drone"].tables["state"].rows == among["drone"].tables["state"].rows).all()
    assert not np.array_equal(among["b"].velocity, among["c"].velocity), "each has its own noise"


def test_ten_thousand_events_at_one_instant():
    """All happen, in their order: the last wind stands."""
    many = [Event(at(0.1), events.wind_step((k / 10_000, 0.0, 0.0))) for k in range(10_000)]
    run = fly(hovering(happening=many, duration=0.2))
    assert list(dict.fromkeys(run.tracks[0].tables["environment"]["wind_W.x"].tolist())) == [0.0, 0.9999]
    assert len(run.logs) == 10_001


def test_a_state_that_is_lost_is_said_and_what_was_flown_is_kept(tmp_path):
    """A controller-made catastrophe: infinite wind cannot be given, so the plant's state is spoilt by hand."""
    simulation = Simulation(hovering(duration=0.5))
    simulation.groups[0].plant.state[4, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"drone: v_W\.y is nan at 0\.000000 s; expected a finite number"):
        simulation.run()


# Sensors ------------------------------------------------------------------------------------------------------------


def test_an_ideal_imu_feels_g_at_hover_and_nothing_in_free_fall():
    """Specific force: (0, 0, g) while the rotors carry it; with the battery off and the rotors spun down, the drag alone."""
    run = fly(hovering(sensors=(IMU,), duration=8.0))
    imu, g = run.tracks[0].tables["imu"], samara.vehicle("crazyflie_documented")["gravity"].acceleration
    assert imu.times_us.tolist() == list(range(0, 8_000_001, 10_000))
    assert imu["specific_force_B.z"][0] == pytest.approx(g, rel=1e-12)  # in trim at the density of its height
    # the controller's model has the density at home, 2.9e-4 more than 3 m above it: it sags by 0.2 mm, settled after 8 s
    assert imu["specific_force_B.z"][-1] == pytest.approx(g, rel=1e-6)
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping", "rotors")
    falling = Drone("drone", vehicle, trajectory.hover(ABOVE), ABOVE, controller=lambda *_: (0.0,) * 4, sensors=(IMU,))
    felt = fly(Scenario("fall", (falling,), 0.3)).tracks[0].tables["imu"]
    assert np.abs(felt["specific_force_B"]).max() == 0.0


def test_a_sensor_of_ones_own_is_one_function():
    """An altimeter with 5 cm of noise: its own draws, recorded with its units, and on the bus."""

    def height(state, command, vehicle, environment, normals):
        return (state.p_W.z + 0.05 * normals[0],)

    altimeter = Sensor("altimeter", ("height",), ("m",), height, normals_needed=1)
    seen = []
    watching = Event(when(lambda bus: seen.append(bus.drones[0].measurements.get("altimeter")) or False), events.arm())
    run = fly(hovering(sensors=(altimeter,), happening=[watching], duration=2.0))
    said = run.tracks[0].tables["altimeter"]
    assert said.units == ("m",)
    error = said["height"] - np.interp(said.time, run.time, run.position[:, 2])
    assert error.std() == pytest.approx(0.05, rel=0.25)
    assert abs(error.mean()) < 0.02
    assert seen[50][0] in said["height"]


def test_a_sensor_that_says_something_else_is_told_what_is_expected():
    wrong = Sensor("wrong", ("a", "b"), ("1", "1"), lambda *_: (1.0,))
    with pytest.raises(ValueError, match=r"sensor 'wrong' gave \(1\.0,\); expected 2 numbers: a, b"):
        fly(hovering(sensors=(wrong,), duration=0.1))
    with pytest.raises(ValueError, match="has 1 fields and 2 units"):
        Sensor("x", ("a",), ("1", "1"), lambda *_: (1.0,))


def test_follow_brings_the_drone_to_where_a_trajectory_begins():
    """A circle 2 m away, from flight: no jump of the reference, and then the circle."""
    circle = trajectory.circle((3.0, 0.0, 3.0), radius=1.0, speed=1.0)
    run = fly(hovering(duration=12.0, happening=[Event(at(0.5), events.follow(circle))]))
    assert np.abs(np.diff(run.tracks[0].tables["reference"]["p_W"], axis=0)).max() < 0.03
    away = np.linalg.norm(run.reference_position[-1] - [3.0, 0.0, 3.0])
    assert away == pytest.approx(1.0, abs=1e-6)


def test_whoever_touches_the_ground_faster_than_three_metres_a_second_has_crashed():
    """Dropped from v²/2g without drag, looked at every millisecond: 2.97 m/s is a landing, 3.03 m/s a crash, and says so."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    g = vehicle["gravity"].acceleration

    def dropped(speed):
        start = Vec3(speed, 0.0, speed**2 / (2.0 * g))
        return Drone(f"at {speed}", vehicle, trajectory.hover(start), start, armed=False)

    speeds = (1.0, 2.97, 3.03, 3.5)
    run = fly(Scenario("drop", tuple(map(dropped, speeds)), 0.5, rates=Rates(scenario=1000.0)))
    assert run.crashed == ("at 3.03", "at 3.5")
    said = [line.message for line in run.logs[:-1] if "crashed" in line.message]
    assert said == [f"at {speed} crashed: touched the ground at {speed:.1f} m/s" for speed in speeds[2:]]
    assert run.logs[-1].message == "crashed: at 3.03, at 3.5"


@pytest.mark.parametrize("integrator", ["rk4", "rk45"])
def test_an_impact_between_two_looks_is_judged_by_the_speed_it_had(integrator):
    """As often as the ground is looked at by default, 20 ms, an impact is over: v = √(2 g h) at the touch says what it was,
    wherever between two looks that is."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    speeds = [2.9, *np.linspace(3.05, 4.3, 6 if integrator == "rk45" else 26).tolist()]

    def dropped(speed):
        start = Vec3(speed, 0.0, speed**2 / (2.0 * vehicle["gravity"].acceleration))
        return Drone(f"{speed:.2f}", vehicle, trajectory.hover(start), start, armed=False)

    run = fly(Scenario("drop", tuple(map(dropped, speeds)), 0.7, integrator=integrator))
    names = [f"{speed:.2f}" for speed in speeds[1:]]
    crashes = [own for own in run.facts if own.fact is Fact.CRASHED]
    assert {own.against for own in crashes} == {Against.GROUND}
    assert {run.tracks[own.drone].name: own.speed for own in crashes} == pytest.approx(
        dict(zip(names, speeds[1:], strict=True)), abs=0.02
    )
    assert run.crashed == tuple(names)
    assert not any(track.status("landed")[1:].any() for track in run.tracks[1:])


def test_what_lies_upside_down_has_not_landed():
    """Set down gently, on its propellers: leaning over, it crashed; neither its status nor its track says landed"""
    vehicle = samara.vehicle("crazyflie_documented").replace({"rotors.motor.speed_min": 0.0})
    start = Vec3(0.0, 0.0, 0.05)
    drone = Drone("drone", vehicle, trajectory.hover(start), start, armed=False, airborne=True)
    simulation = Simulation(Scenario("upset", (drone,), 1.0))
    simulation.groups[0].plant.state[6:10, 0] = (0.0, 1.0, 0.0, 0.0)
    simulation.run()
    state = simulation.groups[0].plant.state[:, 0]
    assert state[2] == pytest.approx(vehicle["contact"].top, abs=1e-3)
    assert np.linalg.norm(state[3:6]) < 0.01
    assert simulation.crashed[0] and not simulation.landed[0]


@pytest.mark.parametrize(("speed", "words"), [(1.0, "landed"), (4.0, "crashed")])
def test_a_wreck_lies_still_and_has_not_landed(speed, words):
    """Dropped and come to rest: after a landing the last word is that, after a crash it never is."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag").replace({"rotors.motor.speed_min": 0.0})
    start = Vec3(0.0, 0.0, speed**2 / (2.0 * vehicle["gravity"].acceleration))
    drone = Drone("drone", vehicle, trajectory.hover(start), start, armed=False)
    run = fly(Scenario("drop", (drone,), 4.0, rates=Rates(scenario=1000.0)))
    track = run.tracks[0]
    assert np.linalg.norm(track.velocity[-1]) < 0.01
    assert track.status("landed")[-1] == (words == "landed") and track.status("crashed")[-1] == (words == "crashed")
    assert run.logs[-1].message == words


# On another backend --------------------------------------------------------------------------------------------------


SLOWLY = pytest.mark.long


@pytest.mark.parametrize(
    ("integrator", "backend", "within"),
    [
        ("rk4", "python", 1e-9),
        ("rk4", "numpy", 1e-9),
        pytest.param("rk4", "jax", 1e-9, marks=SLOWLY),
        pytest.param("rk45", "python", 1e-7, marks=SLOWLY),
    ],
)
def test_physics_on_another_backend_is_the_same_flight(integrator, backend, within):
    """Two drones in wind, one of them on its feet: to rounding, as the trace adds in another order than Python. Steps of its
    own choice are the same to their tolerance, and in the air: rounding decides in which microsecond a foot begins to slip."""
    one = hovering(vehicle="rigid_body_quadrotor", duration=0.02, wind=Constant(Vec3(3.0, -1.0, 0.0)))
    iris = replace(one.drones[0], name="iris", vehicle=samara.vehicle("iris"), start_W=Vec3(2.0, 0.0, 4.0))
    if integrator == "rk4":
        iris = replace(iris, airborne=False, start_W=ZERO)
    scenario = replace(one, drones=(*one.drones, iris), integrator=integrator)
    compiled, flown = fly(scenario), fly(scenario, backend=backend)
    assert "backend" not in compiled.metadata and flown.metadata["backend"] == backend
    for a, b in zip(compiled.tracks, flown.tracks, strict=True):
        assert np.abs(a.velocity).max() > 1e-3
        for name in ("state", "command", "environment"):
            np.testing.assert_allclose(b.tables[name].rows, a.tables[name].rows, rtol=within, atol=within)
    again = samara.replay(flown)
    assert fingerprint(again) == fingerprint(flown)


def test_in_python_an_equation_sees_plain_floats():
    """What a debugger would show: three drones, each in numbers of its own at every stage of every step."""
    seen = set()

    def look(own, state, command, vehicle, environment):
        seen.add((type(state.p_W.z), type(command[0]), type(environment.wind_W.x)))
        return Wrench()

    scenario = hovering(vehicle="rigid_body_quadrotor", duration=0.004)
    watched = replace(scenario.drones[0], vehicle=scenario.drones[0].vehicle.with_effect(Effect("look", wrench=look)))
    drones = tuple(replace(watched, name=f"drone{k}") for k in range(3))
    simulation = Simulation(replace(scenario, drones=drones, backend="python"))
    seen.clear()
    while simulation.advance():
        pass
    assert seen == {(float, float, float)}


def test_a_backend_that_no_flight_runs_on_gets_one_sentence():
    with pytest.raises(ValueError, match=r"^backend 'pallas': expected one of llvm, python, numpy, jax"):
        fly("hover", backend="pallas")


# The end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", [0.2, 0.205, 0.2034])
def test_the_last_state_is_recorded(duration):
    """A flight that falls freely ends at z₀ − g t²/2 of its duration, also between two ticks of the log; and replays."""
    body = samara.vehicle("rigid_body_quadrotor").without_effect("drag")
    drone = Drone("drone", body, trajectory.hover(ABOVE), ABOVE, airborne=True, armed=False)
    run = fly(Scenario("fall", (drone,), duration))
    fallen = 0.5 * body["gravity"].acceleration * duration**2
    assert run["drone"].tables["state"].rows[-1, 2] == pytest.approx(3.0 - fallen, abs=1e-12)
    for name in ("state", "reference", "outputs"):
        assert run["drone"].tables[name].times_us[-1] == round(1e6 * duration)
        assert (np.diff(run["drone"].tables[name].times_us) > 0).all()
    again = samara.replay(run)
    assert np.array_equal(again["drone"].tables["state"].rows, run["drone"].tables["state"].rows)


def test_an_airborne_drone_without_a_start_hovers_above_the_ground():
    scenario = samara.load_scenario("hover", {"drones.airborne": True})
    drone = scenario.drones[0]
    state = initial_state(drone, scenario.environment_at(drone.start_W.z))
    assert state.p_W == (0.0, 0.0, 1.0)
    assert max(contact_depths(state, drone.vehicle, scenario.environment)) < -0.9


def test_a_scenario_is_shown_in_one_line():
    for name in samara.scenario_names():
        assert len(repr(samara.load_scenario(name))) < 120
    shown = repr(samara.load_scenario("stack", {"environment.altitude": 1488.0}))
    assert shown == "<Scenario 'stack': 3 × iris, 12 s, seed 0, home at 1488 m, 1 event>"
