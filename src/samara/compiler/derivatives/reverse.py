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

from samara.compiler.derivatives.rules import FLAT, SLOPES, activation_slope
from samara.compiler.llvm.scan import compile_scan_program
from samara.compiler.scan import CompiledScan, Templates, compile_scan_python
from samara.compiler.stepper import Scan
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Instruction, Program, eliminate_dead_code
from samara.compiler.trace.tape_scalar import TapeScalar, TapeWithConstants
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

MAX_CHECKPOINT_BYTES = 1 << 28  # bytes of states in memory at once
CARRY, HELD_INPUTS, INPUTS, CARRY_BAR, OUTPUT_BAR = range(5)  # input groups of the adjoint of a scan


def adjoint_program(program: Program, sizes: Sequence[int], groups: Sequence[int]) -> Program:
    """(x, ȳ) → x̄ of a program y = f(x) whose input groups have these sizes, for the input groups `groups`."""
    program = unroll_loops(program, sizes)
    tape = TapeWithConstants(max_length=inf)
    reverse = _Reverse(program, tape, _dependent_instructions(program, set(groups)))
    for group, outputs in enumerate(program.outputs):
        for component, index in enumerate(outputs):
            reverse.add(index, tape.add_input(len(sizes) + group, component))
    reverse.run()
    zero = tape.operand_index(0.0)
    bars = {
        instruction.location: reverse.bars[index]
        for index, instruction in enumerate(program.instructions)
        if instruction.operation == "input"
    }
    bar_outputs: list[tuple[int, ...]] = []
    for group in groups:
        cotangents = (bars.get((group, component)) for component in range(sizes[group]))
        bar_outputs.append(tuple(zero if bar is None else bar.index for bar in cotangents))
    return eliminate_dead_code(Program(tuple(tape.instructions), tuple(bar_outputs)))


def unroll_loops(program: Program, sizes: Sequence[int]) -> Program:
    """Return the program with its loops unrolled; itself if it has no loops."""
    if all(instruction.loop is None for instruction in program.instructions):
        return program
    tape = TapeWithConstants(max_length=inf)
    results = evaluate_program(
        program, [[tape.add_input(group, k) for k in range(size)] for group, size in enumerate(sizes)]
    )
    outputs = tuple(tuple(tape.operand_index(leaf) for leaf in group) for group in results)
    return eliminate_dead_code(Program(tuple(tape.instructions), outputs))


def _dependent_instructions(program: Program, groups: set[int]) -> set[int]:
    """Return the instructions that depend on a requested input; conditions and floors are constant between their jumps."""
    dependent: set[int] = set()
    for index, instruction in enumerate(program.instructions):
        if instruction.operation == "input":
            if instruction.location[0] in groups:
                dependent.add(index)
        elif instruction.operation not in FLAT and not dependent.isdisjoint(instruction.arguments):
            dependent.add(index)
    return dependent


class _Reverse:
    """The instructions of a program on a new tape, and the cotangents of those that depend on a requested input."""

    def __init__(self, program: Program, tape: TapeWithConstants, dependent: set[int]) -> None:
        self.instructions, self.tape, self.dependent = program.instructions, tape, dependent
        self.values: list[TapeScalar] = []
        for instruction in program.instructions:
            if instruction.operation == "input":
                self.values.append(tape.add_input(*instruction.location))
            elif instruction.operation == "constant":
                self.values.append(TapeScalar(tape.operand_index(instruction.constant), tape))
            else:
                self.values.append(
                    tape.record_copy(instruction, *(self.values[index] for index in instruction.arguments))
                )
        self.bars: list[TapeScalar | None] = [None] * len(self.values)
        self.rows: dict[int, dict[int, tuple[TapeScalar, TapeScalar]]] = {}  # layer index: a row and its cotangent

    def add(self, index: int, bar: TapeScalar) -> None:
        """Add to the cotangent of an instruction."""
        previous = self.bars[index]
        self.bars[index] = bar if previous is None else previous + bar

    def run(self) -> None:
        """Propagate the cotangents, from the last instruction to the first."""
        for index in range(len(self.values) - 1, -1, -1):
            instruction, bar = self.instructions[index], self.bars[index]
            if index not in self.dependent or not instruction.arguments:
                continue
            if instruction.layer is not None:
                self._propagate_layer(instruction, instruction.layer, self.rows.get(index, {}))
            elif bar is not None:
                self._propagate(instruction, index, bar)

    def _propagate(self, instruction: Instruction, index: int, bar: TapeScalar) -> None:
        if instruction.operation == "row":
            self.rows.setdefault(instruction.arguments[0], {})[instruction.location[1]] = self.values[index], bar
            return
        if instruction.operation == "select":
            condition, first, second = instruction.arguments
            if first in self.dependent:
                self.add(first, self.tape.record("select", self.values[condition], bar, 0.0))
            if second in self.dependent:
                self.add(second, self.tape.record("select", self.values[condition], 0.0, bar))
            return
        slopes = SLOPES[instruction.operation](*(self.values[k] for k in instruction.arguments), self.values[index])
        for k, slope in zip(instruction.arguments, slopes, strict=True):
            if k in self.dependent:
                self.add(k, _product(slope, bar))

    def _propagate_layer(
        self, instruction: Instruction, layer: Layer, rows: dict[int, tuple[TapeScalar, TapeScalar]]
    ) -> None:
        """x̄ = Wᵀ (ȳ f'(y)), as a layer."""
        if not rows:
            return
        row_bars = {k: _product(activation_slope(layer.activation, y), bar) for k, (y, bar) in rows.items()}
        transposed = Layer(tuple(zip(*layer.weights, strict=True)), (0.0,) * layer.columns)
        result = self.tape.record_copy(
            Instruction("layer", layer=transposed), *(row_bars.get(k, 0.0) for k in range(layer.rows))
        )
        for column, index in enumerate(instruction.arguments):
            if index in self.dependent:
                self.add(index, self.tape.record_copy(Instruction("row", location=(0, column)), result))


def _product(slope: float | TapeScalar, bar: TapeScalar) -> TapeScalar:
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
) -> CompiledScan:
    """Compile the backward scan: carry (x̄, h̄ of the held inputs with these indices), inputs (xₖ, uₖ and, if `recorded`, ȳₖ)
    from the last step to the first, outputs ūₖ; compiled by LLVM, or evaluated on NumPy arrays.

    The full body is differentiated, even if the forward step took the idle path.
    """
    primal = trace_program(scan.body, *scan.templates)
    sizes = [len(flatten(template)) for template in scan.templates]
    program = adjoint_scan_program(primal, sizes, held_indices, recorded)
    group_sizes = [
        sizes[CARRY] + len(held_indices),
        sizes[HELD_INPUTS],
        sizes[CARRY] + sizes[INPUTS] + recorded * len(primal.outputs[1]),
    ]
    if backend == "llvm":
        return compile_scan_program(program, group_sizes, dtype=dtype, fast=fast)
    templates = Templates(*((0.0,) * size for size in group_sizes))

    def body(*groups: Sequence[Scalar]) -> Scalar:
        arrays = [[np.atleast_1d(np.asarray(x, dtype=dtype)) for x in group] for group in groups]
        return tuple(map(tuple, evaluate_program(program, arrays)))

    return compile_scan_python(body, templates, dtype=dtype)


def adjoint_scan_program(
    program: Program, sizes: Sequence[int], held_indices: Sequence[int], recorded: bool
) -> Program:
    """Return the body of the backward scan, for a scan body whose carry, held inputs and inputs have these sizes."""
    carry, outputs = program.outputs
    primal = Program(program.instructions, (carry, outputs if recorded else ()))
    adjoint = adjoint_program(primal, sizes, (CARRY, HELD_INPUTS, INPUTS))
    first = {
        CARRY: 0,
        INPUTS: sizes[CARRY],
        OUTPUT_BAR: sizes[CARRY] + sizes[INPUTS],
    }  # in the inputs of the backward scan
    instructions = [_redirect_input(instruction, first) for instruction in adjoint.instructions]
    carry_bar, held_bar, inputs_bar = adjoint.outputs
    held_sums = []
    for component, index in enumerate(held_indices, sizes[CARRY]):
        input_index = len(instructions)
        instructions += [
            Instruction("input", location=(0, component)),
            Instruction("add", (input_index, held_bar[index])),
        ]
        held_sums.append(input_index + 1)
    return eliminate_dead_code(Program(tuple(instructions), ((*carry_bar, *held_sums), inputs_bar)))


def _redirect_input(instruction: Instruction, first: dict[int, int]) -> Instruction:
    """Redirect an input of an adjoint program to its position in the backward scan."""
    if instruction.operation != "input" or instruction.location[0] == HELD_INPUTS:
        return instruction
    group, component = instruction.location
    return instruction._replace(location=(0, component) if group == CARRY_BAR else (2, first[group] + component))


class Cotangents(NamedTuple):
    """x̄ (nc, N) of the start, h̄ (k, N) of the held inputs, ū (K, nu, N) of the inputs; and the final carry (nc, N)."""

    carry: Array
    held_inputs: Array
    inputs: Array
    end: Array


def pull_back(
    forward: CompiledScan,
    backward: CompiledScan,
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
    segment = max(1, MAX_CHECKPOINT_BYTES // ((3 * size + 2 * width) * n * start.itemsize))
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


def cotangent_array(tree: Scalar, label: str, count: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the leaves of a nested tuple of cotangents as an array (..., count, N).

    Each leaf is a number, or has the shape without `count`; without a batch N is 1 and is omitted in a leaf.
    """
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{label} has {len(leaves)} numbers; expected {count}, one for each number of its primal")
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
