"""Evaluate programs operation by operation, on scalars of any backend."""

import operator
from collections.abc import Callable, Sequence

import numpy as np

from samara.compiler.trace.program import Instruction, Program
from samara.core import ops
from samara.core.block_ops import unroll_loop
from samara.core.quantity import Scalar
from samara.core.tree import Tree


def evaluate_tape(program: Program, scalar: Scalar, constants: Sequence[Scalar]) -> list[Scalar]:
    """Evaluate a program of `record_tape` on a scalar and on constants, which may be scalars of a backend too."""
    return evaluate_program(program, ((scalar,), constants))[0]


def evaluate_program(program: Program, groups: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Evaluate a program on groups of inputs; returns its groups of outputs."""
    results: list[Scalar] = []
    for instruction in program.instructions:
        if instruction.operation == "input":
            results.append(groups[instruction.location[0]][instruction.location[1]])
        elif instruction.operation == "constant":
            results.append(instruction.constant)
        else:
            results.append(_execute(instruction, [results[index] for index in instruction.arguments]))
    return [[results[index] for index in group] for group in program.outputs]


def _execute(instruction: Instruction, operands: list[Scalar]) -> Scalar:
    """Execute an instruction: the result is a scalar, or a tuple of scalars for a layer or a loop."""
    if instruction.grid is not None:
        return ops.lookup(instruction.grid, *operands)
    if instruction.layer is not None:
        return instruction.layer(operands)
    if instruction.operation == "row":
        return operands[0][instruction.location[1]]
    if instruction.loop is None:
        try:
            return _PYTHON_OPERATIONS[instruction.operation](*operands)
        except (ArithmeticError, ValueError):  # Python floats raise; compiled code gives infinity or NaN
            with np.errstate(all="ignore"):
                return float(_PYTHON_OPERATIONS[instruction.operation](*map(np.float64, operands)))
    body, active, carry_size = instruction.loop.body, instruction.loop.active, instruction.loop.carry_size
    condition = None if active is None else lambda carry, inputs: evaluate_program(active, (carry, inputs))[0][0]
    iteration = lambda k, carry, inputs: tuple(evaluate_program(body, ((k,), carry, inputs))[0])  # noqa: E731
    return unroll_loop(
        iteration,
        tuple(operands[:carry_size]),
        tuple(operands[carry_size:]),
        instruction.loop.max_iterations,
        condition,
    )


_PYTHON_OPERATIONS: dict[str, Callable[..., Tree]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "less": operator.lt,
    "less_equal": operator.le,
    "not_equal": operator.ne,
    "and": ops.logical_and,
    "or": ops.logical_or,
    "select": ops.where,
    **{name: getattr(ops, name) for name in ("power", "equal", "sqrt", "floor", "sin", "cos", "tan")},
    **{name: getattr(ops, name) for name in ("asin", "acos", "atan", "atan2", "exp", "log")},
}
