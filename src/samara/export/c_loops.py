"""Loops of traced programs over arrays as C99: what `compile_loops` compiles, for processors that LLVM does not run on.

Every array is one of the file, of its own name, or a pointer argument. Programs become straight-line functions of one step k;
their inputs are read from the arrays where they are needed, except those that the same function overwrites.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, LoopElement, Pass
from samara.compiler.trace.program import Program, combine_factors
from samara.export.c_syntax import C_FLOAT, FunctionBody, Variables, float_decimal, float_literals, wrap_words


class PassCode(NamedTuple):
    """A function of one step: its name, its text, the pointers it needs, and whether it depends on k."""

    name: str
    text: str
    pointers: tuple[str, ...]
    uses_step: bool

    def call(self, k: str) -> str:
        return f"{self.name}({', '.join([*self.pointers, *([k] if self.uses_step else [])])});"


def loops_code(name: str, loops: Sequence[ArrayLoop], steps: str, pointers: Iterable[str] = ()) -> str:
    """Return the C functions of loops; the last one, `name`, runs them in sequence.

    Args:
        name: name of the function; those of single passes begin with it.
        loops: loops whose passes have programs of one lane.
        steps: C expression of the number of steps.
        pointers: arrays that are arguments of the function; it takes those that its programs use, in this order.
    """
    functions: list[PassCode] = []
    lines, pointers = [], tuple(pointers)
    for loop in loops:
        codes = [
            _pass_code(f"{name}_{len(functions) + i}", loop_pass, pointers) for i, loop_pass in enumerate(loop.passes)
        ]
        functions += codes
        if loop.position != "each":
            k = steps if loop.position == "end" else "0"
            lines += [code.call(k) for code in codes]
            continue
        head = f"for (k = {steps} - 1; k >= 0; k--)" if loop.reverse else f"for (k = 0; k < {steps}; k++)"
        lines += [f"{head} {{", *(f"    {code.call('k')}" for code in codes), "}"]
    used = [pointer for pointer in pointers if any(pointer in code.pointers for code in functions)]
    written = {array.name for loop in loops for loop_pass in loop.passes for array in loop_pass.outputs}
    if any(line.startswith("for") for line in lines):
        lines = ["int k;", "", *lines]
    arguments = ", ".join(_pointer(pointer, written) for pointer in used) or "void"
    texts = [code.text for code in functions]
    return "\n\n".join([*texts, _function(name, arguments, lines)])


def array_sizes(loops: Iterable[tuple[ArrayLoop, int]]) -> dict[str, int]:
    """Return the size of each array, up to the last number that these loops, each with its number of steps, access."""
    sizes: dict[str, int] = {}
    for loop, steps in loops:
        last_step = {"start": 0, "end": steps}.get(loop.position, steps - 1)
        for loop_pass in loop.passes:
            for array in (*loop_pass.inputs, *loop_pass.outputs):
                if array.offsets:
                    size = max(array.offsets) + last_step * array.step_stride + 1
                    sizes[array.name] = max(sizes.get(array.name, 0), size)
    return sizes


def constant_array(name: str, values: Sequence[float]) -> str:
    """Define an array of constants."""
    numbers = wrap_words(", ".join(map(float_decimal, values)))
    return f"static const float {name}[{len(values)}] = {{\n{numbers}\n}};"


def _pass_code(name: str, loop_pass: LoopElement, pointers: tuple[str, ...]) -> PassCode:
    if not isinstance(loop_pass, Pass) or loop_pass.width != 1 or loop_pass.condition is not None:
        raise ValueError(f"{name}: expected a pass of one lane without a condition to export as C")
    program = loop_pass.program
    if not isinstance(program, Program) or any(i.layer or i.grid or i.loop for i in program.instructions):
        raise ValueError(f"{name}: has a table, a layer or a loop; expected equations without them to export as C")
    program = combine_factors(program)
    read = {i.location for i in program.instructions if i.operation == "input"}
    groups = [
        tuple(offset for c, offset in enumerate(array.offsets) if (group, c) in read)
        for group, array in enumerate(loop_pass.inputs)
    ]
    used = [array for array, offsets in zip(loop_pass.inputs, groups, strict=True) if offsets]
    used += [array for array in loop_pass.outputs if array.offsets]
    written = {array.name for array in loop_pass.outputs}
    inputs = [
        _variables(array, is_overwritten(array, offsets, loop_pass.outputs))
        for array, offsets in zip(loop_pass.inputs, groups, strict=True)
    ]
    outputs = [_variables(array)._replace(descriptions=[""] * len(array.offsets)) for array in loop_pass.outputs]
    rows = {_base(array): array for array in used if array.step_stride}
    lines = [
        f"{'' if array.name in written else 'const '}float *const {base} = {array.name} + {array.step_stride} * k;"
        for base, array in rows.items()
    ]
    body = [float_literals(line) for line in FunctionBody(program, inputs, outputs, C_FLOAT._replace(unused="")).lines]
    names = tuple(pointer for pointer in pointers if any(array.name == pointer for array in used))
    arguments = [*(_pointer(pointer, written) for pointer in names), *(["int k"] if rows else [])]
    text = _function(name, ", ".join(arguments) or "void", [*lines, *([""] if lines else []), *body])
    return PassCode(name, text, names, bool(rows))


def is_overwritten(array: ArraySpec, offsets: Sequence[int], outputs: Iterable[ArraySpec]) -> bool:
    """Whether one of these numbers of an array may be among the outputs of the same step."""
    return any(
        output.name == array.name and (output.step_stride != array.step_stride or {*offsets} & {*output.offsets})
        for output in outputs
    )


def _variables(array: ArraySpec, is_copied: bool = True) -> Variables:
    expressions = [f"{_base(array)}[{offset}]" for offset in array.offsets]
    return Variables([f"{array.name}[{offset}]" for offset in array.offsets], expressions, not is_copied)


def _base(array: ArraySpec) -> str:
    return f"{array.name}_k" if array.step_stride else array.name


def _pointer(name: str, written: Iterable[str]) -> str:
    return f"{'' if name in written else 'const '}float *restrict {name}"


def _function(name: str, arguments: str, lines: Sequence[str]) -> str:
    indented = (f"    {line}" if line else "" for line in lines)
    return "\n".join([f"static void {name}({arguments})", "{", *indented, "}"])
