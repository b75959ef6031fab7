"""Loops and lookups on scalars of every type, against plain Python."""

import math
import pickle

import casadi
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.arrays import precision
from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.compiler.trace.folding_tape import trace_program
from samara.core.block_ops import ConstantTable, loop
from samara.core.ops import lookup

TABLE = ConstantTable([[3.0, 1.0, -2.0, 0.5], [4.0, -1.0, 5.0, 9.0], [2.0, 6.0, -5.0, 3.5]])
VALUES = np.array([0.3, 1.0, 1.7, 40.0, 1e-3, 5.5, 1000.0, 2.0, 0.9])
EXECUTORS = ("floats", "array", "compiled", "jax", "folded")


def halvings(x):
    """(halvings of x until it is at most 1, the remainder), at most six times."""
    return loop(
        lambda k, carry, inputs: (k + 1.0, carry[1] * inputs[0]),
        (0.0, x),
        (0.5,),
        count=6,
        active=lambda carry, inputs: carry[1] > 1.0,
    )


def weighted(x):
    """Σ (k + 1) gₖⱼ x over a table: a nested loop, with outer values passed in."""

    def inner(j, total, inputs):
        k, x = inputs
        return total + (k + 1.0) * lookup(TABLE, k, j) * x

    def outer(k, total, inputs):
        return loop(inner, total, (k, inputs), count=4)

    return loop(outer, 0.0 * x, x, count=3)


def entry(x):
    """The entry of one row at ⌊x⌋, and one with both indices computed."""
    return lookup(TABLE, 1.0, x), lookup(TABLE, x - 1.0, x + 1.0)


def run(executor, function, values):
    """Return the leaves of function(value) for every value, one row for each leaf."""

    def results(x):
        result = function(x)
        return list(result) if isinstance(result, tuple) else [result]

    if executor == "floats":
        return np.array([results(float(x)) for x in values]).T
    if executor == "array":
        return np.stack([np.broadcast_to(x, values.shape) for x in results(values)])
    if executor == "compiled":
        count = len(results(1.0))
        code = CompiledStep(lambda carry, inputs: tuple(results(inputs)), (0.0,) * count, 0.0)
        machine = code.machine(len(values))
        machine.held_inputs[0] = values
        machine.run()
        return machine.carry
    with precision("float64"):
        if executor == "jax":
            return np.stack([np.asarray(x) for x in jax.jit(results)(jnp.asarray(values))])

        def traced(x):
            (value,) = fold_tree((0.0,), [x], new_trace(jnp.dtype("float64")))
            return unfold_leaves(tuple(results(value)))

        return np.stack([np.asarray(x) for x in jax.jit(traced)(jnp.asarray(values))])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_element_stops_independently(executor):
    expected = [(n := min(max(math.ceil(math.log2(x)), 0), 6), x / 2**n) for x in VALUES]
    assert run(executor, halvings, VALUES).T.tolist() == [list(carry) for carry in expected]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_loops_nest_and_read_tables(executor):
    factor = sum((k + 1) * x for k, row in enumerate(TABLE.values.tolist()) for x in row)
    assert run(executor, weighted, VALUES)[0] == pytest.approx(factor * VALUES, rel=1e-14)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_indices_are_rounded_down_and_clamped(executor):
    x = np.array([-7.0, -0.2, 0.0, 0.99, 1.0, 2.5, 3.0, 8.0, 1e300, -math.inf, math.inf])
    first, second = run(executor, entry, x)
    assert first.tolist() == [4.0, 4.0, 4.0, 4.0, -1.0, 5.0, 9.0, 9.0, 9.0, 4.0, 9.0]
    assert second.tolist() == [3.0, 3.0, 1.0, 1.0, -2.0, 9.0, 3.5, 3.5, 3.5, 3.0, 3.5]
    assert np.isin(run(executor, entry, np.array([math.nan])), TABLE.values).all()


def test_expressions_without_memory_have_the_same_entries():
    x = casadi.SX.sym("x")
    evaluate = casadi.Function("entry", [x], [casadi.vertcat(*entry(x))])
    for value in (-7.0, 0.4, 1.0, 2.5, 9.0):
        assert np.array(evaluate(value))[:, 0].tolist() == list(entry(value))


def test_a_loop_is_one_instruction_for_any_iteration_count():
    def few(x):
        return (loop(lambda k, carry, inputs: carry * inputs + k, x, x, count=3),)

    def many(x):
        return (loop(lambda k, carry, inputs: carry * inputs + k, x, x, count=3000),)

    assert len(trace_program(few, 1.0).instructions) == len(trace_program(many, 1.0).instructions) < 8


def test_a_loop_refuses_traced_values_outside_its_inputs():
    def closure(x):
        return (loop(lambda k, carry, inputs: carry + x, x, count=3),)

    with pytest.raises(ValueError, match="expected every traced value that a loop body reads to be in its `inputs`"):
        trace_program(closure, 1.0)


def test_a_grid_is_a_value():
    again = pickle.loads(pickle.dumps(TABLE))
    assert again == TABLE and hash(again) == hash(TABLE)
    assert ConstantTable([[1.0, 2.0]]) != ConstantTable([[1.0], [2.0]])
    with pytest.raises(ValueError, match=r"ConstantTable has the shape \(3,\); expected \(rows, columns\)"):
        ConstantTable([1.0, 2.0, 3.0])
