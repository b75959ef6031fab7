"""Every registered component flies: stepped, compiled and in a batch with the same bits, on JAX and in a kernel to rounding.

Components come from their registries. One that cannot be traced fails here, with the message of its TraceError.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.components import FIELD, REPLAY, Bundle, bundles, components

import samara
from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import trace_program
from samara.control.registry import create_controller, look_ahead_count
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.estimate.estimator import SensorSample
from samara.physics.multirotor import complete_environment, derivative, state_at_rest, zero_command
from samara.physics.types import Reference
from samara.scenario.scenario import ScenarioError
from samara.sensors.registry import SENSOR_TYPES
from samara.wind.sources import evaluate_wind, is_traced

jax.config.update("jax_enable_x64", True)

BASE = """
schema = 1
duration = 0.1
seed = 5

[rates]
physics = 1000
control = 250
sensor = 500

[[drones]]
name = "drone"
vehicle = "crazyflie"
start = [0.0, 0.0, 2.0]
airborne = true

[[drones.tasks]]
type = "hover"
at = [0.1, 0.0, 2.0]
duration = 10.0
"""
REJECTION = re.compile(r"^base: (.*): expected .*\b(?:jax|pallas)\b")
SEPARATE = ("camera", "depth_camera", "lidar", "mpc", "propwash", "downwash", "field", "replay", "rk45")
"""Components that jax and pallas rejected when this was written: in separate bundles, so that the others fly."""
TOLERANCE = 1e-9
COMPONENTS = components()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_scenario(tmp_path_factory.mktemp("scenario"))


def write_scenario(path):
    (path / "base.toml").write_text(BASE)
    (path / "field.csv").write_text(FIELD)
    (path / "replay.csv").write_text(REPLAY)
    return path / "base.toml"


def can_load(settings):
    with TemporaryDirectory() as path:
        try:
            samara.load_scenario(write_scenario(Path(path)), settings)
        except ScenarioError:
            return False
    return True


def identifier(component):
    return component.identifier


LONE = [Bundle((component,), component.settings) for component in COMPONENTS if component.name in SEPARATE]
TOGETHER = [component for component in COMPONENTS if component.name not in SEPARATE]
BUNDLES = [
    *bundles([component for component in TOGETHER if component.registry != "effect"], can_load),
    *bundles([component for component in TOGETHER if component.registry == "effect"], can_load),
    *LONE,
]
MARKED = [
    pytest.param(component, marks=() if k == 0 else pytest.mark.long, id=component.identifier)
    for k, component in enumerate(BUNDLES)
]


def rows(run):
    """Return the last row of every stream."""
    return {name: table.rows[-1] for name, table in run.drone_records[0].tables.items() if len(table.rows)}


def final(flights, number):
    return np.array(flatten(flights.final))[:, number]


def test_every_component_is_in_a_bundle():
    identifiers = sorted(component.identifier for component in COMPONENTS)
    assert sorted(component.identifier for bundle in BUNDLES for component in bundle.components) == identifiers
    assert len(identifiers) > 50


@pytest.mark.parametrize("bundle", MARKED)
def test_every_component_has_the_same_bits_stepped_compiled_and_in_a_batch(folder, bundle: Bundle):
    scenario = samara.load_scenario(folder, bundle.settings)
    compiled, stepped = samara.fly(scenario), samara.fly(scenario, step_by_step=True)
    assert not compiled.problem
    compiled_rows, stepped_rows = rows(compiled), rows(stepped)
    assert compiled_rows.keys() == stepped_rows.keys()
    for name in compiled_rows:
        assert compiled_rows[name].tobytes() == stepped_rows[name].tobytes(), name
        assert np.isfinite(compiled_rows[name]).all(), name
    np.testing.assert_array_equal(final(samara.fly_many(scenario, 2), 0), compiled_rows["state"])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "pallas"])
@pytest.mark.parametrize("bundle", BUNDLES, ids=identifier)
def test_every_component_flies_on_jax_and_in_a_kernel_or_is_rejected_in_a_sentence(folder, bundle: Bundle, backend):
    """A rejected component must not prevent the others of its bundle from flying."""
    reason = rejection_reason(folder, bundle.settings, backend)
    if reason and len(bundle.components) > 1:
        reasons = [rejection_reason(folder, component.settings, backend) for component in bundle.components]
        assert any(reasons), f"{reason}: refused together, and none of them alone"


def rejection_reason(folder, settings, backend):
    """Return the reason of a rejection; or "" if the final states equal those of the CPU to rounding."""
    scenario = samara.load_scenario(folder, settings)
    try:
        flights = samara.fly_many(scenario, 2, backend=backend, dtype="float64", fast=False)
    except ScenarioError as error:
        reason = REJECTION.search(str(error))
        assert reason, f"not a refusal: {error}"
        return reason[1]
    expected = samara.fly_many(scenario, 2)
    np.testing.assert_allclose(final(flights, 1), final(expected, 1), rtol=TOLERANCE, atol=TOLERANCE)
    return ""


# The functions of a component, traced ------------------------------------------------------------------------------------


def component_function(component, scenario):
    """Return the traced function of a component with arguments for it; None for one that is not traced."""
    drone = scenario.drones[0]
    vehicle, state = drone.vehicle, state_at_rest(drone.vehicle, Vec3(0.1, -0.2, 2.0))
    state = state._replace(v_W=Vec3(0.5, -0.3, 0.2), omega_B=Vec3(0.2, -0.1, 0.3))
    environment, command, dt = complete_environment(vehicle), zero_command(vehicle), 0.004
    if component.registry == "sensor":
        (sensor,) = drone.sensors
        if not sensor.traced:
            return None
        component_state = sensor.initial(vehicle, (0.1,) * sensor.start_normals) if sensor.initial else None
        state_arguments = () if component_state is None else (component_state, dt)
        normals = (0.3,) * sensor.normals_needed
        return lambda x, u, air, n, *state_inputs: sensor.measure(x, u, vehicle, air, n, *state_inputs), (
            state,
            command,
            environment,
            normals,
            *state_arguments,
        )
    if component.registry == "estimator":
        estimator = drone.estimator
        if component.settings.get("drones.sensors"):
            names, samples = (
                estimator.sensor_names,
                tuple(SensorSample(sensor.reading, 1.0) for sensor in (estimator.driver, *estimator.aids)),
            )
            component_state = estimator.initial(state, (0.1,) * estimator.start_normals)
            return lambda readings, *state_inputs: estimator.update(
                dict(zip(names, readings, strict=True)), *state_inputs
            ), (samples, component_state, dt)
        return estimator.update, (state, (0.3,) * estimator.normals_needed, estimator.initial(state), dt)
    if component.registry == "controller":
        if look_ahead_count(component.name):
            return None
        controller, reference_value = (
            create_controller(component.name, vehicle, period=dt),
            Reference(Vec3(0.0, 0.0, 2.0)),
        )
        return lambda x, reference, component_state: controller.call(x, reference, vehicle, component_state), (
            state,
            reference_value,
            controller.initial_state,
        )
    if component.registry == "effect":
        return lambda x, u, air: derivative(x, u, vehicle, air), (state, command, environment)
    if component.registry == "wind":
        wind = scenario.wind
        if not is_traced(wind):
            return None
        arguments = (0.5, dt, (0.3,) * wind.normals_needed, wind.initial(), state.p_W, state.v_W)
        return lambda *inputs: evaluate_wind(wind, *inputs), arguments
    return None


@pytest.mark.parametrize("component", COMPONENTS, ids=identifier)
def test_every_component_traces_to_the_numbers_of_python(folder, component):
    """With the scalars of compiled code, replayed, and with those of JAX, by their shapes."""
    traced_function = component_function(component, samara.load_scenario(folder, component.settings))
    if traced_function is None:
        return
    function, arguments = traced_function
    expected = flatten(function(*arguments))
    groups = [flatten(argument) for argument in arguments]
    program = trace_program(lambda *inputs: (function(*inputs),), *arguments)
    np.testing.assert_allclose(evaluate_program(program, groups)[0], expected, rtol=1e-9, atol=1e-12)

    def trace_leaves(*leaves):
        trace, leaf_iterator = new_trace(jnp.float64), iter(leaves)
        inputs = [
            fold_tree(argument, [next(leaf_iterator) for _ in flatten(argument)], trace) for argument in arguments
        ]
        return [jnp.asarray(x, float) for x in unfold_leaves(function(*inputs))]

    assert len(jax.eval_shape(trace_leaves, *(leaf for group in groups for leaf in group))) == len(expected)


def test_every_type_of_sensor_fails_under_the_name_of_its_fault(folder):
    """After the event there are no new readings; an intact sensor continues."""
    sensors = [sensor for sensor in COMPONENTS if sensor.registry == "sensor" and sensor.name not in SEPARATE]
    (bundle,) = bundles(sensors, can_load)
    settings = {**bundle.settings, "drones.estimator": "truth", "duration": 0.3}
    faults = [min(SENSOR_TYPES[sensor.name].fault_names) for sensor in sensors]
    events = [{"at": 0.15, "do": "fail_sensor", "sensor": fault} for fault in faults]
    failed, intact = (
        samara.fly(samara.load_scenario(folder, {**settings, "events": event_list})).drone_records[0].tables
        for event_list in (events, [])
    )
    for sensor in sensors:
        rows, expected = (
            tables[sensor.name].rows[tables[sensor.name].times_us > 160_000] for tables in (failed, intact)
        )
        assert len(expected) and (rows == failed[sensor.name].rows[-1]).all(), sensor.name
        assert len(rows) <= len(expected)
    changing = [sensor.name for sensor in sensors if np.ptp(intact[sensor.name].rows[-2:], axis=0).any()]
    assert len(changing) > 5
