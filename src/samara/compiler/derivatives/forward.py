"""Forward differentiation: exact derivatives along directions, computed together with the values of a program or a scan.

    y = f(x),  dy = f'(x) dx        and through a scan   xₖ₊₁ = f(xₖ, h, uₖ),   dxₖ₊₁ = f_x dxₖ + f_h dh + f_u duₖ

Every instruction is followed by the tangents of its result (`rules.py`), so that the primal values are bit-identical to those
of the original program. Several directions in one program share the primal values and the slopes. At a kink the derivative is
that of the branch taken. `jacobian_program` has a direction for each input, and stores only the tangents that are not
identically 0.

A tangent program has the input and output groups of its primal program. A group of inputs has its components first and then,
direction after direction, the tangents of its moving components; a group of outputs has the tangents of all its components.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.compiler.derivatives.rules import FLAT, SLOPES, activation_slope
from samara.compiler.llvm.scan import compile_scan_program
from samara.compiler.scan import CompiledScan
from samara.compiler.stepper import Scan
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import trace_body, trace_program
from samara.compiler.trace.program import GuardedProgram, Instruction, Loop, Program, eliminate_dead_code
from samara.compiler.trace.tape_scalar import TapeScalar, TapeWithConstants
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

Term: TypeAlias = TapeScalar | float
Tangents: TypeAlias = dict[int, Term]
"""By direction; tangents that are left out are identically 0."""


class InputGroup(NamedTuple):
    """A group of inputs: its component count, and the components that have tangents."""

    size: int
    moving: tuple[int, ...]

    def tangent_index(self, component: int, direction: int) -> int:
        """Return the index of the tangent of a component in the group."""
        return self.size + direction * len(self.moving) + self.moving.index(component)

    def total_size(self, directions: int) -> int:
        """Return the count of components and tangents together."""
        return self.size + directions * len(self.moving)


def tangent_program(
    program: Program | GuardedProgram, groups: Sequence[InputGroup], directions: int = 1
) -> Program | GuardedProgram:
    """(x, dx₁ … dx_P) → (y, f' dx₁ … f' dx_P) of a program y = f(x).

    The tangent of a scan body with an idle path has one too. The idle path leaves the states of idle effects unchanged
    (`samara.physics.idle_effects`). An effect may be idle at exactly 0 of such a state but not next to it, so the path is taken
    only if the tangents of these states are 0 as well. In all other respects being idle is an open condition.
    """

    def seeds(location: tuple[int, int], tape: TapeWithConstants) -> Tangents:
        group = groups[location[0]]
        if location[1] not in group.moving:
            return {}
        return {d: tape.add_input(location[0], group.tangent_index(location[1], d)) for d in range(directions)}

    if isinstance(program, Program):
        return _TangentTape(program, seeds).program(directions, len(program.outputs))
    unchanged = set(_unchanged_components(program.idle_path)) - set(_unchanged_components(program.full))
    idle = _TangentTape(program.guard, lambda *_: {})
    ((guard_output,),) = program.guard.outputs
    condition = idle.values[guard_output]
    for component in sorted(unchanged.intersection(groups[0].moving)):
        for direction in range(directions):
            tangent = idle.tape.add_input(0, groups[0].tangent_index(component, direction))
            condition = idle.tape.record("and", condition, idle.tape.record("equal", tangent, 0.0))
    paths = [_TangentTape(path, seeds) for path in (program.idle_path, program.full)]
    return GuardedProgram(
        eliminate_dead_code(Program(tuple(idle.tape.instructions), ((condition.index,),))),
        *(path.program(directions, len(program.full.outputs)) for path in paths),
    )


class Jacobian(NamedTuple):
    """A program with its Jacobian: outputs are those of the program, then one group with the entries, row by row.

    `rows` and `columns` are the indices of the entries that are not identically 0.
    """

    program: Program
    shape: tuple[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def dense(self, entries: Array) -> Array:
        """Build the dense matrix from its entries."""
        matrix = np.zeros(self.shape, dtype=np.result_type(entries))
        matrix[self.rows, self.columns] = entries
        return matrix


def jacobian_program(program: Program, sizes: Sequence[int], by: Sequence[int]) -> Jacobian:
    """∂y/∂x of all outputs of a program by the inputs of the groups `by`; `sizes` are those of all input groups."""
    first, total = {}, 0
    for group in by:
        first[group], total = total, total + sizes[group]

    def seeds(location: tuple[int, int], tape: TapeWithConstants) -> Tangents:
        return {first[location[0]] + location[1]: 1.0} if location[0] in first else {}

    differentiated = _TangentTape(program, seeds)
    outputs = [index for group in program.outputs for index in group]
    entries = {
        (i, j): term for i, index in enumerate(outputs) for j, term in sorted(differentiated.tangents[index].items())
    }
    nonzero = {index_pair: term for index_pair, term in entries.items() if not _is_constant(term, 0.0)}
    rows, columns = zip(*nonzero, strict=True) if nonzero else ((), ())
    extended_program = differentiated.program_with_group(list(nonzero.values()))
    return Jacobian(extended_program, (len(outputs), total), rows, columns)


def evaluate_jacobian(function: Callable[..., Scalar], *point: Scalar) -> Array:
    """∂f/∂x at `point`, exact: one row per leaf of the function's result, one column per leaf of the point."""
    program = trace_program(lambda *x: (function(*x),), *point)
    leaves = [[float(leaf) for leaf in flatten(tree)] for tree in point]
    jacobian = jacobian_program(program, [len(group) for group in leaves], range(len(leaves)))
    return jacobian.dense(np.array([float(x) for x in evaluate_program(jacobian.program, leaves)[-1]]))


def _unchanged_components(program: Program) -> list[int]:
    """Return the components of the carry that a program outputs unchanged."""
    inputs = [Instruction("input", location=(0, i)) for i in range(len(program.outputs[0]))]
    return [i for i, index in enumerate(program.outputs[0]) if program.instructions[index] == inputs[i]]


class _TangentTape:
    """The instructions of a program on a new tape, each with the tangents of its result."""

    def __init__(self, program: Program, seeds: Callable[[tuple[int, int], TapeWithConstants], Tangents]) -> None:
        self.tape, self.outputs, self.source = TapeWithConstants(max_length=inf), program.outputs, program
        self.values: list[TapeScalar] = []
        self.tangents: list[Tangents] = []
        for instruction in program.instructions:
            tangents: Tangents = {}
            if instruction.operation == "input":
                value, tangents = self.tape.add_input(*instruction.location), seeds(instruction.location, self.tape)
            elif instruction.operation == "constant":
                value = TapeScalar(self.tape.operand_index(instruction.constant), self.tape)
            elif instruction.loop is not None and any(self.tangents[index] for index in instruction.arguments):
                value, tangents = self._loop(instruction, instruction.loop)
            else:
                value = self.tape.record_copy(instruction, *(self.values[index] for index in instruction.arguments))
                tangents = self._tangents(instruction, value)
            self.values.append(value)
            self.tangents.append(tangents)

    def program(self, directions: int, with_tangents: int) -> Program:
        """Return the program whose first `with_tangents` groups of outputs are followed by their tangents."""
        outputs = [[self.values[index].index for index in group] for group in self.outputs]
        zero_index = self.tape.operand_index(0.0)
        for group, indices in zip(outputs[:with_tangents], self.outputs, strict=False):
            for direction in range(directions):
                terms = (self.tangents[index].get(direction) for index in indices)
                group += [zero_index if term is None else self.tape.operand_index(term) for term in terms]
        return eliminate_dead_code(Program(tuple(self.tape.instructions), tuple(map(tuple, outputs))))

    def program_with_group(self, terms: Sequence[Term]) -> Program:
        """Return the program with one more group of outputs."""
        outputs = [tuple(self.values[index].index for index in group) for group in self.outputs]
        entries = tuple(self.tape.operand_index(term) for term in terms)
        return eliminate_dead_code(Program(tuple(self.tape.instructions), (*outputs, entries)))

    def _tangents(self, instruction: Instruction, value: TapeScalar) -> Tangents:
        operands = [self.tangents[index] for index in instruction.arguments]
        if instruction.operation in FLAT or not any(operands):
            return {}
        if instruction.layer is not None:
            linear = Instruction("layer", layer=Layer(instruction.layer.weights, (0.0,) * instruction.layer.rows))
            return {d: self.tape.record_copy(linear, *(x.get(d, 0.0) for x in operands)) for d in _directions(operands)}
        if instruction.operation == "row":
            return self._row(instruction, value, operands[0])
        if instruction.operation == "select":
            condition = self.values[instruction.arguments[0]]
            return {
                d: self.tape.record(instruction.operation, condition, *(x.get(d, 0.0) for x in operands[1:]))
                for d in _directions(operands[1:])
            }
        slopes = SLOPES[instruction.operation](*(self.values[index] for index in instruction.arguments), value)
        return {d: _sum(slopes, [x.get(d) for x in operands]) for d in _directions(operands)}

    def _row(self, instruction: Instruction, value: TapeScalar, tangents: Tangents) -> Tangents:
        """Tangents of a row: of a layer, f'(y) times the row of its linear part; of a loop, rows of its extended carry."""
        call = self.source.instructions[instruction.arguments[0]]
        if call.loop is not None:
            loop_result, carry_size = self.values[instruction.arguments[0]], call.loop.carry_size
            rows = {d: carry_size * (1 + int(k)) + instruction.location[1] for d, k in tangents.items()}
            return {d: self.tape.record_copy(Instruction("row", location=(0, k)), loop_result) for d, k in rows.items()}
        assert call.layer is not None
        slope = activation_slope(call.layer.activation, value)
        return {d: _product(slope, self.tape.record_copy(instruction, term)) for d, term in tangents.items()}

    def _loop(self, instruction: Instruction, loop: Loop) -> tuple[TapeScalar, Tangents]:
        """Record the loop with tangents in its carry; returns as tangents the index of each direction."""
        operands = [self.tangents[index] for index in instruction.arguments]
        directions = _directions(operands)
        moving = tuple(k for k, x in enumerate(operands[loop.carry_size :]) if x)
        carry, inputs = (
            InputGroup(loop.carry_size, tuple(range(loop.carry_size))),
            InputGroup(len(operands) - loop.carry_size, moving),
        )
        body = tangent_program(loop.body, [InputGroup(1, ()), carry, inputs], len(directions))
        assert isinstance(body, Program)
        values = [self.values[index] for index in instruction.arguments]
        parts = (operands[: loop.carry_size], [operands[loop.carry_size + k] for k in moving])
        carry_tangents, input_tangents = ([x.get(d, 0.0) for d in directions for x in part] for part in parts)
        arguments = [*values[: loop.carry_size], *carry_tangents, *values[loop.carry_size :], *input_tangents]
        tangent = Loop(loop.max_iterations, loop.carry_size * (1 + len(directions)), body, loop.active)
        result = self.tape.record_copy(Instruction("loop", loop=tangent), *arguments)
        return result, {d: float(k) for k, d in enumerate(directions)}


def _directions(operands: Sequence[Tangents]) -> list[int]:
    return sorted({d for tangents in operands for d in tangents})


def _is_constant(term: Term | None, constant: float) -> bool:
    return type(term) is float and term == constant


def _product(slope: Term, tangent: Term) -> Term:
    """slope · tangent, without multiplications by 0, 1 and −1."""
    for a, b in ((slope, tangent), (tangent, slope)):
        if type(a) is float and a in (0.0, 1.0, -1.0):
            return b if a == 1.0 else -b if a == -1.0 else 0.0
    return slope * tangent


def _sum(slopes: Sequence[Term], tangents: Sequence[Term | None]) -> Term:
    """Σ slope · tangent"""
    total: Term | None = None
    for slope, tangent in zip(slopes, tangents, strict=True):
        if tangent is None:
            continue
        is_negated = _is_constant(slope, -1.0)
        term = tangent if is_negated else _product(slope, tangent)
        if total is None or _is_constant(total, 0.0):
            total = -term if is_negated else term
        elif not _is_constant(term, 0.0):
            total = total - term if is_negated else total + term
    assert total is not None
    return total


def compile_tangent(
    scan: Scan,
    held_indices: Sequence[int],
    input_indices: Sequence[int],
    directions: int = 1,
    *,
    dtype: str = "float64",
    fast: bool = False,
    threads: int | None = None,
) -> CompiledScan:
    """Compile a scan with the tangents of its carry, and of the held inputs and inputs with these indices, as vector code.

    In strict arithmetic the primal values are bit-identical to those of the scan alone.
    """
    sizes = [len(flatten(template)) for template in scan.templates]
    moving = (range(sizes[0]), held_indices, input_indices)
    groups = [InputGroup(size, tuple(indices)) for size, indices in zip(sizes, moving, strict=True)]
    program = tangent_program(trace_body(*scan), groups, directions)
    extended_sizes = [group.total_size(directions) for group in groups]
    return compile_scan_program(program, extended_sizes, dtype=dtype, fast=fast, threads=threads)


# Drones and directions as the lanes of a tangent scan: a lane is a drone with a few directions, which share its primal values.
#
#     lane = block · N + drone,   direction = block · DIRECTIONS_PER_LANE + its index in the block

DIRECTIONS_PER_LANE = 2
"""Directions in one program: two take a quarter less time than two programs; more exceed the registers."""


class TangentLanes(NamedTuple):
    """N drones and P directions, `directions_per_lane` of them in a lane; the last block is padded with directions that
    are 0."""

    drones: int
    directions: int
    dtype: str

    @classmethod
    def from_tangents(cls, tangents: Sequence[Array], drones: int | None, dtype: str) -> "TangentLanes":
        """Create the layout for tangents of P or 1 directions each."""
        counts = {len(tangent) for tangent in tangents} - {1}
        if len(counts) > 1:
            raise ValueError(
                f"tangents with {' and '.join(map(str, sorted(counts)))} directions; expected one number of them"
            )
        return cls(drones or 1, counts.pop() if counts else 1, dtype)

    @property
    def directions_per_lane(self) -> int:
        return min(DIRECTIONS_PER_LANE, self.directions)

    @property
    def blocks(self) -> int:
        return -(-self.directions // self.directions_per_lane)

    def carry(self, rows: Array, tangents: Sequence[Array]) -> Array:
        """Return (x, dx₁ …) of all lanes from x (nx, N) and the tangents of each component (P or 1, N or 1)."""
        return np.concatenate([np.tile(rows, self.blocks), self._spread(tangents)])

    def held_inputs(self, values: Sequence[Array | float], tangents: Sequence[Array]) -> list[Array | float]:
        """Return (h, dh₁ …) of all lanes from held inputs, each a number or (N,)."""
        rows = [np.tile(value, self.blocks) if np.ndim(value) else value for value in values]
        return [*rows, *self._spread(tangents)]

    def inputs(self, inputs: Array, tangents: Array | None) -> Array:
        """Return (u, du₁ …) for every step from u (K, nu) or (K, nu, N) and du (P or 1, K, nu, N or 1), or None."""
        if tangents is None:
            return np.tile(inputs, self.blocks) if inputs.ndim == 3 else inputs
        steps, size = inputs.shape[:2]
        primals = np.broadcast_to(inputs if inputs.ndim == 3 else inputs[:, :, None], (steps, size, self.drones))
        tangent_rows = np.broadcast_to(tangents, (self.directions, steps, size, self.drones))
        combined = np.zeros((steps, 1 + self.directions_per_lane, size, self.blocks, self.drones), dtype=self.dtype)
        combined[:, 0] = primals[:, :, None]
        for direction, rows in enumerate(tangent_rows):
            block, index = divmod(direction, self.directions_per_lane)
            combined[:, 1 + index, :, block] = rows
        return combined.reshape(steps, -1, self.blocks * self.drones)

    def split(self, rows: Array) -> tuple[Array, Array]:
        """Split (..., n (1 + directions_per_lane), lanes) into x (..., n, N) and its tangents (P, ..., n, N)."""
        size = rows.shape[-2] // (1 + self.directions_per_lane)
        parts = rows.reshape(*rows.shape[:-2], 1 + self.directions_per_lane, size, self.blocks, self.drones)
        pairs = (divmod(direction, self.directions_per_lane) for direction in range(self.directions))
        return parts[..., 0, :, 0, :], np.stack([parts[..., 1 + index, :, block, :] for block, index in pairs])

    def _spread(self, tangents: Sequence[Array]) -> Array:
        """Return (directions_per_lane · n, lanes), direction after direction, from n arrays that broadcast to (P, N)."""
        spread = np.zeros((self.blocks * self.directions_per_lane, len(tangents), self.drones), dtype=self.dtype)
        for k, tangent in enumerate(tangents):
            spread[: self.directions, k] = tangent
        parts = spread.reshape(self.blocks, self.directions_per_lane, len(tangents), self.drones)
        return parts.transpose(1, 2, 0, 3).reshape(self.directions_per_lane * len(tangents), self.blocks * self.drones)


def tangent_leaf_rows(tree: Scalar, label: str, count: int, drones: int | None) -> list[Array]:
    """Return the leaves of a nested tuple of tangents, each as (P or 1, N or 1).

    A leaf is a number, (N,), (P, 1) or (P, N); without a batch a number or (P,).
    """
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{label} has {len(leaves)} numbers; expected {count}, one for each number of its primal")
    return [_rows(np.asarray(leaf, dtype=float), f"{label}[{k}]", drones) for k, leaf in enumerate(leaves)]


def _rows(array: Array, label: str, drones: int | None) -> Array:
    if not np.isfinite(array).all():
        raise ValueError(f"{label} is {array[~np.isfinite(array)].flat[0]}; expected finite numbers")
    rows = array.reshape(-1, 1) if drones is None and array.ndim == 1 else np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] not in (1, drones or 1):
        expected = "a number or (directions,)" if drones is None else f"a number, ({drones},) or (directions, {drones})"
        raise ValueError(f"{label} has shape {array.shape}; expected {expected}")
    return rows


def tangent_inputs(tangents: Scalar, inputs: Array, label: str, drones: int | None) -> Array:
    """Return tangents of inputs as (P or 1, K, nu, N or 1), from (K, nu), (K, nu, N) or (P, K, nu, N); without a batch from
    (K, nu) or (P, K, nu)."""
    array = np.asarray(tangents, dtype=float)
    if array.ndim == 2 or (array.ndim == 3 and drones is None):
        array = array[..., None]
    array = array[None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[1:3] != inputs.shape[:2] or array.shape[3] not in (1, drones or 1):
        steps, size = inputs.shape[:2]
        alternative = (
            f"(directions, {steps}, {size})"
            if drones is None
            else f"({steps}, {size}, {drones}), with directions first"
        )
        raise ValueError(f"{label} has shape {np.shape(tangents)}; expected ({steps}, {size}) or {alternative}")
    if not np.isfinite(array).all():
        raise ValueError(f"{label} has {array[~np.isfinite(array)][0]}; expected finite numbers")
    return array


def held_input_tangents(
    d_environment: Scalar,
    environment_size: int,
    d_vehicle: Mapping[str, Scalar],
    parameters: Mapping[str, int],
    drones: int | None,
) -> tuple[tuple[int, ...], list[Array]]:
    """Return the indices of the held inputs (dt, environment, varied parameters) that have tangents, and the tangents.

    `environment_size` is the leaf count of the environment, 0 without one; `parameters` has that of each varied parameter.
    """
    if d_environment is not None and not environment_size:
        raise ValueError("d_environment without environment; expected both: without one, calm air is folded in")
    for path in d_vehicle:
        if path not in parameters:
            raise ValueError(f"d_vehicle names {path!r}; expected names of `vary`: {', '.join(parameters) or 'none'}")
    groups = [("d_environment", d_environment, environment_size)]
    groups += [(f"d_vehicle[{path!r}]", d_vehicle.get(path), count) for path, count in parameters.items()]
    moving: list[int] = []
    rows: list[Array] = []
    first = 1
    for label, tree, count in groups:
        if tree is not None:
            rows += tangent_leaf_rows(tree if isinstance(tree, tuple) else (tree,) * count, label, count, drones)
            moving += range(first, first + count)
        first += count
    return tuple(moving), rows
