"""Stages on every executor: called with floats they define a flight, compiled they fly it."""

from dataclasses import replace

import numpy as np
import pytest
from support.stage_runs import EXECUTORS, StageRun

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.ops import exp
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.estimate.ekf import ekf
from samara.physics.multirotor import complete_environment
from samara.plan.trajectory import hover
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors import part, part_names
from samara.sim.python_sensors import SensorsStage
from samara.sim.simulation import Simulation
from samara.sim.stage import CLOCK_INPUTS, PHYSICS, PythonStage, Stage, insert
from samara.sim.stages.physics import ContactStatus, integrate
from samara.vehicles.build import switch_on
from samara.wind.sources import Gust, WindSum
from samara.wind.turbulence import Dryden

TRACED = [name for name in part_names() if part(name).sensor().traced]
START = Vec3(0.0, 0.0, 3.0)
HOVERING = Drone("d", samara.vehicle("crazyflie_documented"), hover(START), START, airborne=True)


def sensor_scenario(duration=0.1):
    """An Iris in rising, gusty air and its wake, with one of each type of traced sensor and an extended Kalman filter."""
    vehicle = switch_on(switch_on(samara.vehicle("iris"), "rotor_air"), "propwash")
    sensors = tuple({part(name).type_name: part(name).sensor() for name in TRACED}.values())
    drone = Drone("d", vehicle, hover(START), START, airborne=True, sensors=sensors, estimator=ekf(sensors, 0.004))
    wind = WindSum((Dryden(Vec3(4.0, 1.0, 2.0)), Gust(Vec3(1.0, 0.0, 1.0), 0.02, 0.3)))
    return Scenario("every sensor", (drone,), duration, wind=wind, seed=3, rates=Rates(sensor=1000.0))


# Executors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRACED)
def test_a_sensor_gives_the_same_bits_on_every_executor(name):
    """State, queue and reading of two drones over forty samples."""
    sensor = part(name).sensor()
    vehicle = samara.vehicle("iris")
    state, command = samara.hover(vehicle, START)
    setup = {"vehicle": vehicle, "state": state, "command": command, "sensors": (sensor,), "drones": (0, 7), "seed": 2}
    slots = [f"{sensor.name}/{slot}" for slot in ("state", "queue", "reading", "fresh")]
    period_us = round(1e6 / sensor.rate)
    llvm, python = (
        StageRun(SensorsStage(), **setup, period_us=period_us, executor=executor).record(40, *slots)
        for executor in EXECUTORS
    )
    for slot, expected_bits, compiled_bits in zip(slots, python, llvm, strict=True):
        assert compiled_bits.tobytes() == expected_bits.tobytes(), slot


@pytest.mark.long
def test_a_flight_on_the_python_executor_is_the_compiled_one_to_rounding():
    """The same instants and streams, to rounding.

    Tracing folds constants, c₁(c₂x) = (c₁c₂)x, and cancels terms, so physics, filter and controller differ in the last bits of
    a step: by at most 7e-15 of the largest value of a column, measured over 0.1 s. Random numbers, and readings sampled before
    the first step, have the same bits.
    """
    scenario = sensor_scenario()
    python, llvm = (samara.fly(scenario, backend=backend).drone_records[0].tables for backend in ("python", "llvm"))
    assert python.keys() == llvm.keys()
    assert {"imu", "gps", "range_finder", "variance", "environment"} <= python.keys()
    for name, table in python.items():
        np.testing.assert_array_equal(table.times_us, llvm[name].times_us)
        scale = np.abs(table.rows).max(axis=0)
        assert (np.abs(table.rows - llvm[name].rows) <= 1e-12 * scale).all(), name
    for name in ("imu", "magnetometer", "barometer", "optical_flow", "battery_monitor", "range_finder", "environment"):
        assert python[name].rows[0].tobytes() == llvm[name].rows[0].tobytes(), name


def test_a_flight_on_the_python_executor_gives_the_same_bits_stepped_and_replayed():
    short = {"duration": 0.05}
    run, stepped = (
        samara.fly("hover", backend="python", settings=short, step_by_step=stepping) for stepping in (False, True)
    )
    for name, table in run.tables.items():
        assert stepped.tables[name].rows.tobytes() == table.rows.tobytes(), name
    assert samara.replay(run).tables["state"].rows.tobytes() == run.tables["state"].rows.tobytes()


def stage_inputs(group, stage, time, tick):
    """Return the inputs of a stage at an instant of a flight, with all readings fresh."""
    inputs = []
    for path in stage.reads:
        if path in CLOCK_INPUTS:
            inputs.append(time if path == "time" else 0.004)
        else:
            leaves = group.rows(path)[:, 0].tolist() if not path.endswith("/fresh") else [1.0]
            inputs.append(unflatten(group.part(path).template, iter(leaves)))
    if stage.normals is not None:
        inputs.append(tuple(normals(1, stage.name, 0, tick, stage.normals.size).tolist()))
    return tuple(inputs)


@pytest.mark.long
def test_every_compiled_stage_has_the_bits_of_arrays():
    """On floats sin, exp and the like are those of the C library, an ulp away."""
    simulation, compared = Simulation(sensor_scenario()), set()
    codes = {}
    for tick in range(40):
        simulation.advance()
        (group,) = simulation.groups
        for stage in (stage for sets in group.sets.values() for stage in sets[0].stages if stage.rate != PHYSICS):
            inputs = stage_inputs(group, stage, simulation.time_us / 1e6, tick)
            leaves = flatten(inputs)
            if stage not in codes:
                writes = tuple(group.part(path).template for path in stage.writes)
                codes[stage] = CompiledStep(lambda carry, reads, stage=stage: stage(*reads), writes, inputs).machine()
            codes[stage].held_inputs[:, 0] = leaves
            codes[stage].run()
            expected = stage(*unflatten(inputs, iter([np.array([leaf]) for leaf in leaves])))
            np.testing.assert_array_equal(
                codes[stage].carry[:, 0], [float(np.ravel(leaf)[0]) for leaf in flatten(expected)], err_msg=stage.name
            )
            compared.add(stage.name)
    assert {"wake", "imu samples", "prediction", "correction by gps", "controller"} <= compared


def test_a_compiled_physics_step_has_the_bits_of_floats():
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle, START)
    motion = {"v_W": Vec3(1.0, -2.0, 0.5), "q_WB": quat_from_euler(0.1, 0.2, 0.3), "omega_B": Vec3(0.3, -0.2, 1.0)}
    environment = complete_environment(vehicle)._replace(wind_W=Vec3(3.0, 1.0, -0.5))
    inputs = (state._replace(**motion), ContactStatus(), tuple(1.1 * u for u in command), environment, 0.001)
    expected = flatten(integrate(*inputs, vehicle=vehicle))
    code = CompiledStep(lambda carry, reads: integrate(*reads, vehicle=vehicle), (state, ContactStatus()), inputs)
    machine = code.machine()
    machine.run()
    assert machine.carry[:, 0].tolist() == expected


# Printed simulations -------------------------------------------------------------------------------------------------


def test_a_simulation_prints_every_stage_with_its_rate():
    """In the order from one instant to the next; the physics and the contact stage come last."""
    sensors = (part("bmi088").sensor(), part("vicon").sensor())
    rates = Rates(physics=2000.0, control=500.0, wind=40.0, scenario=25.0, log=125.0, sensor=250.0, estimator=250.0)
    drone = replace(HOVERING, sensors=sensors, estimator=ekf(sensors, 0.004))
    simulation = Simulation(Scenario("printed", (drone,), 1.0, rates=rates))
    expected = [
        ("density", rates.wind),
        ("wind", rates.wind),
        ("sensors", rates.sensor),
        ("estimator", rates.estimator),
        ("controller", rates.control),
        ("log", rates.log),
        ("physics", rates.physics),
        ("contact", rates.scenario),
    ]
    assert str(simulation) == " → ".join(f"{name} {rate:g} Hz" for name, rate in expected)
    assert [(line.name, line.rate, line.python_reason) for line in simulation.sequence()] == [
        (*line, "") for line in expected
    ]


def test_stages_in_python_have_a_reason():
    def idle(state, reference, vehicle, controller_state):
        return (0.5,) * 4

    simulation = Simulation(Scenario("idle", (replace(HOVERING, controller=idle),), 1.0, integrator="rk45"))
    reasons = {line.name: line.python_reason for line in simulation.sequence() if line.python_reason}
    assert reasons == {"controller": "controller in Python", "physics": "physics of another integrator or backend"}


# Custom stages -------------------------------------------------------------------------------------------------------


def thermal(p_W, wind_W, *, strength, radius):
    """w_z + s e^{−(x² + y²)/r²}  [m/s]"""
    rise = strength * exp(-(p_W.x * p_W.x + p_W.y * p_W.y) / (radius * radius))
    return (Vec3(wind_W.x, wind_W.y, wind_W.z + rise),)


def rising(p_W, wind_W):
    """Air that rises in proportion to the height."""
    return (Vec3(wind_W.x, wind_W.y, 0.1 * p_W.z),)


class RisingStage(PythonStage):
    rate = "wind"

    def update(self, fleet):
        for group in fleet.groups:
            group.environment.wind_W[2] = 0.1 * group.state.p_W[2]
        fleet.environment_changed = True


AIR = ("state.p_W", "environment.wind_W"), ("environment.wind_W",)
THERMAL = Stage("thermal", "wind", thermal, *AIR, (("strength", 2.0), ("radius", 3.0)))
SWARM = tuple(
    replace(HOVERING, name=f"d{k}", start_W=Vec3(k, 0.0, 3.0 + k), task=hover(Vec3(k, 0.0, 3.0 + k))) for k in range(3)
)
CALM_SWARM = Scenario("thermal", SWARM, 0.5, rates=Rates(log=50.0))


def insert_stage(stage):
    return lambda standard: insert(standard, stage, after="wind")


def test_a_stage_record_flies_compiled_and_is_recorded_and_replayed():
    """Every drone is in the air of the formula at its recorded positions; nothing of it runs in Python."""
    simulation = Simulation(CALM_SWARM, stages=insert_stage(THERMAL))
    assert simulation.python_work() == ()
    assert [(line.rate, line.python_reason) for line in simulation.sequence() if line.name == "thermal"] == [(50.0, "")]
    run = samara.fly(CALM_SWARM, stages=insert_stage(THERMAL))
    calm = samara.fly(CALM_SWARM)
    for track, calm_track in zip(run.drone_records, calm.drone_records, strict=True):
        x, y, _ = track.position.T
        assert track.wind[:, 2] == pytest.approx(2.0 * np.exp(-(x**2 + y**2) / 9.0), rel=1e-14)
        assert track.position[-1, 2] > calm_track.position[-1, 2] + 1e-4
    for replayed, track in zip(samara.replay(run).drone_records, run.drone_records, strict=True):
        np.testing.assert_array_equal(replayed.position, track.position)


def test_a_stage_record_gives_the_same_bits_stepped_and_as_a_python_stage():
    """Compiled, from instant to instant, and written into the same array by NumPy."""
    record = Stage("rising", "wind", rising, *AIR)
    runs = [
        samara.fly(CALM_SWARM, stages=insert_stage(record)),
        samara.fly(CALM_SWARM, stages=insert_stage(record), step_by_step=True),
        samara.fly(CALM_SWARM, stages=insert_stage(RisingStage())),
    ]
    for drone in range(len(SWARM)):
        tables = [run.drone_records[drone].tables for run in runs]
        for name in ("state", "command", "environment"):
            first, *further = (run_tables[name].rows.tobytes() for run_tables in tables)
            assert further == [first, first], name


def test_a_slot_that_does_not_exist_is_named():
    stage = Stage("thermal", "wind", rising, ("state.p_W", "environment.winds_W"), ("environment.wind_W",))
    with pytest.raises(
        ValueError, match=r"slot 'environment' has no part 'environment.winds_W'; expected one of .*wind_W"
    ):
        Simulation(CALM_SWARM, stages=insert_stage(stage))
