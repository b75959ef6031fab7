"""Reverse differentiation: exact cotangents, computed from the outputs of a program or a scan back to its inputs.

    y = f(x):   x̄ = f'(x)ᵀ ȳ        and through a step   xₖ₊₁ = f(xₖ, u):   x̄ₖ = f_xᵀ x̄ₖ₊₁,   ū += f_uᵀ x̄ₖ₊₁

The program is computed once; then each of its instructions, from the last to the first, passes the cotangent of its result to
its operands by the slopes of `rules.py`. All of f'ᵀ ȳ costs a few times f, whatever the input count. At a kink the derivative
is that of the branch taken.

An adjoint program has the input groups of its primal program, followed by one for each group of outputs: ȳ. Its outputs are the
cotangents of the requested input groups.
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

RETAINED = 1 << 28  # bytes of states in memory at once
CARRY, HELD, INPUTS, CARRY_BAR, OUTPUT_BAR = range(5)  # input groups of the adjoint of a scan


def adjoint_of(program: Program, sizes: Sequence[int], groups: Sequence[int]) -> Program:
    """(x, ȳ) → x̄ of a program y = f(x) whose input groups have these sizes, for the input groups `wanted`."""
    program = without_loops(program, sizes)
    tape = TapeWithConstants(longest=inf)
    reverse = _Reverse(program, tape, _moving(program, set(groups)))
    for group, outputs in enumerate(program.outputs):
        for component, index in enumerate(outputs):
            reverse.add(index, tape.scalar(len(sizes) + group, component))
    reverse.run()
    zero = tape.place(0.0)
    bars = {
        instruction.place: reverse.bars[index]
        for index, instruction in enumerate(program.instructions)
        if instruction.operation == "input"
    }
    bar_outputs: list[tuple[int, ...]] = []
    for group in groups:
        cotangents = (bars.get((group, component)) for component in range(sizes[group]))
        bar_outputs.append(tuple(zero if bar is None else bar.at for bar in cotangents))
    return without_unused(Program(tuple(tape.instructions), tuple(bar_outputs)))


def without_loops(program: Program, sizes: Sequence[int]) -> Program:
    """Return the program with its loops unrolled; itself if it has no loops."""
    if all(instruction.loop is None for instruction in program.instructions):
        return program
    tape = TapeWithConstants(longest=inf)
    results = play(program, [[tape.scalar(group, k) for k in range(size)] for group, size in enumerate(sizes)])
    outputs = tuple(tuple(tape.place(leaf) for leaf in group) for group in results)
    return without_unused(Program(tuple(tape.instructions), outputs))


def _moving(program: Program, groups: set[int]) -> set[int]:
    """Return the instructions that depend on a requested input; conditions and floors are constant between their jumps."""
    dependent: set[int] = set()
    for index, instruction in enumerate(program.instructions):
        if instruction.operation == "input":
            if instruction.place[0] in groups:
                dependent.add(index)
        elif instruction.operation not in FLAT and not dependent.isdisjoint(instruction.arguments):
            dependent.add(index)
    return dependent


class _Reverse:
    """The instructions of a program on a new tape, and the cotangents of those that depend on a requested input."""

    def __init__(self, program: Program, tape: TapeWithConstants, dependent: set[int]) -> None:
        self.instructions, self.tape, self.moving = program.instructions, tape, dependent
        self.values: list[Taped] = []
        for instruction in program.instructions:
            if instruction.operation == "input":
                self.values.append(tape.scalar(*instruction.place))
            elif instruction.operation == "constant":
                self.values.append(Taped(tape.place(instruction.constant), tape))
            else:
                self.values.append(tape.repeat(instruction, *(self.values[index] for index in instruction.arguments)))
        self.bars: list[Taped | None] = [None] * len(self.values)
        self.rows: dict[int, dict[int, tuple[Taped, Taped]]] = {}  # layer index: a row and its cotangent

    def add(self, index: int, bar: Taped) -> None:
        """Add to the cotangent of an instruction."""
        previous = self.bars[index]
        self.bars[index] = bar if previous is None else previous + bar

    def run(self) -> None:
        """Propagate the cotangents, from the last instruction to the first."""
        for index in range(len(self.values) - 1, -1, -1):
            instruction, bar = self.instructions[index], self.bars[index]
            if index not in self.moving or not instruction.arguments:
                continue
            if instruction.layer is not None:
                self._pass_through_layer(instruction, instruction.layer, self.rows.get(index, {}))
            elif bar is not None:
                self._pass_on(instruction, index, bar)

    def _pass_on(self, instruction: Instruction, index: int, bar: Taped) -> None:
        if instruction.operation == "row":
            self.rows.setdefault(instruction.arguments[0], {})[instruction.place[1]] = self.values[index], bar
            return
        if instruction.operation in SELECTIONS:
            condition, first, *second = instruction.arguments
            if first in self.moving:
                self.add(first, self.tape.note("select", self.values[condition], bar, 0.0))
            if second and second[0] in self.moving:
                self.add(second[0], self.tape.note("select", self.values[condition], 0.0, bar))
            return
        slopes = SLOPES[instruction.operation](*(self.values[k] for k in instruction.arguments), self.values[index])
        for k, slope in zip(instruction.arguments, slopes, strict=True):
            if k in self.moving:
                self.add(k, _product(slope, bar))

    def _pass_through_layer(self, instruction: Instruction, layer: Layer, rows: dict[int, tuple[Taped, Taped]]) -> None:
        """x̄ = Wᵀ (ȳ f'(y)), as a layer."""
        if not rows:
            return
        row_bars = {k: _product(activation_slope(layer.activation, y), bar) for k, (y, bar) in rows.items()}
        transposed = Layer(tuple(zip(*layer.weights, strict=True)), (0.0,) * layer.columns)
        result = self.tape.repeat(
            Instruction("layer", layer=transposed), *(row_bars.get(k, 0.0) for k in range(layer.rows))
        )
        for column, index in enumerate(instruction.arguments):
            if index in self.moving:
                self.add(index, self.tape.repeat(Instruction("row", place=(0, column)), result))


def _product(slope: float | Taped, bar: Taped) -> Taped:
    if isinstance(slope, float) and slope in (1.0, -1.0):
        return bar if slope == 1.0 else -bar
    return slope * bar


# Scans --------------------------------------------------------------------------------------------------------------------
#
#     xₖ₊₁ = f(xₖ, h, uₖ):    x̄ₖ = f_xᵀ (x̄ₖ₊₁ + ȳₖ),    ūₖ = f_uᵀ (x̄ₖ₊₁ + ȳₖ),    h̄ = Σₖ f_hᵀ (x̄ₖ₊₁ + ȳₖ)
#
# ȳₖ are cotangents of the outputs of a step, here of xₖ₊₁. The backward scan has the carry (x̄, h̄), and each of its steps reads
# the state from which the forward step with the same index started.


def compile_adjoint(
    backend: str, scan: Scan, held_indices: Sequence[int], recorded: bool, *, dtype: str = "float64", fast: bool = False
) -> Run:
    """Compile the backward scan: carry (x̄, h̄ of the held inputs with these indices), inputs (xₖ, uₖ and, if `recorded`, ȳₖ)
    from the last step to the first, outputs ūₖ; compiled by LLVM, or evaluated on NumPy arrays.

    The full body is differentiated, even if the forward step took the idle path.
    """
    primal = program_of(scan.body, *scan.templates)
    sizes = [len(flatten(template)) for template in scan.templates]
    program = adjoint_scan_of(primal, sizes, held_indices, recorded)
    group_sizes = [
        sizes[CARRY] + len(held_indices),
        sizes[HELD],
        sizes[CARRY] + sizes[INPUTS] + recorded * len(primal.outputs[1]),
    ]
    if backend == "llvm":
        return compile_scan_program(program, group_sizes, dtype=dtype, fast=fast)
    templates = Templates(*((0.0,) * size for size in group_sizes))

    def body(*groups: Sequence[Scalar]) -> Scalar:
        arrays = [[np.atleast_1d(np.asarray(x, dtype=dtype)) for x in group] for group in groups]
        return tuple(map(tuple, play(program, arrays)))

    return compile_scan_python(body, templates, dtype=dtype)


def adjoint_scan_of(program: Program, sizes: Sequence[int], held_indices: Sequence[int], recorded: bool) -> Program:
    """Return the body of the backward scan, for a scan body whose carry, held inputs and inputs have these sizes."""
    carry, outputs = program.outputs
    primal = Program(program.instructions, (carry, outputs if recorded else ()))
    adjoint = adjoint_of(primal, sizes, (CARRY, HELD, INPUTS))
    first = {
        CARRY: 0,
        INPUTS: sizes[CARRY],
        OUTPUT_BAR: sizes[CARRY] + sizes[INPUTS],
    }  # in the inputs of the backward scan
    instructions = [_moved(instruction, first) for instruction in adjoint.instructions]
    carry_bar, held_bar, inputs_bar = adjoint.outputs
    held_sums = []
    for component, index in enumerate(held_indices, sizes[CARRY]):
        input_index = len(instructions)
        instructions += [Instruction("input", place=(0, component)), Instruction("add", (input_index, held_bar[index]))]
        held_sums.append(input_index + 1)
    return without_unused(Program(tuple(instructions), ((*carry_bar, *held_sums), inputs_bar)))


def _moved(instruction: Instruction, first: dict[int, int]) -> Instruction:
    """Redirect an input of an adjoint program to its position in the backward scan."""
    if instruction.operation != "input" or instruction.place[0] == HELD:
        return instruction
    group, component = instruction.place
    return instruction._replace(place=(0, component) if group == CARRY_BAR else (2, first[group] + component))


class Cotangents(NamedTuple):
    """x̄ (nc, N) of the start, h̄ (k, N) of the held inputs, ū (K, nu, N) of the inputs; and the final carry (nc, N)."""

    carry: Array
    held: Array
    inputs: Array
    end: Array


def pulled_back(
    forward: Run,
    backward: Run,
    start: Array,
    held_inputs: Sequence[Array | float],
    inputs: Array,
    end_bar: Array,
    output_bars: Array | None,
    held_count: int,
) -> Cotangents:
    """Run a scan forward and backward: x₀ (nc, N), inputs (K, nu) or (K, nu, N), x̄ of the end (nc, N), ȳ (K, nc, N) or None.

    The states of one segment at a time are in memory; the states at the segment borders are checkpoints.
    """
    (size, n), (steps, width) = start.shape, inputs.shape[:2]
    segment = max(1, RETAINED // ((3 * size + 2 * width) * n * start.itemsize))
    last_start = max(0, steps - 1) // segment * segment  # the last segment is computed once, the earlier ones twice
    _, checkpoints = (
        forward(start.copy(), held_inputs, inputs[:last_start], last_start, segment) if last_start else (None, ())
    )
    bars = np.concatenate([end_bar, np.zeros((held_count, n), dtype=start.dtype)])
    input_bars, end = np.empty((steps, width, n), dtype=start.dtype), start
    for first in range(last_start, -1, -segment) if steps else ():
        part = slice(first, min(first + segment, steps))
        segment_start = start if first == 0 else np.asarray(checkpoints[first // segment - 1])
        segment_end, states = forward(segment_start.copy(), held_inputs, inputs[part], part.stop - first)
        end = segment_end if first == last_start else end
        segment_inputs = (
            inputs[part] if inputs.ndim == 3 else np.broadcast_to(inputs[part, :, None], (len(states), width, n))
        )
        backward_inputs = [
            np.concatenate([segment_start[None], states[:-1]]),
            segment_inputs,
            *([] if output_bars is None else [output_bars[part]]),
        ]
        bars, segment_bars = backward(bars, held_inputs, np.concatenate(backward_inputs, axis=1)[::-1], len(states))
        input_bars[part] = segment_bars[::-1]
    return Cotangents(bars[:size], bars[size:], input_bars, end)


def bar_rows(tree: Scalar, label: str, count: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the leaves of a nested tuple of cotangents as an array (..., count, N).

    Each leaf is a number, or has the shape without `count`; without a batch N is 1 and is omitted in a leaf.
    """
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{label} has {len(leaves)} numbers; expected {count}, one for each it is the cotangent of")
    rows = np.empty((count, *shape), dtype=dtype)
    for k, leaf in enumerate(leaves):
        array = np.asarray(leaf, dtype=float)
        allowed = {(), shape, shape[:-1] if shape[-1] == 1 else shape}
        if array.shape not in allowed:
            raise ValueError(f"{label}[{k}] has shape {array.shape}; expected {' or '.join(map(str, sorted(allowed)))}")
        if not np.isfinite(array).all():
            raise ValueError(f"{label}[{k}] is {array[~np.isfinite(array)].flat[0]}; expected finite numbers")
        rows[k] = array.reshape(shape) if array.ndim else array
    return np.moveaxis(rows, 0, -2)
