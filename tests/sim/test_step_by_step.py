"""A flight as one compiled program equals the flight stepped from Python: every stream, bit for bit, and every log line."""

from dataclasses import replace

import pytest
from support.recorded_flights import FLIGHTS, streams

import samara
from samara.core.algebra import Vec3
from samara.core.ops import sqrt
from samara.physics.effect import Effect, Wrench
from samara.scenario import events
from samara.scenario.events import Event, at, when
from samara.scenario.timeline import Rates
from samara.sim.simulation import Simulation
from samara.sim.stage import PythonStage, insert

SHORT = 0.6  # [s]
LONG_TO_COMPILE = ("battery_sag", "figure8 mpc", "low_battery", "slung_load", "hakoniwa_mission", "stack")
TURBULENT = {"wind": [{"model": "turbulence", "speed": 4.0, "sigma": 0.6, "tau": 2.0}]}
INTERRUPTIONS = (  # between ticks, on them, and by a condition: everything that interrupts the program
    Event(at(0.1), events.fail_sensor("gps")),
    Event(at(0.123457), events.degrade_motor(2, 0.8)),
    Event(at(0.2), events.add_payload(0.1, (0.02, 0.0, -0.05))),
    Event(at(0.25), events.gust((3.0, 0.0, 0.0), 0.2)),
    Event(at(0.3), events.freeze_estimator()),
    Event(at(0.4), events.unfreeze_estimator()),
    Event(when("time > 0.45"), events.go_to((1.0, 0.0, 3.0))),
)


def run_data(run):
    """Return times and values of every stream, and the log, as bytes and text."""
    values = {
        name: (table.fields, table.times_us.tobytes(), table.rows.tobytes()) for name, table in streams(run).items()
    }
    return values, [(line.time_us, line.level, line.message) for line in run.logs], run.problem


def assert_same_stepped(scenario, **options):
    """Fly as a program and step by step; return the program's run."""
    program, stepped = samara.fly(scenario, **options), samara.fly(scenario, step_by_step=True, **options)
    program_data, stepped_data = run_data(program), run_data(stepped)
    assert program_data[0].keys() == stepped_data[0].keys()
    for name, values in program_data[0].items():
        assert values == stepped_data[0][name], name
    assert program_data[1:] == stepped_data[1:]
    return program


@pytest.mark.parametrize(
    "flight",
    [pytest.param(flight, marks=pytest.mark.long if flight in LONG_TO_COMPILE else ()) for flight in FLIGHTS],
)
def test_the_beginning_of_every_shipped_flight(flight):
    name, _, controller = flight.partition(" ")
    scenario = samara.load_scenario(name, {"duration": SHORT})
    assert_same_stepped(scenario, controller=controller or None)


@pytest.mark.long
@pytest.mark.parametrize("flight", FLIGHTS)
def test_every_shipped_flight_to_its_end(flight):
    name, _, controller = flight.partition(" ")
    assert_same_stepped(samara.load_scenario(name), controller=controller or None)


def test_faults_a_payload_and_conditions_with_sensors_and_filter_in_wind():
    scenario = samara.load_scenario("sensors", {"duration": SHORT, **TURBULENT})
    run = assert_same_stepped(replace(scenario, events=INTERRUPTIONS))
    assert len(run.logs) == len(INTERRUPTIONS) + 1


@pytest.mark.parametrize("count", [9, 17])
def test_drones_in_whole_vectors_and_a_remainder(count):
    """Nine are eight and one, seventeen twice eight and one; one of them loses power."""
    size = {"drones.count": count, "drones.columns": 5, "duration": SHORT, **TURBULENT}
    trouble = Event(at(0.2), events.degrade_motor(1, 0.5, drone="cf3"))
    assert_same_stepped(replace(samara.load_scenario("swarm", size), events=(trouble,)))


def test_a_controller_in_python():
    def climbing(state, reference, vehicle, controller_state):
        thrust = 0.6 + 0.1 * (reference.p_W.z - state.p_W.z)
        return (thrust,) * 4

    scenario = samara.load_scenario("wind", {"duration": SHORT})
    assert_same_stepped(scenario, controller=climbing)


class RisingStage(PythonStage):
    """Air that rises in proportion to the height."""

    rate = "wind"

    def update(self, fleet):
        for group in fleet.groups:
            group.environment.wind_W[2] = 0.1 * group.state.p_W[2]
        fleet.environment_changed = True


def test_a_custom_stage():
    scenario = samara.load_scenario("wind", {"duration": SHORT})
    run = assert_same_stepped(scenario, stages=lambda standard: insert(standard, RisingStage(), after="wind"))
    assert (run.wind[:, 2] > 0.1).all()


def test_steps_of_varying_length():
    assert_same_stepped(samara.load_scenario("wind", {"duration": SHORT, "integrator": "rk45"}))


def test_rates_that_do_not_divide_each_other():
    """Periods of 1429, 3333, 4000, 7143, 11 111 and 14 286 µs: most ticks lie inside a physics step, which then is shorter."""
    periods = {"physics": 1429, "control": 3333, "estimator": 7143, "wind": 14_286, "log": 11_111}
    rates = Rates(sensor=250.0, **{name: 1e6 / period for name, period in periods.items()})
    assert_same_stepped(replace(samara.load_scenario("wind", {"duration": SHORT}), rates=rates))


@pytest.mark.parametrize("strict, message", [(False, "expected a finite number"), (True, "expected finite numbers")])
def test_a_state_that_is_not_finite_has_the_same_message_and_the_same_rows_before_it(strict, message):
    """A force of 0.01 √(1 + v_z) N is not a number when it falls faster than 1 m/s.

    The program continues to the end of its second before Python checks. When strict, the following command is reported first.
    """
    scenario = samara.load_scenario("wind", {"duration": 2.0, "drones.sensors": []})
    diverging = Effect(
        "lost", wrench=lambda parameters, state, *_: Wrench(Vec3(0.0, 0.0, 0.01 * sqrt(1.0 + state.v_W.z)))
    )
    drone = replace(scenario.drones[0], vehicle=scenario.drones[0].vehicle.with_effect(diverging))
    scenario = replace(scenario, drones=(drone,), events=(Event(at(0.105), events.disarm()),), strict=strict)
    results = []
    for step_by_step in (False, True):
        blocks, lines = [], []
        simulation = Simulation(scenario, lambda new_blocks, logs: (blocks.extend(new_blocks), lines.extend(logs)))  # noqa: B023
        with pytest.raises(FloatingPointError, match=message) as caught:
            simulation.run(step_by_step=step_by_step)
        simulation.flush()
        values = {topic: (block.times_us.tobytes(), block.rows.tobytes()) for block in blocks for topic in block.topics}
        results.append((str(caught.value), simulation.time_us, [tuple(line) for line in lines], values))
    program, stepped = results
    assert program[:3] == stepped[:3]
    assert program[3].keys() == stepped[3].keys()
    for topic, rows in program[3].items():
        assert rows == stepped[3][topic], topic
