"""Symbolic expressions: vectors of unknowns, functions of them, Jacobians, and the programs that compute these.

    x, u = symbols(3, 2)                                    # scalars with the arithmetic of `samara.core.ops`
    y = (x[0] * x[1], sin(x[2]))
    jacobian(y, x)                                          # {(0, 0): x₁, (0, 1): x₀, (1, 2): cos x₂}
    program = program_from_symbols([x, u], [y])             # for `compile_loops`, `compile_program` and C

Vectors are lists, matrices NumPy arrays of objects: `np.array(x).reshape(…)`, `A @ B` and `A.T` accept symbols as well as
numbers. Matrix entries that are the number 0 cost nothing: products with them are dropped.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from samara.compiler.derivatives.forward import jacobian_program
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import FoldingTape
from samara.compiler.trace.program import Program, eliminate_dead_code
from samara.compiler.trace.tape_scalar import Tape, TapeScalar
from samara.core.quantity import Scalar
from samara.core.tree import flatten

Entries: TypeAlias = dict[tuple[int, int], Scalar]
"""The entries of a sparse matrix by (row, column); entries that are left out are 0."""


def symbols(*sizes: int) -> list[list[TapeScalar]]:
    """Return a vector of unknowns of each size; expressions combine unknowns of one call."""
    tape = FoldingTape()
    return [[tape.add_input(group, index) for index in range(size)] for group, size in enumerate(sizes)]


def program_from_symbols(inputs: Sequence[Sequence[TapeScalar]], outputs: Sequence[Scalar]) -> Program:
    """Return the program of expressions: a group of inputs for each vector of symbols, one of outputs for each result.

    A result is a scalar, or a nested tuple, list or array of scalars, in the order of its leaves.
    """
    results = [_leaves(result) for result in outputs]
    tape = _tape([*(x for group in inputs for x in group), *(leaf for result in results for leaf in result)])
    indices = tuple(tuple(tape.operand_index(leaf) for leaf in result) for result in results)
    locations = {x.index: (group, index) for group, vector in enumerate(inputs) for index, x in enumerate(vector)}
    missing = [k for k in _unknowns(tape, indices) if k not in locations]
    if missing:
        raise ValueError(
            f"the results depend on {len(missing)} symbols that are not among the inputs; expected all of them"
        )
    instructions = list(tape.instructions)
    for k, location in locations.items():
        instructions[k] = instructions[k]._replace(location=location)
    return eliminate_dead_code(Program(tuple(instructions), indices))


def jacobian(
    outputs: Iterable[Scalar], unknowns: Sequence[TapeScalar], values: Mapping[int, float] | None = None
) -> Entries:
    """∂yᵢ/∂xⱼ, exact; entries that are identically 0 are left out, constants are numbers.

    `values` replaces some of the symbols by numbers, {index in `unknowns`: number}, for the derivative at a point.
    """
    program, others = _program_of_unknowns(_leaves(outputs), unknowns)
    derivative = jacobian_program(program, [len(unknowns), len(others)], [0])
    point = [x if values is None else values.get(index, x) for index, x in enumerate(unknowns)]
    entries = evaluate_program(derivative.program, [point, others])[-1]
    return {
        index: entry
        for index, entry in zip(zip(derivative.rows, derivative.columns, strict=True), entries, strict=True)
        if isinstance(entry, TapeScalar) or entry != 0.0
    }


def substitute(expressions: Iterable[Scalar], unknowns: Sequence[TapeScalar], values: Sequence[Scalar]) -> list[Scalar]:
    """Replace symbols by other scalars in expressions."""
    program, others = _program_of_unknowns(_leaves(expressions), unknowns)
    return evaluate_program(program, [values, others])[0]


def depends_on(x: Scalar, unknowns: Iterable[TapeScalar]) -> bool:
    """Whether an expression contains one of these symbols."""
    if not isinstance(x, TapeScalar):
        return False
    return not _unknowns(x.tape, ((x.index,),)).isdisjoint(unknown.index for unknown in unknowns)


def _program_of_unknowns(results: list[Scalar], unknowns: Sequence[TapeScalar]) -> tuple[Program, list[TapeScalar]]:
    """Return the program of results with the input groups `unknowns` and all other symbols, and the latter."""
    tape = _tape([*unknowns, *results])
    indices = (tuple(tape.operand_index(leaf) for leaf in results),)
    others = sorted(_unknowns(tape, indices) - {unknown.index for unknown in unknowns})
    other_symbols = [TapeScalar(k, tape) for k in others]
    return program_from_symbols([unknowns, other_symbols], [tuple(results)]), other_symbols


def _unknowns(tape: Tape, groups: Sequence[Sequence[int]]) -> set[int]:
    """Return the indices of the symbols on which instructions depend."""
    instructions, reached = tape.instructions, {k for group in groups for k in group}
    pending, found = list(reached), set()
    while pending:
        k = pending.pop()
        if instructions[k].operation == "input":
            found.add(k)
        new = [argument for argument in instructions[k].arguments if argument not in reached]
        reached.update(new)
        pending += new
    return found


def _tape(scalars: Iterable[Scalar]) -> Tape:
    return next((x.tape for x in scalars if isinstance(x, TapeScalar)), FoldingTape())


def _leaves(result: Scalar) -> list[Scalar]:
    """Return the scalars of a nested tuple, list or array."""
    if isinstance(result, tuple):
        return flatten(result)
    if hasattr(result, "tolist"):
        result = result.tolist()
    return [leaf for entry in result for leaf in _leaves(entry)] if isinstance(result, list) else [result]
