"""Every registered component flies: stepped, compiled and in a batch to the same bits, and on JAX and in a kernel to rounding.

A component is found in its registry. One that cannot be traced fails here, with the sentence of its TraceError.
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
from samara.compiler.jax.folding_scalar import folded, new_trace, unfolded
from samara.compiler.trace.program import program_of
from samara.compiler.trace.tape_scalar import play
from samara.control.registry import controller_named, instants_ahead
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.estimate.estimator import Sample
from samara.physics.multirotor import at_rest, derivative, empty_command, environment_of
from samara.physics.types import Reference
from samara.scenario.scenario import ScenarioError
from samara.sensors.registry import SENSOR_TYPES
from samara.wind.sources import is_traced, wind_at

jax.config.update("jax_enable_x64", True)

BASE = """
schema = 1
duration = 0.1
seed = 5

[rates]
physics = 1000
autopilot = 250
sensor = 500

[[drones]]
name = "drone"
vehicle = "crazyflie"
start = [0.0, 0.0, 2.0]
airborne = true

[[drones.tasks]]
kind = "hover"
at = [0.1, 0.0, 2.0]
duration = 10.0
"""
REFUSED = re.compile(r"^base: (.*): expected .*\b(?:jax|pallas)\b")
ALONE = ("depth_camera", "lidar", "ilqr", "propwash", "downwash", "field", "replay", "rk45")
"""Components that jax and pallas refused when this was written: in bundles of their own, so that the others fly"""
TOLERANCE = 1e-9
COMPONENTS = components()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("scenario"))


def written(path):
    (path / "base.toml").write_text(BASE)
    (path / "field.csv").write_text(FIELD)
    (path / "replay.csv").write_text(REPLAY)
    return path / "base.toml"


def loads(settings):
    with TemporaryDirectory() as path:
        try:
            samara.load_scenario(written(Path(path)), settings)
        except ScenarioError:
            return False
    return True


def identifier(own):
    return own.identifier


LONE = [Bundle((own,), own.settings) for own in COMPONENTS if own.name in ALONE]
TOGETHER = [own for own in COMPONENTS if own.name not in ALONE]
BUNDLES = [
    *bundles([own for own in TOGETHER if own.registry != "effect"], loads),
    *bundles([own for own in TOGETHER if own.registry == "effect"], loads),
    *LONE,
]
MARKED = [
    pytest.param(own, marks=() if k == 0 else pytest.mark.long, id=own.identifier) for k, own in enumerate(BUNDLES)
]


def rows(run):
    """The last row of every stream"""
    return {name: table.rows[-1] for name, table in run.tracks[0].tables.items() if len(table.rows)}


def final(flights, number):
    return np.array(flatten(flights.final))[:, number]


def test_every_component_is_in_a_bundle():
    everyone = sorted(own.identifier for own in COMPONENTS)
    assert sorted(own.identifier for bundle in BUNDLES for own in bundle.components) == everyone
    assert len(everyone) > 50


@pytest.mark.parametrize("bundle", MARKED)
def test_every_component_has_the_same_bits_stepped_compiled_and_in_a_batch(folder, bundle: Bundle):
    scenario = samara.load_scenario(folder, bundle.settings)
    compiled, stepped = samara.fly(scenario), samara.fly(scenario, step_by_step=True)
    assert not compiled.problem
    expected, found = rows(compiled), rows(stepped)
    assert expected.keys() == found.keys()
    for name in expected:
        assert expected[name].tobytes() == found[name].tobytes(), name
        assert np.isfinite(expected[name]).all(), name
    np.testing.assert_array_equal(final(samara.fly_many(scenario, 2), 0), expected["state"])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "pallas"])
@pytest.mark.parametrize("bundle", BUNDLES, ids=identifier)
def test_every_component_flies_on_jax_and_in_a_kernel_or_is_refused_in_a_sentence(folder, bundle: Bundle, backend):
    """What one component of a bundle is refused for is no reason for the others"""
    refused = flown_or_refused(folder, bundle.settings, backend)
    if refused and len(bundle.components) > 1:
        alone = [flown_or_refused(folder, own.settings, backend) for own in bundle.components]
        assert any(alone), f"{refused}: refused together, and none of them alone"


def flown_or_refused(folder, settings, backend):
    """The reason of a refusal; or nothing, where the final states are those of the CPU to rounding"""
    scenario = samara.load_scenario(folder, settings)
    try:
        flights = samara.fly_many(scenario, 2, backend=backend, dtype="float64", fast=False)
    except ScenarioError as error:
        reason = REFUSED.search(str(error))
        assert reason, f"not a refusal: {error}"
        return reason[1]
    expected = samara.fly_many(scenario, 2)
    np.testing.assert_allclose(final(flights, 1), final(expected, 1), rtol=TOLERANCE, atol=TOLERANCE)
    return ""


# The functions of a component, traced ------------------------------------------------------------------------------------


def function_of(component, scenario):
    """What is traced of a component, and arguments for it; None for one that says that it is not traced"""
    drone = scenario.drones[0]
    vehicle, state = drone.vehicle, at_rest(drone.vehicle, Vec3(0.1, -0.2, 2.0))
    state = state._replace(v_W=Vec3(0.5, -0.3, 0.2), omega_B=Vec3(0.2, -0.1, 0.3))
    around, command, dt = environment_of(vehicle), empty_command(vehicle), 0.004
    if component.registry == "sensor":
        (sensor,) = drone.sensors
        if not sensor.traced:
            return None
        memory = sensor.initial(vehicle, (0.1,) * sensor.start_normals) if sensor.initial else None
        more = () if memory is None else (memory, dt)
        drawn = (0.3,) * sensor.normals_needed
        return lambda x, u, air, n, *rest: sensor.measure(x, u, vehicle, air, n, *rest), (
            state,
            command,
            around,
            drawn,
            *more,
        )
    if component.registry == "estimator":
        own = drone.estimator
        if component.settings.get("drones.sensors"):
            names, samples = own.needs, tuple(Sample(sensor.reading, 1.0) for sensor in (own.driver, *own.aids))
            memory = own.initial(state, (0.1,) * own.start_normals)
            return lambda heard, *rest: own.update(dict(zip(names, heard, strict=True)), *rest), (samples, memory, dt)
        return own.update, (state, (0.3,) * own.normals_needed, own.initial(state), dt)
    if component.registry == "controller":
        if instants_ahead(component.name):
            return None
        own, wanted = controller_named(component.name, vehicle, period=dt), Reference(Vec3(0.0, 0.0, 2.0))
        return lambda x, reference, memory: own.call(x, reference, vehicle, memory), (state, wanted, own.memory)
    if component.registry == "effect":
        return lambda x, u, air: derivative(x, u, vehicle, air), (state, command, around)
    if component.registry == "wind":
        wind = scenario.wind
        if not is_traced(wind):
            return None
        arguments = (0.5, dt, (0.3,) * wind.normals_needed, wind.initial(), state.p_W, state.v_W)
        return lambda *given: wind_at(wind, *given), arguments
    return None


@pytest.mark.parametrize("component", COMPONENTS, ids=identifier)
def test_every_component_traces_to_the_numbers_of_python(folder, component):
    """With the scalars of compiled code, replayed, and with those of JAX, for their shapes"""
    found = function_of(component, samara.load_scenario(folder, component.settings))
    if found is None:
        return
    function, arguments = found
    expected = flatten(function(*arguments))
    groups = [flatten(own) for own in arguments]
    program = program_of(lambda *given: (function(*given),), *arguments)
    np.testing.assert_allclose(play(program, groups)[0], expected, rtol=1e-9, atol=1e-12)

    def traced(*leaves):
        trace, numbers = new_trace(jnp.float64), iter(leaves)
        given = [folded(own, [next(numbers) for _ in flatten(own)], trace) for own in arguments]
        return [jnp.asarray(x, float) for x in unfolded(function(*given))]

    assert len(jax.eval_shape(traced, *(leaf for group in groups for leaf in group))) == len(expected)


def test_every_type_of_sensor_fails_under_the_name_of_its_fault(folder):
    """From the event on there is no new reading; a sensor that is not failed goes on"""
    sensors = [own for own in COMPONENTS if own.registry == "sensor" and own.name not in ALONE]
    (bundle,) = bundles(sensors, loads)
    settings = {**bundle.settings, "drones.estimator": "truth", "duration": 0.3}
    faults = [min(SENSOR_TYPES[own.name].fault_names) for own in sensors]
    events = [{"at": 0.15, "do": "fail_sensor", "sensor": fault} for fault in faults]
    failed, whole = (
        samara.fly(samara.load_scenario(folder, {**settings, "events": own})).tracks[0].tables for own in (events, [])
    )
    for own in sensors:
        rows, expected = (tables[own.name].rows[tables[own.name].times_us > 160_000] for tables in (failed, whole))
        assert len(expected) and (rows == failed[own.name].rows[-1]).all(), own.name
        assert len(rows) <= len(expected)
    changing = [own.name for own in sensors if np.ptp(whole[own.name].rows[-2:], axis=0).any()]
    assert len(changing) > 5
