"""Symbolic expressions: vectors of unknowns, functions of them, Jacobians, and the programs that compute these.

    x = symbols("x", 3)                                     # scalars with the arithmetic of `samara.core.ops`
    y = (x[0] * x[1], sin(x[2]))
    jacobian(y, x)                                          # {(0, 0): x₁, (0, 1): x₀, (1, 2): cos x₂}
    program = program_from_symbols([x], [y])                # for `compile_loops`, `compile_program` and C

Vectors are lists, matrices NumPy arrays of objects: `np.array(x).reshape(…)`, `A @ B` and `A.T` accept symbols as well as
numbers. Matrix entries that are the number 0 cost nothing: products with them are dropped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import casadi
import numpy as np

from samara.compiler.trace.casadi_scalar import SX, Symbol, expression
from samara.compiler.trace.program import Program, program_from_expressions
from samara.compiler.trace.tape_scalar import evaluate_program
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten

Entries: TypeAlias = dict[tuple[int, int], Scalar]
"""The entries of a sparse matrix by (row, column); entries that are left out are 0."""


def symbols(name: str, count: int) -> list[Symbol]:
    """Return `count` unknowns."""
    return [Symbol(entry) for entry in casadi.vertsplit(SX.sym(name, count))] if count else []


def program_from_symbols(inputs: Sequence[Sequence[Symbol]], outputs: Sequence[Scalar]) -> Program:
    """Return the program of expressions: a group of inputs for each vector of symbols, one of outputs for each result.

    A result is a scalar, or a nested tuple, list or array of scalars, in the order of its leaves.
    """
    return program_from_expressions([_column(x) for x in inputs], [_column(_leaves(result)) for result in outputs])


def jacobian(
    outputs: Iterable[Scalar], unknowns: Sequence[Symbol], values: Mapping[int, float] | None = None
) -> Entries:
    """∂yᵢ/∂xⱼ, exact; entries that are identically 0 are left out, constants are numbers.

    `values` replaces some of the symbols by numbers, {index in `unknowns`: number}, for the derivative at a point.
    """
    from samara.compiler.derivatives.forward import jacobian_program

    column, variables = _column(_leaves(outputs)), _column(unknowns)
    other_symbols = [x for x in casadi.symvar(column) if not casadi.depends_on(x, variables)]
    program = program_from_expressions([variables, casadi.vertcat(*other_symbols)], [column])
    derivative = jacobian_program(program, [len(unknowns), len(other_symbols)], [0])
    point = [x if values is None else values.get(index, x) for index, x in enumerate(unknowns)]
    entries = evaluate_program(derivative.program, [point, [Symbol(x) for x in other_symbols]])[-1]
    all_entries = {
        index: _fold_constant(entry)
        for index, entry in zip(zip(derivative.rows, derivative.columns, strict=True), entries, strict=True)
    }
    return {index: entry for index, entry in all_entries.items() if not (type(entry) is float and entry == 0.0)}


def _fold_constant(entry: Scalar) -> Scalar:
    return _scalar(entry.sx) if isinstance(entry, Symbol) else float(entry)


def substitute(expressions: Iterable[Scalar], unknowns: Sequence[Symbol], values: Sequence[Scalar]) -> list[Scalar]:
    """Replace symbols by other scalars in expressions."""
    column = casadi.substitute(_column(_leaves(expressions)), _column(unknowns), _column(values))
    return [_scalar(entry) for entry in casadi.vertsplit(column)]


def depends_on(x: Scalar, unknowns: Iterable[Symbol]) -> bool:
    """Whether an expression contains one of these symbols."""
    return isinstance(x, Symbol) and bool(casadi.depends_on(x.sx, _column(list(unknowns))))


def _column(scalars: Sequence[Scalar]) -> SX:
    return casadi.vertcat(*map(expression, scalars)) if len(scalars) else SX(0, 1)


def _scalar(entry: SX) -> Scalar:
    return float(entry) if entry.is_constant() else Symbol(entry)


def _leaves(result: Scalar) -> list[Scalar]:
    """Return the scalars of a nested tuple, list or array."""
    if isinstance(result, tuple):
        return flatten(result)
    if hasattr(result, "tolist"):
        result = result.tolist()
    return [leaf for entry in result for leaf in _leaves(entry)] if isinstance(result, list) else [result]


def trace(function: Callable[..., Tree], *templates: Tree) -> Callable[..., Tree]:
    """Return the function of nested tuples of floats, evaluated by CasADi's virtual machine instead of Python.

    `templates` have the shapes of the arguments; their values do not matter. Results are nested tuples of floats.
    """
    symbols = [casadi.SX.sym(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter(x[i] for i in range(x.numel())))
        for template, x in zip(templates, symbols, strict=True)
    ]
    result = function(*arguments)
    compiled = casadi.Function("traced", symbols, [casadi.cse(casadi.vertcat(*flatten(result)))])

    def call(*values: Tree) -> Scalar:
        numbers = compiled(*(np.array(flatten(value), dtype=float) for value in values))
        return unflatten(result, iter(np.array(numbers)[:, 0].tolist()))

    return call
