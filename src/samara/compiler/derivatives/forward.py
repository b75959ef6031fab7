"""Derivatives along directions, computed beside the numbers of a program or a scan: exact, by forward differentiation.

    y = f(x),  dy = f'(x) dx        and through a scan   xₖ₊₁ = f(xₖ, h, uₖ),   dxₖ₊₁ = f_x dxₖ + f_h dh + f_u duₖ

Every instruction is followed by what it does to the tangents of its operands (`rules.py`), so that the numbers themselves are
the same bits as without. Several directions in one program share the numbers and the slopes. At a kink the derivative is that
of the branch taken. `jacobian_of` has a direction for each input, and keeps only the tangents that are not 0 for good.

A tangent program has the groups of the program it was made of. In each group of inputs the components come first and then,
direction after direction, the tangents of those that are moving; in a group of outputs the tangents of all.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.compiler.derivatives.rules import FLAT, SELECTIONS, SLOPES, activation_slope
from samara.compiler.llvm.scan import compile_scan_program
from samara.compiler.scan import Run
from samara.compiler.stepper import Scan
from samara.compiler.trace.program import (
    Guarded,
    Instruction,
    Loop,
    Program,
    program_of,
    program_of_body,
    without_unused,
)
from samara.compiler.trace.tape_scalar import Taped, TapeWithConstants, play
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

Term: TypeAlias = Taped | float
Tangents: TypeAlias = dict[int, Term]
"""By direction; those that are left out are 0 whatever the inputs"""


class Group(NamedTuple):
    """A group of inputs: how many components it has, and which of them have tangents."""

    size: int
    moving: tuple[int, ...]

    def place(self, component: int, direction: int) -> int:
        """The index of the tangent of a component in the group"""
        return self.size + direction * len(self.moving) + self.moving.index(component)

    def size_with(self, directions: int) -> int:
        """Components and tangents together"""
        return self.size + directions * len(self.moving)


def tangent_of(program: Program | Guarded, groups: Sequence[Group], directions: int = 1) -> Program | Guarded:
    """(x, dx₁ … dx_P) → (y, f' dx₁ … f' dx_P) of a program y = f(x)

    Of the body of a scan with a quiet path there is one again. That path leaves the states of idle effects as they are
    (`samara.physics.idle_effects`). An effect may be idle just because such a state is 0, and not beside it: the path is taken
    where the tangents of what it leaves are 0 as well. In all else being idle is an open condition.
    """

    def seeds(place: tuple[int, int], tape: TapeWithConstants) -> Tangents:
        group = groups[place[0]]
        if place[1] not in group.moving:
            return {}
        return {d: tape.scalar(place[0], group.place(place[1], d)) for d in range(directions)}

    if isinstance(program, Program):
        return _Differentiated(program, seeds).program(directions, len(program.outputs))
    left = set(_passed_on(program.quiet)) - set(_passed_on(program.whole))
    idle = _Differentiated(program.idle, lambda *_: {})
    ((worth_it,),) = program.idle.outputs
    condition = idle.values[worth_it]
    for component in sorted(left.intersection(groups[0].moving)):
        for direction in range(directions):
            tangent = idle.tape.scalar(0, groups[0].place(component, direction))
            condition = idle.tape.note("and", condition, idle.tape.note("equal", tangent, 0.0))
    paths = [_Differentiated(path, seeds) for path in (program.quiet, program.whole)]
    return Guarded(
        without_unused(Program(tuple(idle.tape.instructions), ((condition.at,),))),
        *(path.program(directions, len(program.whole.outputs)) for path in paths),
    )


class Jacobian(NamedTuple):
    """A program with its Jacobian: outputs are those of the program, then one group with the entries, row by row

    `rows` and `columns` are the places of the entries that are not 0 for good.
    """

    program: Program
    shape: tuple[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def dense(self, entries: Array) -> Array:
        """Return the matrix of some entries."""
        matrix = np.zeros(self.shape, dtype=np.result_type(entries))
        matrix[self.rows, self.columns] = entries
        return matrix


def jacobian_of(program: Program, sizes: Sequence[int], by: Sequence[int]) -> Jacobian:
    """∂y/∂x of all outputs of a program by the inputs of some groups, whose sizes are those of all groups"""
    first, total = {}, 0
    for group in by:
        first[group], total = total, total + sizes[group]

    def seeds(place: tuple[int, int], tape: TapeWithConstants) -> Tangents:
        return {first[place[0]] + place[1]: 1.0} if place[0] in first else {}

    differentiated = _Differentiated(program, seeds)
    outputs = [at for group in program.outputs for at in group]
    entries = {(i, j): term for i, at in enumerate(outputs) for j, term in sorted(differentiated.tangents[at].items())}
    kept = {place: term for place, term in entries.items() if not _is(term, 0.0)}
    rows, columns = zip(*kept, strict=True) if kept else ((), ())
    found = differentiated.with_group(list(kept.values()))
    return Jacobian(found, (len(outputs), total), rows, columns)


def jacobian_at(function: Callable[..., Scalar], *point: Scalar) -> Array:
    """∂f/∂x, exact, of a function of nested tuples at a point: rows are the leaves of its result, columns those of the point"""
    program = program_of(lambda *x: (function(*x),), *point)
    leaves = [[float(leaf) for leaf in flatten(tree)] for tree in point]
    jacobian = jacobian_of(program, [len(group) for group in leaves], range(len(leaves)))
    return jacobian.dense(np.array([float(x) for x in play(jacobian.program, leaves)[-1]]))


def _passed_on(program: Program) -> list[int]:
    """The components of the carry that come out as they went in"""
    came_in = [Instruction("input", place=(0, i)) for i in range(len(program.outputs[0]))]
    return [i for i, at in enumerate(program.outputs[0]) if program.instructions[at] == came_in[i]]


class _Differentiated:
    """The instructions of a program on a new tape, each with the tangents of its result."""

    def __init__(self, program: Program, seeds: Callable[[tuple[int, int], TapeWithConstants], Tangents]) -> None:
        self.tape, self.outputs, self.source = TapeWithConstants(longest=inf), program.outputs, program
        self.values: list[Taped] = []
        self.tangents: list[Tangents] = []
        for own in program.instructions:
            tangents: Tangents = {}
            if own.operation == "input":
                value, tangents = self.tape.scalar(*own.place), seeds(own.place, self.tape)
            elif own.operation == "constant":
                value = Taped(self.tape.place(own.constant), self.tape)
            elif own.loop is not None and any(self.tangents[at] for at in own.arguments):
                value, tangents = self._loop(own, own.loop)
            else:
                value = self.tape.repeat(own, *(self.values[at] for at in own.arguments))
                tangents = self._tangents(own, value)
            self.values.append(value)
            self.tangents.append(tangents)

    def program(self, directions: int, with_tangents: int) -> Program:
        """Outputs with their tangents in the first groups, without in those after them"""
        outputs = [[self.values[at].at for at in group] for group in self.outputs]
        zero = self.tape.place(0.0)
        for group, wanted in zip(outputs[:with_tangents], self.outputs, strict=False):
            for direction in range(directions):
                terms = (self.tangents[at].get(direction) for at in wanted)
                group += [zero if term is None else self.tape.place(term) for term in terms]
        return without_unused(Program(tuple(self.tape.instructions), tuple(map(tuple, outputs))))

    def with_group(self, terms: Sequence[Term]) -> Program:
        """The outputs of the program, and a group of others after them"""
        outputs = [tuple(self.values[at].at for at in group) for group in self.outputs]
        extra = tuple(self.tape.place(term) for term in terms)
        return without_unused(Program(tuple(self.tape.instructions), (*outputs, extra)))

    def _tangents(self, own: Instruction, value: Taped) -> Tangents:
        operands = [self.tangents[at] for at in own.arguments]
        if own.operation in FLAT or not any(operands):
            return {}
        if own.layer is not None:
            linear = Instruction("layer", layer=Layer(own.layer.weights, (0.0,) * own.layer.rows))
            return {d: self.tape.repeat(linear, *(x.get(d, 0.0) for x in operands)) for d in _directions(operands)}
        if own.operation == "row":
            return self._row(own, value, operands[0])
        if own.operation in SELECTIONS:
            condition = self.values[own.arguments[0]]
            return {
                d: self.tape.note(own.operation, condition, *(x.get(d, 0.0) for x in operands[1:]))
                for d in _directions(operands[1:])
            }
        slopes = SLOPES[own.operation](*(self.values[at] for at in own.arguments), value)
        return {d: _sum(slopes, [x.get(d) for x in operands]) for d in _directions(operands)}

    def _row(self, own: Instruction, value: Taped, tangents: Tangents) -> Tangents:
        """A row of a layer, f'(y) times that of its linear part; or of a loop, which carries its tangents"""
        call = self.source.instructions[own.arguments[0]]
        if call.loop is not None:
            whole, carried = self.values[own.arguments[0]], call.loop.carried
            places = {d: carried * (1 + int(k)) + own.place[1] for d, k in tangents.items()}
            return {d: self.tape.repeat(Instruction("row", place=(0, k)), whole) for d, k in places.items()}
        assert call.layer is not None
        slope = activation_slope(call.layer.activation, value)
        return {d: _product(slope, self.tape.repeat(own, term)) for d, term in tangents.items()}

    def _loop(self, own: Instruction, loop: Loop) -> tuple[Taped, Tangents]:
        """The loop with tangents in its carry; as tangents, the index of each direction in it"""
        operands = [self.tangents[at] for at in own.arguments]
        directions = _directions(operands)
        moving = tuple(k for k, x in enumerate(operands[loop.carried :]) if x)
        carry, inputs = Group(loop.carried, tuple(range(loop.carried))), Group(len(operands) - loop.carried, moving)
        body = tangent_of(loop.body, [Group(1, ()), carry, inputs], len(directions))
        assert isinstance(body, Program)
        values = [self.values[at] for at in own.arguments]
        parts = (operands[: loop.carried], [operands[loop.carried + k] for k in moving])
        of_carry, of_inputs = ([x.get(d, 0.0) for d in directions for x in part] for part in parts)
        arguments = [*values[: loop.carried], *of_carry, *values[loop.carried :], *of_inputs]
        tangent = Loop(loop.turns, loop.carried * (1 + len(directions)), body, loop.active)
        result = self.tape.repeat(Instruction("loop", loop=tangent), *arguments)
        return result, {d: float(k) for k, d in enumerate(directions)}


def _directions(operands: Sequence[Tangents]) -> list[int]:
    return sorted({d for tangents in operands for d in tangents})


def _is(term: Term | None, number: float) -> bool:
    return type(term) is float and term == number


def _product(slope: Term, tangent: Term) -> Term:
    """slope · tangent, without products with the numbers 0, 1 and −1"""
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
        minus = _is(slope, -1.0)
        term = tangent if minus else _product(slope, tangent)
        if total is None or _is(total, 0.0):
            total = -term if minus else term
        elif not _is(term, 0.0):
            total = total - term if minus else total + term
    assert total is not None
    return total


def compile_tangent(
    scan: Scan,
    held: Sequence[int],
    inputs: Sequence[int],
    directions: int = 1,
    *,
    dtype: str = "float64",
    fast: bool = False,
    threads: int | None = None,
) -> Run:
    """A scan with the tangents of its carry, and of the held values and inputs that are named, as vector code

    In strict arithmetic the numbers are those of the scan alone, bit for bit.
    """
    sizes = [len(flatten(template)) for template in scan.templates]
    moving = (range(sizes[0]), held, inputs)
    groups = [Group(size, tuple(own)) for size, own in zip(sizes, moving, strict=True)]
    program = tangent_of(program_of_body(*scan), groups, directions)
    with_tangents = [group.size_with(directions) for group in groups]
    return compile_scan_program(program, with_tangents, dtype=dtype, fast=fast, threads=threads)


# Drones and directions as the lanes of a tangent scan: a lane is a drone with a few directions, which share its numbers.
#
#     lane = block · N + drone,   direction = block · DIRECTIONS_PER_LANE + its index in the block

DIRECTIONS_PER_LANE = 2
"""Directions in one program: two take a quarter less time than one by one; more gain nothing, registers run out"""


class Lanes(NamedTuple):
    """N drones and P directions, `at_once` of them in a lane; the last block is filled up with directions that are 0."""

    drones: int
    directions: int
    dtype: str

    @classmethod
    def of(cls, tangents: Sequence[Array], drones: int | None, dtype: str) -> "Lanes":
        """For tangents of P or 1 directions each"""
        counts = {len(own) for own in tangents} - {1}
        if len(counts) > 1:
            raise ValueError(
                f"tangents with {' and '.join(map(str, sorted(counts)))} directions; expected one number of them"
            )
        return cls(drones or 1, counts.pop() if counts else 1, dtype)

    @property
    def at_once(self) -> int:
        return min(DIRECTIONS_PER_LANE, self.directions)

    @property
    def blocks(self) -> int:
        return -(-self.directions // self.at_once)

    def carry(self, rows: Array, tangents: Sequence[Array]) -> Array:
        """(x, dx₁ …) of all lanes, of x (nx, N) and for each component its tangents (P or 1, N or 1)"""
        return np.concatenate([np.tile(rows, self.blocks), self._spread(tangents)])

    def held(self, values: Sequence[Array | float], tangents: Sequence[Array]) -> list[Array | float]:
        """The same of held values, one number or (N,) each"""
        own = [np.tile(value, self.blocks) if np.ndim(value) else value for value in values]
        return [*own, *self._spread(tangents)]

    def inputs(self, inputs: Array, tangents: Array | None) -> Array:
        """(u, du₁ …) for every step, of u (K, nu) or (K, nu, N) and du (P or 1, K, nu, N or 1), or None"""
        if tangents is None:
            return np.tile(inputs, self.blocks) if inputs.ndim == 3 else inputs
        steps, size = inputs.shape[:2]
        numbers = np.broadcast_to(inputs if inputs.ndim == 3 else inputs[:, :, None], (steps, size, self.drones))
        moved = np.broadcast_to(tangents, (self.directions, steps, size, self.drones))
        both = np.zeros((steps, 1 + self.at_once, size, self.blocks, self.drones), dtype=self.dtype)
        both[:, 0] = numbers[:, :, None]
        for direction, own in enumerate(moved):
            block, place = divmod(direction, self.at_once)
            both[:, 1 + place, :, block] = own
        return both.reshape(steps, -1, self.blocks * self.drones)

    def apart(self, rows: Array) -> tuple[Array, Array]:
        """x (..., n, N) and its tangents (P, ..., n, N), of (..., n (1 + at_once), lanes)"""
        size = rows.shape[-2] // (1 + self.at_once)
        parts = rows.reshape(*rows.shape[:-2], 1 + self.at_once, size, self.blocks, self.drones)
        pairs = (divmod(direction, self.at_once) for direction in range(self.directions))
        return parts[..., 0, :, 0, :], np.stack([parts[..., 1 + place, :, block, :] for block, place in pairs])

    def _spread(self, tangents: Sequence[Array]) -> Array:
        """(at_once · n, lanes), direction after direction, of n arrays that spread to (P, N)"""
        spread = np.zeros((self.blocks * self.at_once, len(tangents), self.drones), dtype=self.dtype)
        for k, own in enumerate(tangents):
            spread[: self.directions, k] = own
        parts = spread.reshape(self.blocks, self.at_once, len(tangents), self.drones)
        return parts.transpose(1, 2, 0, 3).reshape(self.at_once * len(tangents), self.blocks * self.drones)


def direction_rows(tree: Scalar, what: str, count: int, drones: int | None) -> list[Array]:
    """The leaves of a nested tuple of tangents, each (P or 1, N or 1): of a number, (N,), (P, 1) or (P, N); without a batch
    of a number or (P,)"""
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{what} has {len(leaves)} numbers; expected {count}, one for each it is the tangent of")
    return [_rows(np.asarray(leaf, dtype=float), f"{what}[{k}]", drones) for k, leaf in enumerate(leaves)]


def _rows(own: Array, what: str, drones: int | None) -> Array:
    if not np.isfinite(own).all():
        raise ValueError(f"{what} is {own[~np.isfinite(own)].flat[0]}; expected finite numbers")
    rows = own.reshape(-1, 1) if drones is None and own.ndim == 1 else np.atleast_2d(own)
    if rows.ndim != 2 or rows.shape[1] not in (1, drones or 1):
        expected = "a number or (directions,)" if drones is None else f"a number, ({drones},) or (directions, {drones})"
        raise ValueError(f"{what} has shape {own.shape}; expected {expected}")
    return rows


def direction_inputs(given: Scalar, inputs: Array, what: str, drones: int | None) -> Array:
    """Tangents of inputs as (P or 1, K, nu, N or 1): of (K, nu), (K, nu, N) or (P, K, nu, N); without a batch of (K, nu) or
    (P, K, nu)"""
    own = np.asarray(given, dtype=float)
    if own.ndim == 2 or (own.ndim == 3 and drones is None):
        own = own[..., None]
    own = own[None] if own.ndim == 3 else own
    if own.ndim != 4 or own.shape[1:3] != inputs.shape[:2] or own.shape[3] not in (1, drones or 1):
        steps, size = inputs.shape[:2]
        more = (
            f"(directions, {steps}, {size})"
            if drones is None
            else f"({steps}, {size}, {drones}), with directions first"
        )
        raise ValueError(f"{what} has shape {np.shape(given)}; expected ({steps}, {size}) or {more}")
    if not np.isfinite(own).all():
        raise ValueError(f"{what} has {own[~np.isfinite(own)][0]}; expected finite numbers")
    return own


def held_directions(
    d_environment: Scalar,
    around: int,
    d_vehicle: Mapping[str, Scalar],
    parameters: Mapping[str, int],
    drones: int | None,
) -> tuple[tuple[int, ...], list[Array]]:
    """Which of the held values (dt, environment, parameters that vary) have tangents, and these

    `around` is how many numbers the environment has, 0 where none is given, `parameters` how many each that varies has.
    """
    if d_environment is not None and not around:
        raise ValueError("d_environment without environment; expected both: without one, calm air is folded in")
    for path in d_vehicle:
        if path not in parameters:
            raise ValueError(f"d_vehicle names {path!r}; expected names of `vary`: {', '.join(parameters) or 'none'}")
    groups = [("d_environment", d_environment, around)]
    groups += [(f"d_vehicle[{path!r}]", d_vehicle.get(path), count) for path, count in parameters.items()]
    moving: list[int] = []
    found: list[Array] = []
    at = 1
    for what, tree, count in groups:
        if tree is not None:
            found += direction_rows(tree if isinstance(tree, tuple) else (tree,) * count, what, count, drones)
            moving += range(at, at + count)
        at += count
    return tuple(moving), found
