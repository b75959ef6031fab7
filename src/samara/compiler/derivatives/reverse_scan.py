"""Cotangents carried back through a scan, from its last step to its first, a lane for each drone.

    xₖ₊₁ = f(xₖ, h, uₖ):    x̄ₖ = f_xᵀ (x̄ₖ₊₁ + ȳₖ),    ūₖ = f_uᵀ (x̄ₖ₊₁ + ȳₖ),    h̄ = Σₖ f_hᵀ (x̄ₖ₊₁ + ȳₖ)

ȳₖ are cotangents of what a step has recorded, here xₖ₊₁ itself. The way back is a scan like the way there: its carry is (x̄, h̄),
and every step of it is given the state that the step of the same number started from (`cotangents.py`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.compiler.derivatives.reverse import adjoint_of
from samara.compiler.llvm.backend import compile_scan_program
from samara.compiler.scan import Run, Templates, compile_scan_python
from samara.compiler.stepper import Scan
from samara.compiler.trace.program import Instruction, Program, program_of, without_unused
from samara.compiler.trace.tape_scalar import play
from samara.core.tree import flatten

CARRY, HELD, INPUTS, CARRY_BAR, OUTPUT_BAR = range(5)  # the groups of inputs of an adjoint program


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

    def body(*groups: Any) -> Any:
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
