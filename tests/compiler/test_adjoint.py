"""Reverse differentiation of a program: the transpose of forward differentiation, through every effect, and at kinks."""

import numpy as np
import pytest
from compiler.test_tangent import BARE, GROUPS, VEHICLES

import samara
from samara.compiler.derivatives.forward import InputGroup, tangent_program
from samara.compiler.derivatives.reverse import adjoint_program
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.folding_tape import trace_program
from samara.core import ops
from samara.core.tree import flatten
from samara.physics.multirotor import complete_environment, derivative


def evaluate_gradient(function, *numbers):
    """Return the slopes of a function of scalars by each of them, through its program."""
    size = len(numbers)
    program = adjoint_program(trace_program(lambda x: ((function(*x),),), numbers), [size], [0])
    return compile_program(program, [size, 1])([*numbers, 1.0])


def test_slopes_of_a_product_of_everything():
    """∂/∂x, ∂/∂y of x y + sin x / y + x²: y + cos x / y + 2 x,  x − sin x / y²"""
    x, y = 0.7, 1.3
    gradient = evaluate_gradient(lambda x, y: x * y + ops.sin(x) / y + x * x, x, y)
    assert gradient == pytest.approx([y + np.cos(x) / y + 2 * x, x - np.sin(x) / y**2], rel=1e-14)


def test_at_a_kink_the_slope_is_that_of_the_branch_taken():
    for function, x, slope in [
        (ops.absolute, -2.0, -1.0),
        (ops.absolute, 0.0, 1.0),
        (lambda x: ops.minimum(x, 1.0), 0.5, 1.0),
        (lambda x: ops.minimum(x, 1.0), 1.5, 0.0),
        (lambda x: ops.safe_sqrt(x), 0.0, 0.0),
        (lambda x: ops.floor(x), 0.5, 0.0),
    ]:
        assert evaluate_gradient(function, x) == pytest.approx([slope])


def test_groups_that_are_not_requested_have_no_cotangents():
    """x̄ = ȳ₁ y + ȳ₂ of (x y, x), without ȳ₁ x for y"""
    traced = trace_program(lambda x, y: ((x[0] * y[0], x[0]),), (0.0,), (0.0,))
    program = adjoint_program(traced, [1, 1], [0])
    assert compile_program(program, [1, 1, 2])([3.0, 5.0, 2.0, 7.0]).tolist() == [2.0 * 5.0 + 7.0]


@pytest.mark.parametrize("group", ["rotors", *(pytest.param(name, marks=pytest.mark.long) for name in (*GROUPS,)[1:])])
def test_it_is_the_transpose_of_the_tangent_through_every_effect(group):
    """ȳ · (f' dx) = (f'ᵀ ȳ) · dx for any dx and ȳ, of the rate of change by state and command"""
    vehicle = VEHICLES.get(group, BARE)
    for name, numbers in GROUPS[group].items():
        vehicle = samara.switch_on(vehicle, name, **numbers)
    environment = complete_environment(vehicle)
    state, command = samara.hover(vehicle, (0.0, 0.0, 1.0))
    rng = np.random.default_rng(3)
    at = np.array(flatten((state, command)))
    at = at + 0.05 * np.maximum(np.abs(at), 0.1) * rng.normal(size=len(at))
    traced = trace_program(lambda x: (derivative(*x, vehicle, environment),), (state, command))
    inputs, outputs = len(at), len(traced.outputs[0])
    moved = compile_program(tangent_program(traced, [InputGroup(inputs, tuple(range(inputs)))]), [2 * inputs])
    back = compile_program(adjoint_program(traced, [inputs], [0]), [inputs, outputs])
    for _ in range(3):
        d_in, bar_out = rng.normal(size=inputs), rng.normal(size=outputs)
        d_out = np.array(moved([*at, *d_in]))[outputs:]
        bar_in = np.array(back([*at, *bar_out]))
        size = np.abs(bar_out * d_out).sum() + np.abs(bar_in * d_in).sum()
        assert abs(bar_out @ d_out - bar_in @ d_in) <= 1e-13 * size
