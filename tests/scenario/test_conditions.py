"""Conditions of events and the criteria of landing for one drone: on floats, compiled, and against their definitions."""

import math

import numpy as np
import pytest

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.scan import compile_scan_jax
from samara.compiler.scan import Templates
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, quat_exp
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import complete_environment, state_at_rest, zero_command
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.scenario.batteries import BatteryFailsafe, battery_status, evaluate_batteries, failsafe_events
from samara.scenario.events import (
    COMPARISONS,
    QUANTITIES,
    Comparison,
    ConditionInputs,
    is_satisfied,
    parse_condition,
    when,
    when_charge_below,
)
from samara.scenario.landing import CRASH_TILT, TAKEOFF_CLEARANCE, touchdown
from samara.scenario.scenario import Drone
from samara.scenario.snapshot import BatteryStatus

IRIS = samara.vehicle("iris")


def random_drone(seed):
    """Return the state, reference, command and environment of a tilted, moving drone with a partly discharged battery."""
    rng = np.random.default_rng(seed)
    state, command = samara.hover(IRIS)
    axis = rng.uniform(-2.0, 2.0, 3)
    p_W, v_W, aim_W = (Vec3(*rng.uniform(-5.0, 5.0, 3).tolist()) for _ in range(3))
    effects = list(state.effects)
    index = IRIS.index("battery")
    effects[index] = tuple(battery._replace(charge=float(rng.uniform(0.2, 0.9))) for battery in effects[index])
    state = state._replace(p_W=p_W, v_W=v_W, q_WB=quat_exp(Vec3(*axis.tolist())), effects=tuple(effects))
    return state, Reference(aim_W), command, complete_environment(IRIS)


def expected_quantities(seed, landed, crashed):
    """Compute every quantity of the same drone with NumPy."""
    state, reference, command, environment = random_drone(seed)
    R = np.array(matrix_from_quat(state.q_WB)).reshape(3, 3)
    (battery,) = state.effects[IRIS.index("battery")]
    (status,) = battery_status(state, command, IRIS, environment)
    return {
        "time": 2.5,
        "x": state.p_W.x,
        "y": state.p_W.y,
        "height": state.p_W.z,
        "speed": np.linalg.norm(state.v_W),
        "climb": state.v_W.z,
        "tilt_deg": np.degrees(np.arccos(R[2, 2])),
        "yaw_deg": np.degrees(np.arctan2(R[1, 0], R[0, 0])),
        "charge": battery.charge,
        "voltage": status.voltage,
        "error": np.linalg.norm(np.array(state.p_W) - np.array(reference.p_W)),
        "landed": landed,
        "crashed": crashed,
    }


def test_every_quantity_has_its_defined_value_on_floats_and_compiled():
    """Three drones at once: compiled quantities against floats, and floats against NumPy's rotation matrix."""

    def body(carry, inputs):
        time, state, reference, landed, crashed, command, environment = inputs
        drone = ConditionInputs(
            state, reference, landed, crashed, evaluate_batteries(state, command, IRIS, environment)
        )
        return tuple(quantity(time, drone) for quantity in QUANTITIES.values())

    templates = (0.0, state_at_rest(IRIS), Reference(ZERO), 0.0, 0.0, zero_command(IRIS), complete_environment(IRIS))
    machine = CompiledStep(body, (0.0,) * len(QUANTITIES), templates).machine(3)
    for column in range(3):
        state, reference, command, environment = random_drone(column)
        inputs = (2.5, state, reference, float(column == 1), float(column == 2), command, environment)
        machine.held_inputs[:, column] = flatten(inputs)
    machine.run()
    for column in range(3):
        state, reference, command, environment = random_drone(column)
        drone = ConditionInputs(
            state, reference, column == 1, column == 2, battery_status(state, command, IRIS, environment)
        )
        expected = expected_quantities(column, float(column == 1), float(column == 2))
        assert set(expected) == set(QUANTITIES)
        for row, (name, quantity) in enumerate(QUANTITIES.items()):
            assert quantity(2.5, drone) == pytest.approx(expected[name], rel=1e-12, abs=1e-12), name
            assert machine.carry[row, column] == pytest.approx(quantity(2.5, drone), rel=1e-14, abs=1e-14), name


def test_a_condition_compares_as_its_signs_do():
    """At, below and above the limit, also compiled; several comparisons are combined by `and`."""
    drone = ConditionInputs(state_at_rest(IRIS), Reference(ZERO), True, False)
    truth_tables = {"<": (1, 0, 0), "<=": (1, 1, 0), ">": (0, 0, 1), ">=": (0, 1, 1), "==": (0, 1, 0)}
    assert set(truth_tables) == set(COMPARISONS)
    sentences = {sign: parse_condition(f"time {sign} 2 and landed == 1") for sign in truth_tables}
    machine = CompiledStep(
        lambda carry, inputs: tuple(
            is_satisfied(sentence, inputs[0], drone._replace(landed=inputs[1])) for sentence in sentences.values()
        ),
        (0.0,) * len(truth_tables),
        (0.0, 0.0),
    ).machine(3)
    machine.held_inputs[:] = [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]
    machine.run()
    for row, (sign, truth) in enumerate(truth_tables.items()):
        assert [is_satisfied(sentences[sign], time, drone) for time in (1.0, 2.0, 3.0)] == [bool(x) for x in truth]
        assert machine.carry[row].tolist() == list(truth)
    machine.held_inputs[1] = 0.0
    machine.run()
    assert not machine.carry.any()


def test_without_a_battery_the_charge_is_full_and_no_voltage_is_low():
    drone = ConditionInputs(state_at_rest(IRIS), Reference(ZERO), False, False)
    assert not is_satisfied(parse_condition("charge < 1"), 0.0, drone) and not is_satisfied(
        parse_condition("voltage < 1e9"), 0.0, drone
    )
    two = drone._replace(batteries=(BatteryStatus(0.7, 11.0, 1.0, True), BatteryStatus(0.4, 11.0, 1.0, True)))
    assert is_satisfied(parse_condition("charge < 0.5"), 0.0, two) and not is_satisfied(
        parse_condition("charge < 0.4"), 0.0, two
    )


def test_a_condition_keeps_its_sentence_and_a_function_has_none():
    written = when("height > 5 and speed < 0.5", "scout")
    assert written.comparisons == (Comparison("height", ">", 5.0), Comparison("speed", "<", 0.5))
    assert written.drone == "scout"
    assert when_charge_below(0.3).comparisons == (Comparison("charge", "<", 0.3),)
    assert when(lambda bus: True).comparisons == ()
    with pytest.raises(ValueError, match="'height > 5 and' cannot be parsed; expected one of time, x"):
        when("height > 5 and")


def test_the_failsafe_is_written_as_conditions():
    """Return below 30 %, land below 20 %, and disarm after landing."""
    drone = Drone("d", IRIS, trajectory.hover(ZERO), battery_failsafe=BatteryFailsafe(0.3, 0.2))
    return_trigger, land_trigger, disarm_trigger = (event.trigger for event in failsafe_events(drone))
    assert (return_trigger.comparisons, land_trigger.comparisons) == (
        (Comparison("charge", "<", 0.3),),
        (Comparison("charge", "<", 0.2),),
    )
    assert disarm_trigger.comparisons == (*land_trigger.comparisons, Comparison("landed", "==", 1.0))
    assert return_trigger.drone == land_trigger.drone == disarm_trigger.drone == "d"


def test_landed_and_crashed_by_their_criteria():
    """Cases computed by hand, on floats, on arrays, compiled and in JAX: at rest, too fast, tilted, after impact, crashed."""
    level, over = Quat(1.0, 0.0, 0.0, 0.0), quat_exp(Vec3(CRASH_TILT + 1e-6, 0.0, 0.0))
    almost = quat_exp(Vec3(0.0, CRASH_TILT - 1e-6, 0.0))
    slow, slower = Vec3(0.06, 0.0, 0.0801), Vec3(0.06, 0.0, 0.0799)  # |v| = 0.1 between them
    high, low = TAKEOFF_CLEARANCE, math.nextafter(TAKEOFF_CLEARANCE, 0.0)
    fast, faster = Vec3(0.18, 0.0, 0.2399), Vec3(0.18, 0.0, 0.2401)  # |v| = 0.3 between them
    cases = [  # v_W, q_WB, omega_B, clearance, impact speed, landed and crashed before → landed, crashed, crashed now
        ((ZERO, level, ZERO, -1e-4, 0.0, 0.0, 0.0), (1, 0, 0)),
        ((ZERO, level, ZERO, 0.0, 0.0, 0.0, 0.0), (0, 0, 0)),
        ((slow, level, ZERO, -1e-4, 0.0, 0.0, 0.0), (0, 0, 0)),
        ((slower, level, ZERO, -1e-4, 0.0, 0.0, 0.0), (1, 0, 0)),
        ((ZERO, level, Vec3(0.0, 0.3, 0.0), -1e-4, 0.0, 0.0, 0.0), (0, 0, 0)),
        ((ZERO, almost, ZERO, -1e-4, 0.0, 0.0, 0.0), (1, 0, 0)),
        ((ZERO, over, ZERO, -1e-4, 0.0, 0.0, 0.0), (0, 1, 1)),
        ((ZERO, over, ZERO, 1.0, 0.0, 0.0, 0.0), (0, 0, 0)),
        ((ZERO, level, ZERO, -1e-4, 3.0, 0.0, 0.0), (1, 0, 0)),
        ((ZERO, level, ZERO, -1e-4, math.nextafter(3.0, 4.0), 0.0, 0.0), (0, 1, 1)),
        ((ZERO, level, ZERO, 1.0, 3.1, 0.0, 0.0), (0, 1, 1)),
        ((ZERO, level, ZERO, -1e-4, 0.0, 0.0, 1.0), (0, 1, 0)),
        ((ZERO, over, ZERO, -1e-4, 9.0, 0.0, 1.0), (0, 1, 0)),
        ((Vec3(math.nan, 0.0, 0.0), level, ZERO, -1e-4, 0.0, 1.0, 0.0), (0, 0, 0)),
        ((ZERO, level, ZERO, low, 0.0, 1.0, 0.0), (1, 0, 0)),  # a bounce
        ((ZERO, level, ZERO, high, 0.0, 1.0, 0.0), (0, 0, 0)),
        ((fast, level, ZERO, -1e-4, 0.0, 1.0, 0.0), (1, 0, 0)),
        ((faster, level, ZERO, -1e-4, 0.0, 1.0, 0.0), (0, 0, 0)),
        ((ZERO, level, Vec3(0.89, 0.0, 0.0), low, 0.0, 1.0, 0.0), (1, 0, 0)),
        ((ZERO, level, Vec3(0.91, 0.0, 0.0), -1e-4, 0.0, 1.0, 0.0), (0, 0, 0)),
        ((ZERO, level, ZERO, low, 3.1, 1.0, 0.0), (0, 1, 1)),
    ]

    def evaluate(v_W, q_WB, omega_B, clearance, impact_speed, landed, crashed):
        status = {"landed": landed, "crashed": crashed}
        return touchdown(v_W, q_WB, omega_B, clearance=clearance, impact_speed=impact_speed, **status)

    for inputs, expected in cases:
        assert evaluate(*inputs) == expected
        assert evaluate(*inputs[:5], inputs[5] > 0.0, inputs[6] > 0.0) == expected
    expected_rows = np.array([expected for _, expected in cases], dtype=float).T
    rows = np.array([flatten(inputs) for inputs, _ in cases]).T
    template = cases[0][0]
    np.testing.assert_array_equal(np.stack(evaluate(*unflatten(template, iter(rows)))), expected_rows)
    machine = CompiledStep(lambda carry, values: evaluate(*values), (0.0,) * 3, template).machine(len(cases))
    machine.held_inputs[:] = rows
    machine.run()
    np.testing.assert_array_equal(machine.carry, expected_rows)
    scan = compile_scan_jax(
        lambda carry, values, inputs: (evaluate(*values), ()), Templates((0.0,) * 3, template, ()), dtype="float64"
    )
    np.testing.assert_array_equal(scan(np.zeros((3, len(cases))), list(rows), None, 1)[0], expected_rows)
