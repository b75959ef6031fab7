"""Operations that a component may not apply to a traced scalar: one sentence with the expression, the line and the remedy."""

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.folding_scalar import FoldingScalar, fold_tree, new_trace, unfold_leaves
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import FoldingTape, trace_program
from samara.compiler.trace.tape_scalar import Tape, record_tape
from samara.core import ops
from samara.core.traced_scalar import TraceError

TYPES = {
    "symbol": lambda: FoldingTape().add_input(),
    "tape": lambda: Tape().add_input(),
    "folded": lambda: FoldingScalar(jnp.float64(0.3), new_trace(jnp.float64)),
}

REFUSED = {
    "if": (lambda x: 1.0 if x > 0.0 else 2.0, "`x > 0.0`", "samara.core.where instead of if"),
    "and": (lambda x: x > 0.0 and x < 1.0, "x > 0.0 and x < 1.0", "logical_and"),
    "not": (lambda x: not x, "x", "samara.core.where"),
    "in": (lambda x: x in (1.0, 2.0), "`x in (1.0, 2.0)`", "samara.core.where"),
    "if of a call": (lambda x: 1.0 if ops.sin(x) > 0.0 else 2.0, "`ops.sin(x) > 0.0`", "core.where instead of if"),
    "max": (lambda x: max(x, 0.0), "`max(x, 0.0)`", "use samara.core.maximum"),
    "min": (lambda x: min(1.0, x), "`min(1.0, x)`", "use samara.core.minimum"),
    "bool": (lambda x: bool(x), "`bool(x)`", "samara.core.where"),
    "float": (lambda x: float(x), "`float(x)`", "not traced"),
    "int": (lambda x: int(x), "`int(x)`", "use samara.core.floor"),
    "index": (lambda x: (1.0, 2.0)[x], "`(1.0, 2.0)[x]`", "not traced"),
    "range": (lambda x: list(range(x)), "`range(x)`", "not traced"),
    "complex": (lambda x: complex(x), "`complex(x)`", "not traced"),
    "round": (lambda x: round(x, 2), "`round(x, 2)`", "use samara.core.floor"),
    "math.sin": (lambda x: math.sin(x), "`math.sin(x)`", "use samara.core.sin"),
    "math.hypot": (lambda x: math.hypot(x, 1.0), "`math.hypot(x, 1.0)`", "use samara.core.safe_norm"),
    "math.floor": (lambda x: math.floor(x), "`math.floor(x)`", "use samara.core.floor"),
    "math.isnan": (lambda x: math.isnan(x), "`math.isnan(x)`", "not traced"),
    "numpy.sin": (lambda x: np.sin(x), "`np.sin(x)`", "use samara.core.sin"),
    "numpy.arctan2": (lambda x: np.arctan2(x, 1.0), "`np.arctan2(x, 1.0)`", "use samara.core.atan2"),
    "numpy.maximum": (lambda x: np.maximum(x, 1.0), "`np.maximum(x, 1.0)`", "use samara.core.maximum"),
    "numpy.where": (lambda x: np.where(x, x, 1.0), "`np.where(x, x, 1.0)`", "use samara.core.where"),
    "numpy.clip": (lambda x: np.clip(x, 0.0, 1.0), "`np.clip(x, 0.0, 1.0)`", "use samara.core.clamp"),
    "numpy.norm": (lambda x: np.linalg.norm(np.array([x, x])), "`np.linalg.norm(", "use samara.core.safe_norm"),
    "floor division": (lambda x: x // 2.0, "`x // 2.0`", "samara.core.floor(a / b)"),
    "remainder": (lambda x: 5.0 % x, "`5.0 % x`", "samara.core.floor(a / b)"),
    "divmod": (lambda x: divmod(x, 2.0), "`divmod(x, 2.0)`", "samara.core.floor(a / b)"),
    "format": (lambda x: f"{x:.2f}", "x:.2f", "outside the traced function"),
    "no scalar": (lambda x: x + None, "`x + None`", "compute with scalars"),
}
"""By operation: the function, a part of the expression that the sentence quotes, and a part of the remedy"""


@pytest.mark.parametrize("operation", REFUSED)
@pytest.mark.parametrize("scalar", TYPES)
def test_the_sentence_has_expression_function_line_and_remedy(scalar, operation):
    function, quoted, remedy = REFUSED[operation]
    with pytest.raises(TraceError) as caught:
        function(TYPES[scalar]())
    message, line = str(caught.value), function.__code__.co_firstlineno
    assert re.search(rf"test_trace_errors\.py:{line}, in <lambda>: ", message), message
    assert quoted in message and remedy in message and "\n" not in message


def wrong_attribute(state):
    return (state[0].real,)


def wrong_sum(state):
    return (np.sqrt(np.array([state[0]]))[0],)


def unhashable(state):
    return ({state[0]: 1.0},)


@pytest.mark.parametrize("component", [wrong_attribute, wrong_sum, unhashable])
def test_any_other_type_error_of_a_component_gets_its_line_too(component):
    line = component.__code__.co_firstlineno + 1
    with pytest.raises(TraceError, match=rf"test_trace_errors\.py:{line}, in {component.__name__}: `"):
        trace_program(component, (0.0,))


def test_an_unrelated_error_is_unchanged():
    def absent(state):
        return (np.no_such_function(state[0]),)

    with pytest.raises(AttributeError, match="no_such_function"):
        trace_program(absent, (0.0,))


def test_the_line_is_that_of_the_component_and_not_of_the_operations_it_uses():
    def component(x):
        return ops.clamp(x, 0.0, "high")

    with pytest.raises(TraceError, match=r"test_trace_errors\.py:\d+, in component: `ops.clamp"):
        trace_program(lambda x: (component(x[0]),), (0.0,))


POINTS = [-2.5, -0.0, 0.0, 1e-300, 3.0, math.inf, -math.inf, math.nan]


def bits(values):
    return [float(x).hex() for x in values]


def test_abs_traces_with_the_bits_of_python():
    expected = bits(abs(x) for x in POINTS)
    machine = CompiledStep(lambda state, held_inputs: (abs(+held_inputs[0]),), (0.0,), (0.0,)).machine(len(POINTS))
    machine.held_inputs[0] = POINTS
    machine.run()
    assert bits(machine.carry[0]) == expected
    program, numbers = record_tape(lambda x: (abs(+x),))
    assert bits(evaluate_program(program, ((x,), numbers))[0][0] for x in POINTS) == expected
    trace = new_trace(jnp.float64)
    values = unfold_leaves((abs(+fold_tree((0.0,), [jnp.array(POINTS)], trace)[0]),))[0]
    assert bits(values) == expected


@pytest.mark.parametrize("scalar", TYPES)
def test_a_numpy_number_on_the_left_reaches_the_operators(scalar):
    x = TYPES[scalar]()
    for result in (np.float64(2.0) + x, np.float64(2.0) * x, 2.0 - np.float32(1.0) * x, np.float64(1.0) / x):
        assert type(result) is type(x)
    assert type(np.float64(2.0) < x) is type(x) and type(np.float64(2.0) >= x) is type(x)


def test_numpy_numbers_beside_operators_keep_their_order():
    def component(state, held_inputs):
        x, two = held_inputs[0], np.float64(2.0)
        return two - x, two / x, ops.where(two < x, 1.0, 0.0), ops.where(two >= x, 1.0, 0.0)

    machine = CompiledStep(component, (0.0,) * 4, (0.0,)).machine(2)
    machine.held_inputs[0] = [0.5, 4.0]
    machine.run()
    assert machine.carry.tolist() == [[1.5, -2.0], [4.0, 0.5], [0.0, 1.0], [1.0, 0.0]]


def test_a_tape_compares_for_equality_and_takes_powers():
    """`==` was object identity, always false, and `samara.core.ops.power` an AttributeError."""
    program, numbers = record_tape(
        lambda x: (ops.where(x == 2.0, 7.0, 8.0), ops.where(x != 2.0, 7.0, 8.0), ops.power(x, 1.5))
    )
    assert evaluate_program(program, ((2.0,), numbers))[0] == [7.0, 8.0, 2.0**1.5]
    assert evaluate_program(program, ((4.0,), numbers))[0] == [8.0, 7.0, 8.0]
    with pytest.raises(TraceError, match=r"`x\*\*x` cannot be traced: .*; use samara\.core\.power"):
        record_tape(lambda x: (x**x,))
