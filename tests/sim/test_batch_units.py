"""The units of the GPU's flight program, interpreted in Python: each writes what the CPU's stage of the same name writes.

Nothing is compiled for JAX here. `tests/backends/test_flight_jax.py` checks what JAX makes of a program's units.
"""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.integrate import rk4
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.estimate.complementary import complementary
from samara.physics.reference import Reference
from samara.plan.trajectory import hover
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.loader import part
from samara.sim import batch_jax, batch_units
from samara.sim.measures import START
from samara.sim.touching import Touching
from samara.wind.turbulence import Dryden

PARTS = ("bmi088", "vicon", "bmp388", "vl53l1x", "pmw3901")
SEED = 3
ROUNDING = 1e-13
VARIED = {
    "mass": np.array([0.030, 0.028, 0.035]),
    "drag.linear": np.array([[0.010, 0.020, 0.030], [0.011, 0.022, 0.033], [0.013, 0.026, 0.039]]),
    "rotors.k_thrust": np.array([2.1e-8, 2.2e-8, 2.3e-8]),
    "wind.sigma_aloft": np.array([0.7, 1.3, 1.9]),
    "wind.mean.wind_W.y": np.array([-2.0, -1.5, 1.0]),
}
"""As many flights as `drag.linear` has components: each shape must be read as (flights, components)"""


def descent() -> Scenario:
    """A descent onto the ground in turbulence, turned and moving along all axes, with every kind of traced sensor"""
    parts = [
        part(name, **({"airspeed_pressure": 0.3, "rotor_pressure": -0.2} if name == "bmp388" else {})) for name in PARTS
    ]
    sensors = tuple(own.sensor(r_B=Vec3(0.01, -0.02, 0.005)) if own.kind == "imu" else own.sensor() for own in parts)
    drone = Drone(
        "drone",
        samara.vehicle("crazyflie"),
        hover(Vec3(0.1, 0.0, -0.5)),
        start_W=Vec3(0.3, -0.2, 0.0202),
        yaw=0.4,
        airborne=True,
        sensors=sensors,
        estimator=complementary(sensors, 4e-3),
    )
    rates = Rates(log=50.0, sensor=250.0)
    return Scenario("descent", (drone,), 0.06, wind=Dryden(Vec3(3.0, -1.0, 0.5)), rates=rates, seed=SEED)


class Interpreter:
    """One flight of a program in Python floats, unit by unit, with the draws of `samara.core.random`."""

    def __init__(self, scenario, seeds, flight, vary):
        self.program = batch_units.flight_program(scenario, tuple(vary))
        self.tables = batch_jax.tables(scenario, self.program)
        values = batch_jax.start_values(scenario, self.program, seeds, vary, None, None, "float64")
        self.seed = int(seeds[flight])
        self.slots = {
            name: unflatten(
                self.program.slots[name], iter([float(np.broadcast_to(x, len(seeds))[flight]) for x in own])
            )
            for name, own in values.items()
        }
        self.hardest = 0.0  # [m/s]: the fastest touch of the ground
        self.written = {"state": {0: flatten(self.slots["state"])}}

    def fly(self):
        """{slot: {time [µs]: leaves}} at every tick"""
        program = self.program
        for time_us in range(0, program.duration_us + 1, program.tick_us):
            for unit in program.units:
                since = time_us - unit.after_us
                if since >= 0 and since % program.periods[unit.axis] == 0 and self._is_needed(unit, time_us):
                    self._update(unit, time_us)
            if time_us < program.duration_us:
                for _ in range(program.tick_us // program.periods["physics"]):
                    self._update(program.physics.step, time_us)
                    self.hardest = max(self.hardest, self.slots["touching"].impact_speed)
        return self

    def _is_needed(self, unit, time_us):
        return unit.needed is None or bool(unit.needed(*self._inputs(unit, time_us)))

    def _update(self, unit, time_us):
        inputs = self._inputs(unit, time_us)
        if unit.draws is not None:
            source, count, axis = unit.draws
            tick = time_us // self.program.periods[axis or unit.axis]
            inputs.append(tuple(normals(self.seed, source, 0, tick, count).tolist()))
        for name, value in zip(unit.writes, unit.update(*inputs), strict=True):
            self.slots[name] = value
            after = time_us + self.program.tick_us if name == "state" else time_us
            self.written.setdefault(name, {})[after] = flatten(value)

    def _inputs(self, unit, time_us):
        program, inputs = self.program, []
        for name in unit.reads:
            if name == "time":
                inputs.append(time_us / 1e6)
            elif name == "dt":
                first = time_us == 0 and unit.first_dt is not None
                inputs.append(unit.first_dt if first else program.periods[unit.axis] / 1e6)
            elif name in program.tables:
                row = self.tables[name][time_us // program.periods[program.tables[name]]]
                inputs.append(unflatten(program.slots[name], iter(row.tolist())))
            else:
                inputs.append(self.slots[name])
        return inputs


@pytest.fixture(scope="module")
def interpreted():
    """Interpret a scenario's program: in Python, with no code of JAX compiled"""

    def drawn_at_start(keys, drone, count, dtype):
        seeds, source = keys
        return np.stack([normals(int(seed), source, drone, 0, count) for seed in seeds], axis=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_jax, "keys_of", lambda seeds, source: (seeds, source))
        patch.setattr(batch_jax, "first_draws", drawn_at_start)
        patch.setattr(batch_units, "rk4_rolled", rk4)
        patch.setattr(batch_units, "rk4_in_kernel", rk4)
        yield lambda scenario, seeds=(SEED,), flight=0, vary=None: Interpreter(
            scenario, np.array(seeds), flight, vary or {}
        ).fly()


@pytest.fixture(scope="module")
def flights(interpreted):
    """The flight of the CPU, and that of the GPU's units"""
    return samara.fly(descent()).tracks[0], interpreted(descent())


STREAMS = {
    "state": "state",
    "command": "command",
    "estimate": "estimate",
    "imu": "imu said",
    "motion_capture": "motion_capture said",
    "barometer": "barometer said",
    "range_finder": "range_finder said",
    "optical_flow": "optical_flow said",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_each_unit_writes_what_the_stage_of_the_cpu_records(flights, stream):
    track, found = flights
    table, written = track.tables[stream], found.written[STREAMS[stream]]
    assert len(table.times_us) > 1
    for time_us, row in zip(table.times_us.tolist(), table.rows, strict=True):
        np.testing.assert_allclose(written[time_us][: len(row)], row, rtol=ROUNDING, atol=ROUNDING)


def test_the_air_unit_writes_the_wind_and_density_of_the_cpu(flights):
    track, program = flights
    table, air = track.tables["environment"], program.written["air"]
    for time_us, row in zip(table.times_us.tolist(), table.rows, strict=True):
        np.testing.assert_allclose(air[time_us], row[:4], rtol=ROUNDING, atol=ROUNDING)
    assert len({tuple(values[:3]) for values in air.values()}) > 2
    assert len({values[3] for values in air.values()}) > 2


def test_the_metrics_unit_measures_what_the_recording_shows(flights):
    track, found = flights
    measures, state = found.slots["measures"], track.tables["state"].rows
    assert measures.speed == pytest.approx(np.linalg.norm(state[:, 3:6], axis=1).max(), rel=1e-12)
    assert (measures.highest, measures.lowest) == pytest.approx((state[:, 2].max(), state[:, 2].min()), rel=1e-12)
    assert measures.touchdown_speed == found.hardest > 0.0
    assert [float(own) for own in found.slots["status"]] == track.tables["status"].rows[-1].tolist()


@pytest.mark.parametrize("flight", range(3))
def test_varied_parameters_reach_their_own_flight_and_their_own_slot(flights, flight):
    """Three flights, three components of drag: each unit computes what it computes for a vehicle with row i written into it"""
    scenario, found = descent(), flights[1]
    program = batch_units.flight_program(scenario, tuple(VARIED))
    values = batch_jax.start_values(scenario, program, np.arange(3), VARIED, None, None, "float64")
    varied = {
        name: unflatten(program.slots[name], iter([float(leaf[flight]) for leaf in values[name]]))
        for name in ("varied", "varied wind")
    }
    own = {name: value[flight] for name, value in VARIED.items()}
    rotors = tuple(
        rotor._replace(k_thrust=float(own["rotors.k_thrust"])) for rotor in scenario.drones[0].vehicle.rotors
    )
    drag = Vec3(*own["drag.linear"].tolist())
    changes = {"mass": float(own["mass"]), "drag.linear": drag, "rotors": rotors}
    drone = replace(scenario.drones[0], vehicle=scenario.drones[0].vehicle.replace(changes))
    mean = replace(scenario.wind.mean, wind_W=Vec3(3.0, float(own["wind.mean.wind_W.y"]), 0.5))
    wind = replace(scenario.wind, mean=mean, sigma_aloft=float(own["wind.sigma_aloft"]))
    written = batch_units.flight_program(replace(scenario, drones=(drone,), wind=wind))
    slots = found.slots | {"time": 0.06, "dt": 0.02, "asked": Reference(Vec3(0.1, 0.2, 0.3))}
    compared = set()
    for unit, expected in zip(
        (*program.units, program.physics.step), (*written.units, written.physics.step), strict=True
    ):
        if unit.name == "autopilot" or not {"varied", "varied wind"} & set(unit.reads):
            continue  # the controller's gains stay those of the scenario's vehicle
        normal = (tuple(0.1 * k - 0.2 for k in range(unit.draws.normals)),) if unit.draws else ()
        one = unit.update(*((slots | varied)[name] for name in unit.reads), *normal)
        other = expected.update(*((slots | {"varied": (), "varied wind": ()})[name] for name in unit.reads), *normal)
        nominal = unit.update(
            *((slots | {name: program.slots[name] for name in varied})[name] for name in unit.reads), *normal
        )
        np.testing.assert_allclose(flatten(one), flatten(other), rtol=ROUNDING, atol=ROUNDING, err_msg=unit.name)
        if flatten(one) != flatten(nominal):
            compared.add(unit.name)
    assert {"physics", "wind", "imu samples", "barometer samples"} <= compared


def test_every_source_is_keyed_by_the_seeds_of_all_flights(interpreted):
    """Among them those at turn-on: two flights with sensors of the same part have other biases"""
    scenario, seeds = descent(), np.array([3, 8, 3])
    program = batch_units.flight_program(scenario)
    values, keys = batch_jax.given_to(scenario, program, seeds, dtype="float64")
    assert set(keys) == {"wind", *(f"sensor {own.name}" for own in scenario.drones[0].sensors)}
    assert all(own[0].tolist() == seeds.tolist() and own[1] == source for source, own in keys.items())
    for slot in ("imu memory", "barometer memory", "filter"):
        leaves = np.array([np.broadcast_to(leaf, 3) for leaf in values[slot]])
        moves = leaves[:, 0] != leaves[:, 1]
        assert moves.any() and (leaves[:, 0] == leaves[:, 2]).all()


def test_a_touch_of_the_ground_is_counted_once():
    touchdown = batch_units.flight_program(descent()).units[0]
    state = samara.hover(samara.vehicle("crazyflie"))[0]
    after, status, measures = touchdown.update(state, (), Touching(0.0, 0.2, 0.3), batch_units.Status(), START)
    assert after == Touching(0.0, 0.2, 0.0) and status == batch_units.Status(0.0, 0.0)
    assert measures.touchdown_speed == 0.3
