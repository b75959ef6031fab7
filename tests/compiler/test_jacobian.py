"""Jacobians of programs, forward and reverse, against CasADi's exact ones: every vehicle, layers, loops and tables."""

import casadi
import numpy as np
import pytest

import samara
from samara.compiler.derivatives.forward import evaluate_jacobian, jacobian_program
from samara.compiler.derivatives.reverse import adjoint_program
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.symbolic import jacobian, program_from_symbols, symbols
from samara.core import ops
from samara.core.block_ops import ConstantTable, Layer, loop
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import complete_environment, derivative, state_at_rest, zero_command

RANDOM = np.random.default_rng(3)


def casadi_jacobian(function, *point):
    """∂f/∂x by CasADi alone, traced with CasADi's scalars."""
    sizes = [len(flatten(tree)) for tree in point]
    symbols = [casadi.SX.sym(f"x{k}", size) for k, size in enumerate(sizes)]
    trees = [unflatten(tree, iter(casadi.vertsplit(x))) for tree, x in zip(point, symbols, strict=True)]
    column = casadi.vertcat(*flatten(function(*trees)))
    slopes = casadi.Function("slopes", symbols, [casadi.jacobian(column, casadi.vertcat(*symbols))])
    return np.array(slopes(*([float(x) for x in flatten(tree)] for tree in point)))


def adjoint_jacobian(function, *point):
    """∂f/∂x row by row through the adjoint program."""
    leaves = [[float(x) for x in flatten(tree)] for tree in point]
    sizes = [len(group) for group in leaves]
    program = trace_program(lambda *x: (function(*x),), *point)
    rows = len(program.outputs[0])
    adjoint = adjoint_program(program, sizes, range(len(sizes)))
    flat = adjoint._replace(outputs=(tuple(at for group in adjoint.outputs for at in group),))
    call = compile_program(flat, [*sizes, rows])
    return np.array([call([*(x for group in leaves for x in group), *row]) for row in np.eye(rows)])


def tumbling(vehicle):
    """A state near the ground in which every term of the equations changes."""
    state = state_at_rest(vehicle)
    numbers = np.array(flatten(state), dtype=float) + RANDOM.uniform(0.05, 0.4, len(flatten(state)))
    moved = unflatten(state, iter(numbers.tolist()))
    speeds = tuple(float(w) for w in RANDOM.uniform(300.0, 500.0, len(state.rotor_speed)))
    return moved._replace(rotor_speed=speeds)


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_the_jacobian_of_every_vehicle_is_casadis(name):
    vehicle = samara.vehicle(name)
    environment = complete_environment(vehicle)
    command = tuple(0.3 + 0.05 * k for k in range(len(zero_command(vehicle))))

    def rate(x, u):
        return derivative(x, u, vehicle, environment)

    state = tumbling(vehicle)
    computed, reference = evaluate_jacobian(rate, state, command), casadi_jacobian(rate, state, command)
    assert np.isfinite(reference).all()
    np.testing.assert_allclose(computed, reference, rtol=1e-12, atol=1e-12 * np.abs(reference).max())


def test_forward_and_reverse_agree_on_a_vehicle_with_contact():
    vehicle = samara.vehicle("crazyflie")
    environment, command = complete_environment(vehicle), tuple(0.3 for _ in zero_command(vehicle))

    def rate(x, u):
        return derivative(x, u, vehicle, environment)

    state = tumbling(vehicle)
    forward = evaluate_jacobian(rate, state, command)
    np.testing.assert_allclose(adjoint_jacobian(rate, state, command), forward, rtol=1e-12, atol=1e-9)


# Operations that a trace records as one instruction -----------------------------------------------------------------------

WEIGHTS, BIAS = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=5)


@pytest.mark.parametrize("activation", ["linear", "tanh", "sigmoid", "relu"])
def test_layers_are_differentiated(activation):
    layer = Layer(tuple(map(tuple, WEIGHTS.tolist())), tuple(BIAS.tolist()), activation)

    def network(x):
        return tuple(y * y + x[0] for y in layer(x))

    point = (0.3, -0.7, 1.1)
    reference = casadi_jacobian(lambda x: tuple(y * y + x[0] for y in layer.evaluate_unrolled(x)), point)
    for computed in (evaluate_jacobian(network, point), adjoint_jacobian(network, point)):
        np.testing.assert_allclose(computed, reference, rtol=1e-12, atol=1e-12)


def newton(x):
    """√x₀ + x₁ by Newton iterations until convergence, and a sum over the iterations."""

    def body(k, carry, inputs):
        root, total = carry
        return 0.5 * (root + inputs[0] / root), total + ops.sin(k * inputs[1]) * root

    def not_converged(carry, inputs):
        return ops.absolute(carry[0] * carry[0] - inputs[0]) > 1e-3

    root, total = loop(body, (x[0], x[1]), (x[0], x[1]), count=8, active=not_converged)
    summed = loop(lambda k, carry, inputs: carry + k * inputs[0] * carry, 1.0 * x[1], (0.01 * x[0],), count=3)
    return root, total, summed


def test_loops_are_differentiated_by_iteration():
    """Against CasADi, which unrolls them, and against differences."""
    point = (7.3, 0.4)
    reference = casadi_jacobian(newton, point)
    for computed in (evaluate_jacobian(newton, point), adjoint_jacobian(newton, point)):
        np.testing.assert_allclose(computed, reference, rtol=1e-12, atol=1e-12)
    step = 1e-6
    ends = [np.array(newton((7.3 + sign * step, 0.4))) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(reference[:, 0], (ends[0] - ends[1]) / (2.0 * step), rtol=1e-6)


def test_a_loop_with_tangents_is_one_instruction_and_compiles():
    slopes = jacobian_program(trace_program(lambda x: (newton(x),), (0.0, 0.0)), [2], [0])
    assert sum(instruction.loop is not None for instruction in slopes.program.instructions) == 2
    values, entries = slopes.program.outputs
    call = compile_program(slopes.program._replace(outputs=((*values, *entries),)), [2])
    numbers = call([7.3, 0.4])
    np.testing.assert_allclose(numbers[:3], newton((7.3, 0.4)), rtol=1e-14)
    np.testing.assert_allclose(slopes.dense(numbers[3:]), casadi_jacobian(newton, (7.3, 0.4)), rtol=1e-12)


def test_a_table_is_flat_between_its_steps():
    grid = ConstantTable([[1.0, 2.0], [4.0, 8.0]])
    slopes = evaluate_jacobian(lambda x: (x[0] * ops.lookup(grid, x[0], x[1]),), (1.2, 0.3))
    np.testing.assert_array_equal(slopes, [[4.0, 0.0]])


def test_entries_that_are_identically_zero_are_left_out_and_constants_fold():
    slopes = jacobian_program(
        trace_program(lambda x: ((2.0 * x[0] - x[1], ops.sin(x[2]), 5.0),), (0.0, 0.0, 0.0)), [3], [0]
    )
    assert list(zip(slopes.rows, slopes.columns, strict=True)) == [(0, 0), (0, 1), (1, 2)]
    entries = [slopes.program.instructions[at] for at in slopes.program.outputs[1]]
    assert [instruction.operation for instruction in entries] == ["constant", "constant", "cos"]


# Expressions of symbols -------------------------------------------------------------------------------------------------


def test_the_jacobian_of_expressions_is_casadis():
    """By some of the symbols, as expressions of all of them, and at a point."""
    x, y = symbols(3, 2)
    outputs = [x[0] * y[0] + ops.sin(x[1] * x[2]), 3.0 * x[2] + y[1], y[0] * y[1]]
    entries = jacobian(outputs, x)
    assert set(entries) == {(0, 0), (0, 1), (0, 2), (1, 2)}
    assert entries[1, 2] == 3.0 and isinstance(entries[1, 2], float)
    program = program_from_symbols([x, y], [[entries[place] for place in sorted(entries)]])
    point, other_values = (0.3, -0.7, 1.9), (1.3, 0.2)
    values = compile_program(program, [3, 2])([*point, *other_values])
    reference = casadi_jacobian(
        lambda p, q: (p[0] * q[0] + ops.sin(p[1] * p[2]), 3.0 * p[2] + q[1]), point, other_values
    )
    np.testing.assert_allclose(values, [reference[place] for place in sorted(entries)], rtol=1e-14)
    at_zero = jacobian(outputs, x, values={0: 0.0, 1: 0.0, 2: 0.0})
    assert set(at_zero) == {(0, 0), (1, 2)}
