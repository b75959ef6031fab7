"""Cotangents computed from the outputs of a program or a scan back to its inputs: exact, by reverse differentiation.

    y = f(x):   x̄ = f'(x)ᵀ ȳ        and through a step   xₖ₊₁ = f(xₖ, u):   x̄ₖ = f_xᵀ x̄ₖ₊₁,   ū += f_uᵀ x̄ₖ₊₁

The program is computed once; then each of its instructions, from the last to the first, passes the cotangent of its result to
its operands by the slopes of `rules.py`. However many inputs there are, all of f'ᵀ ȳ costs a few times f. At a kink the
derivative is that of the branch taken.

An adjoint program has the groups of inputs of the program it was made of, and after them one for each group of outputs: ȳ. Its
outputs are the cotangents of the groups of inputs that are asked for.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from samara.compiler.derivatives.rules import FLAT, SELECTIONS, SLOPES, activation_slope
from samara.compiler.llvm.scan import compile_scan_program
from samara.compiler.scan import Run, Templates, compile_scan_python
from samara.compiler.stepper import Scan
from samara.compiler.trace.program import Instruction, Program, program_of, without_unused
from samara.compiler.trace.tape_scalar import Taped, TapeWithConstants, play
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

RETAINED = 1 << 28  # bytes of states that are in memory at once
CARRY, HELD, INPUTS, CARRY_BAR, OUTPUT_BAR = range(5)  # the groups of inputs of the adjoint of a scan


def adjoint_of(program: Program, sizes: Sequence[int], wanted: Sequence[int]) -> Program:
    """(x, ȳ) → x̄ of a program y = f(x) whose groups of inputs have these sizes, for the groups of them that are wanted"""
    program = without_loops(program, sizes)
    tape = TapeWithConstants(longest=inf)
    reverse = _Reverse(program, tape, _moving(program, set(wanted)))
    for group, outputs in enumerate(program.outputs):
        for place, at in enumerate(outputs):
            reverse.add(at, tape.scalar(len(sizes) + group, place))
    reverse.run()
    zero = tape.place(0.0)
    bars = {own.place: reverse.bars[at] for at, own in enumerate(program.instructions) if own.operation == "input"}
    found: list[tuple[int, ...]] = []
    for group in wanted:
        cotangents = (bars.get((group, place)) for place in range(sizes[group]))
        found.append(tuple(zero if bar is None else bar.at for bar in cotangents))
    return without_unused(Program(tuple(tape.instructions), tuple(found)))


def without_loops(program: Program, sizes: Sequence[int]) -> Program:
    """The program with its loops written out, turn by turn; itself where there are none"""
    if all(own.loop is None for own in program.instructions):
        return program
    tape = TapeWithConstants(longest=inf)
    results = play(program, [[tape.scalar(group, k) for k in range(size)] for group, size in enumerate(sizes)])
    outputs = tuple(tuple(tape.place(leaf) for leaf in group) for group in results)
    return without_unused(Program(tuple(tape.instructions), outputs))


def _moving(program: Program, wanted: set[int]) -> set[int]:
    """The instructions that depend on a wanted input, but for conditions and floors, which are constant between their jumps"""
    moving: set[int] = set()
    for at, own in enumerate(program.instructions):
        if own.operation == "input":
            if own.place[0] in wanted:
                moving.add(at)
        elif own.operation not in FLAT and not moving.isdisjoint(own.arguments):
            moving.add(at)
    return moving


class _Reverse:
    """The instructions of a program on a new tape, and the cotangents of those that are moving."""

    def __init__(self, program: Program, tape: TapeWithConstants, moving: set[int]) -> None:
        self.instructions, self.tape, self.moving = program.instructions, tape, moving
        self.values: list[Taped] = []
        for own in program.instructions:
            if own.operation == "input":
                self.values.append(tape.scalar(*own.place))
            elif own.operation == "constant":
                self.values.append(Taped(tape.place(own.constant), tape))
            else:
                self.values.append(tape.repeat(own, *(self.values[at] for at in own.arguments)))
        self.bars: list[Taped | None] = [None] * len(self.values)
        self.rows: dict[int, dict[int, tuple[Taped, Taped]]] = {}  # of layers: a row and its cotangent

    def add(self, at: int, bar: Taped) -> None:
        """Add to the cotangent of an instruction."""
        before = self.bars[at]
        self.bars[at] = bar if before is None else before + bar

    def run(self) -> None:
        """Pass on the cotangents, from the last instruction to the first."""
        for at in range(len(self.values) - 1, -1, -1):
            own, bar = self.instructions[at], self.bars[at]
            if at not in self.moving or not own.arguments:
                continue
            if own.layer is not None:
                self._pass_through_layer(own, own.layer, self.rows.get(at, {}))
            elif bar is not None:
                self._pass_on(own, at, bar)

    def _pass_on(self, own: Instruction, at: int, bar: Taped) -> None:
        if own.operation == "row":
            self.rows.setdefault(own.arguments[0], {})[own.place[1]] = self.values[at], bar
            return
        if own.operation in SELECTIONS:
            condition, first, *second = own.arguments
            if first in self.moving:
                self.add(first, self.tape.note("select", self.values[condition], bar, 0.0))
            if second and second[0] in self.moving:
                self.add(second[0], self.tape.note("select", self.values[condition], 0.0, bar))
            return
        slopes = SLOPES[own.operation](*(self.values[k] for k in own.arguments), self.values[at])
        for k, slope in zip(own.arguments, slopes, strict=True):
            if k in self.moving:
                self.add(k, _product(slope, bar))

    def _pass_through_layer(self, own: Instruction, layer: Layer, rows: dict[int, tuple[Taped, Taped]]) -> None:
        """x̄ = Wᵀ (ȳ f'(y)), as a layer"""
        if not rows:
            return
        inner = {k: _product(activation_slope(layer.activation, y), bar) for k, (y, bar) in rows.items()}
        transposed = Layer(tuple(zip(*layer.weights, strict=True)), (0.0,) * layer.columns)
        result = self.tape.repeat(
            Instruction("layer", layer=transposed), *(inner.get(k, 0.0) for k in range(layer.rows))
        )
        for column, at in enumerate(own.arguments):
            if at in self.moving:
                self.add(at, self.tape.repeat(Instruction("row", place=(0, column)), result))


def _product(slope: float | Taped, bar: Taped) -> Taped:
    if isinstance(slope, float) and slope in (1.0, -1.0):
        return bar if slope == 1.0 else -bar
    return slope * bar


# Scans --------------------------------------------------------------------------------------------------------------------
#
#     xₖ₊₁ = f(xₖ, h, uₖ):    x̄ₖ = f_xᵀ (x̄ₖ₊₁ + ȳₖ),    ūₖ = f_uᵀ (x̄ₖ₊₁ + ȳₖ),    h̄ = Σₖ f_hᵀ (x̄ₖ₊₁ + ȳₖ)
#
# ȳₖ are cotangents of what a step has recorded, here xₖ₊₁ itself. The backward scan has the carry (x̄, h̄), and every step of it
# reads the state from which the step of the same number started.


def compile_adjoint(
    backend: str, scan: Scan, held: Sequence[int], recorded: bool, *, dtype: str = "float64", fast: bool = False
) -> Run:
    """The way back through a scan: carry (x̄, h̄ of the held values that are named), inputs (xₖ, uₖ and, where they are
    `recorded`, ȳₖ) from the last step to the first, outputs ūₖ; compiled by LLVM, or played on NumPy's arrays

    An idle effect is differentiated like any other: whatever way the step has taken there, on the way back it is the whole.
    """
    whole = program_of(scan.body, *scan.templates)
    sizes = [len(flatten(template)) for template in scan.templates]
    program = adjoint_scan_of(whole, sizes, held, recorded)
    own = [sizes[CARRY] + len(held), sizes[HELD], sizes[CARRY] + sizes[INPUTS] + recorded * len(whole.outputs[1])]
    if backend == "llvm":
        return compile_scan_program(program, own, dtype=dtype, fast=fast)
    templates = Templates(*((0.0,) * size for size in own))

    def body(*groups: Sequence[Scalar]) -> Scalar:
        arrays = [[np.atleast_1d(np.asarray(x, dtype=dtype)) for x in group] for group in groups]
        return tuple(map(tuple, play(program, arrays)))

    return compile_scan_python(body, templates, dtype=dtype)


def adjoint_scan_of(program: Program, sizes: Sequence[int], held: Sequence[int], recorded: bool) -> Program:
    """The body of the way back, of the program of the body of a scan whose carry, held values and inputs have these sizes"""
    carried, outputs = program.outputs
    kept = Program(program.instructions, (carried, outputs if recorded else ()))
    adjoint = adjoint_of(kept, sizes, (CARRY, HELD, INPUTS))
    first = {CARRY: 0, INPUTS: sizes[CARRY], OUTPUT_BAR: sizes[CARRY] + sizes[INPUTS]}  # of the inputs on the way back
    instructions = [_moved(own, first) for own in adjoint.instructions]
    carry_bar, held_bar, inputs_bar = adjoint.outputs
    summed = []
    for place, at in enumerate(held, sizes[CARRY]):
        before = len(instructions)
        instructions += [Instruction("input", place=(0, place)), Instruction("add", (before, held_bar[at]))]
        summed.append(before + 1)
    return without_unused(Program(tuple(instructions), ((*carry_bar, *summed), inputs_bar)))


def _moved(own: Instruction, first: dict[int, int]) -> Instruction:
    """An instruction of an adjoint program where its input comes from on the way back"""
    if own.operation != "input" or own.place[0] == HELD:
        return own
    group, place = own.place
    return own._replace(place=(0, place) if group == CARRY_BAR else (2, first[group] + place))


class Cotangents(NamedTuple):
    """x̄ (nc, N) of the start, h̄ (k, N) of the held values asked for, ū (K, nu, N) of the inputs; and the end (nc, N)"""

    carry: Array
    held: Array
    inputs: Array
    end: Array


def pulled_back(
    forward: Run,
    backward: Run,
    start: Array,
    held: Sequence[Array | float],
    inputs: Array,
    end_bar: Array,
    output_bars: Array | None,
    wanted: int,
) -> Cotangents:
    """There and back: x₀ (nc, N), held values, inputs (K, nu) or (K, nu, N), x̄ of the end (nc, N), ȳ (K, nc, N) or None"""
    (size, n), (steps, width) = start.shape, inputs.shape[:2]
    stretch = max(1, RETAINED // ((3 * size + 2 * width) * n * start.itemsize))
    before = max(0, steps - 1) // stretch * stretch  # the last stretch is flown once, those before it twice
    _, marks = forward(start.copy(), held, inputs[:before], before, stretch) if before else (None, ())
    bars = np.concatenate([end_bar, np.zeros((wanted, n), dtype=start.dtype)])
    input_bars, end = np.empty((steps, width, n), dtype=start.dtype), start
    for first in range(before, -1, -stretch) if steps else ():
        part = slice(first, min(first + stretch, steps))
        at = start if first == 0 else np.asarray(marks[first // stretch - 1])
        reached, later = forward(at.copy(), held, inputs[part], part.stop - first)
        end = reached if first == before else end
        own = inputs[part] if inputs.ndim == 3 else np.broadcast_to(inputs[part, :, None], (len(later), width, n))
        given = [np.concatenate([at[None], later[:-1]]), own, *([] if output_bars is None else [output_bars[part]])]
        bars, found = backward(bars, held, np.concatenate(given, axis=1)[::-1], len(later))
        input_bars[part] = found[::-1]
    return Cotangents(bars[:size], bars[size:], input_bars, end)


def bar_rows(tree: Scalar, what: str, count: int, shape: tuple[int, ...], dtype: str) -> Array:
    """The leaves of a nested tuple of cotangents as rows of a shape, (..., count, N): each of them a number, or of the shape
    without count; without a batch N is 1, and is left out of what is given"""
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{what} has {len(leaves)} numbers; expected {count}, one for each it is the cotangent of")
    rows = np.empty((count, *shape), dtype=dtype)
    for k, leaf in enumerate(leaves):
        own = np.asarray(leaf, dtype=float)
        allowed = {(), shape, shape[:-1] if shape[-1] == 1 else shape}
        if own.shape not in allowed:
            raise ValueError(f"{what}[{k}] has shape {own.shape}; expected {' or '.join(map(str, sorted(allowed)))}")
        if not np.isfinite(own).all():
            raise ValueError(f"{what}[{k}] is {own[~np.isfinite(own)].flat[0]}; expected finite numbers")
        rows[k] = own.reshape(shape) if own.ndim else own
    return np.moveaxis(rows, 0, -2)
