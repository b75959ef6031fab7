"""A traced function as a flat list of instructions, from which CPU code and C are emitted.

CasADi traces the function, shares common subexpressions and drops unused ones. This module turns its register code into static
single assignment and its `(c ? a : 0) + (!c ? b : 0)` back into one selection.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import casadi

from samara.compiler.scan import IdlePath
from samara.compiler.trace.casadi_scalar import Symbol, TracedLoop, expression, opaque_operations
from samara.core.block_ops import ConstantTable, Layer
from samara.core.quantity import Scalar
from samara.core.traced_scalar import locate_trace_errors
from samara.core.tree import Tree, flatten, unflatten

OPERATIONS = {
    casadi.OP_ADD: "add",
    casadi.OP_SUB: "subtract",
    casadi.OP_MUL: "multiply",
    casadi.OP_DIV: "divide",
    casadi.OP_NEG: "negate",
    casadi.OP_SQ: "square",
    casadi.OP_TWICE: "twice",
    casadi.OP_INV: "invert",
    casadi.OP_SQRT: "sqrt",
    casadi.OP_SIN: "sin",
    casadi.OP_COS: "cos",
    casadi.OP_TAN: "tan",
    casadi.OP_ASIN: "asin",
    casadi.OP_ACOS: "acos",
    casadi.OP_ATAN: "atan",
    casadi.OP_ATAN2: "atan2",
    casadi.OP_EXP: "exp",
    casadi.OP_LOG: "log",
    casadi.OP_POW: "power",
    casadi.OP_CONSTPOW: "power",
    casadi.OP_FLOOR: "floor",
    casadi.OP_LT: "less",
    casadi.OP_LE: "less_equal",
    casadi.OP_EQ: "equal",
    casadi.OP_NE: "not_equal",
    casadi.OP_NOT: "not",
    casadi.OP_AND: "and",
    casadi.OP_OR: "or",
    casadi.OP_IF_ELSE_ZERO: "if_else_zero",
}
CONDITIONS = frozenset({"less", "less_equal", "equal", "not_equal", "not", "and", "or"})


class Instruction(NamedTuple):
    """One operation on earlier results; `constant` for "constant", `location` (group, index) for "input".

    A "layer" computes all rows of a layer at once, a "loop" its whole carry, and a "row" is element `location[1]` of either.
    A "lookup" reads the entry of a grid at two indices.
    """

    operation: str
    arguments: tuple[int, ...] = ()
    constant: float = 0.0
    location: tuple[int, int] = (0, 0)
    layer: Layer | None = None
    grid: ConstantTable | None = None
    loop: "Loop | None" = None


class Program(NamedTuple):
    """Instructions in order, and for each group of outputs the instructions that compute them."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[tuple[int, ...], ...]


class Loop(NamedTuple):
    """carry ← body(k, carry, inputs), `max_iterations` times or while `active(carry, inputs)`; operands are the carry,
    then inputs."""

    max_iterations: int
    carry_size: int
    body: Program
    active: Program | None

    @property
    def size(self) -> int:
        """Instruction count over all iterations."""
        return self.max_iterations * (
            instruction_count(self.body) + (instruction_count(self.active) if self.active else 0)
        )


class GuardedProgram(NamedTuple):
    """A full program (`full`), a shorter one (`idle_path`) whose last output is the condition that its results are valid, and a
    condition (`guard`) for trying the shorter one."""

    guard: Program
    idle_path: Program
    full: Program

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions of the full program."""
        return self.full.instructions

    @property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The outputs of the full program."""
        return self.full.outputs


def trace_program(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Trace `function(*arguments)`, arguments shaped like the templates; one output group per element of its result."""
    symbols = [casadi.SX.sym(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter([Symbol(component) for component in casadi.vertsplit(x)] if x.numel() else []))
        for template, x in zip(templates, symbols, strict=True)
    ]
    with locate_trace_errors(), opaque_operations() as opaque:
        results = [casadi.vertcat(*map(expression, flatten(result))) for result in function(*arguments)]
    if not opaque:
        return program_from_expressions(symbols, results)
    symbols_and_rows = [*symbols, *(call.results for call in opaque)]
    expressions = [*results, *(casadi.vertcat(*call.arguments) for call in opaque)]
    calls = [_instruction(call.operation) for call in opaque]
    return _insert_calls(program_from_expressions(symbols_and_rows, expressions), len(symbols), calls)


def _instruction(operation: Layer | ConstantTable | TracedLoop) -> Instruction:
    if isinstance(operation, Layer):
        return Instruction("layer", layer=operation)
    if isinstance(operation, ConstantTable):
        return Instruction("lookup", grid=operation)
    return Instruction("loop", loop=trace_loop(operation, trace_program))


def trace_loop(traced_loop: TracedLoop, trace: Callable[..., Program]) -> Loop:
    """Trace the body and the condition of a loop with `trace_program` or `trace_unsimplified`."""
    body, carry, inputs, turns, active = traced_loop
    condition = None if active is None else trace(lambda *arguments: (active(*arguments),), carry, inputs)
    iteration = trace(lambda *arguments: (body(*arguments),), 0.0, carry, inputs)
    return Loop(turns, len(flatten(carry)), iteration, condition)


def trace_body(
    body: Callable[..., Tree], templates: tuple[Scalar, ...], idle_path: IdlePath | None
) -> Program | GuardedProgram:
    """Trace the body of a scan, and its idle path if it has one."""
    full = trace_program(body, *templates)
    if idle_path is None:
        return full
    idle, idle_body = idle_path
    return GuardedProgram(
        trace_program(lambda *arguments: (idle(*arguments),), *templates), trace_program(idle_body, *templates), full
    )


def program_from_expressions(symbols: list[casadi.SX], results: list[casadi.SX]) -> Program:
    """Return the program that computes CasADi expressions; one input group per symbol, one output group per result."""
    sizes = [int(casadi.SX(result).numel()) for result in results]
    shared = casadi.cse(casadi.vertcat(*results))
    traced = casadi.Function("traced", symbols, [shared])
    return _group_outputs(_single_assignment(traced), sizes)


def _single_assignment(traced: casadi.Function) -> Program:
    instructions: list[Instruction] = []
    registers: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for k in range(traced.n_instructions()):
        operation, targets, sources = (
            traced.instruction_id(k),
            traced.instruction_output(k),
            traced.instruction_input(k),
        )
        if operation == casadi.OP_OUTPUT:
            outputs[targets[1]] = registers[sources[0]]
            continue
        if operation == casadi.OP_CONST:
            instruction = Instruction("constant", constant=float(traced.instruction_constant(k)))
        elif operation == casadi.OP_INPUT:
            instruction = Instruction("input", location=(sources[0], sources[1]))
        elif operation == casadi.OP_FABS:  # CasADi simplifies only √(x²) to it
            x, zero = registers[sources[0]], len(instructions)
            instructions += [
                Instruction("constant"),
                Instruction("less", (x, zero)),
                Instruction("negate", (x,)),
            ]
            instruction = Instruction("select", (zero + 1, zero + 2, x))
        elif operation in OPERATIONS:
            instruction = _merge_selection(
                Instruction(OPERATIONS[operation], tuple(registers[i] for i in sources)), instructions
            )
        else:
            raise NotImplementedError(f"CasADi operation {operation} has no translation")
        registers[targets[0]] = len(instructions)
        instructions.append(instruction)
    order = tuple(outputs[i] for i in range(len(outputs)))
    return eliminate_dead_code(Program(tuple(instructions), (order,)))


def _merge_selection(instruction: Instruction, earlier: list[Instruction]) -> Instruction:
    """(c ? a : 0) + (!c ? b : 0) is c ? a : b."""
    if instruction.operation != "add":
        return instruction
    first, second = (earlier[i] for i in instruction.arguments)
    if first.operation == second.operation == "if_else_zero":
        condition, other_condition = earlier[first.arguments[0]], earlier[second.arguments[0]]
        if other_condition.operation == "not" and other_condition.arguments[0] == first.arguments[0]:
            return Instruction("select", (first.arguments[0], first.arguments[1], second.arguments[1]))
        if condition.operation == "not" and condition.arguments[0] == second.arguments[0]:
            return Instruction("select", (second.arguments[0], second.arguments[1], first.arguments[1]))
    return instruction


def eliminate_dead_code(program: Program) -> Program:
    """Remove the instructions on which no output depends."""
    used = {i for group in program.outputs for i in group}
    for i in range(len(program.instructions) - 1, -1, -1):
        if i in used:
            used.update(program.instructions[i].arguments)
    used_order = sorted(used)
    new_index = {old: new for new, old in enumerate(used_order)}
    instructions = tuple(
        program.instructions[i]._replace(arguments=tuple(new_index[j] for j in program.instructions[i].arguments))
        for i in used_order
    )
    return Program(instructions, tuple(tuple(new_index[i] for i in group) for group in program.outputs))


def _insert_calls(program: Program, groups: int, calls: list[Instruction]) -> Program:
    """Replace opaque inputs by their layers, lookups and loops.

    The input groups from `groups` on are the results of the calls; the last groups of outputs are the arguments of the calls.
    """
    source, output_count = program.instructions, len(program.outputs) - len(calls)
    rows: list[list[int]] = [[] for _ in calls]
    for i, instruction in enumerate(source):
        if instruction.operation == "input" and instruction.location[0] >= groups:
            rows[instruction.location[0] - groups].append(i)
    instructions: list[Instruction] = []
    new_index: dict[int, int] = {}

    def add(indices: Iterable[int]) -> None:
        """Append these instructions, preceded by their operands."""
        required: set[int] = set()
        pending = list(indices)
        while pending:
            if (i := pending.pop()) not in new_index and i not in required:
                required.add(i)
                pending += source[i].arguments
        for i in sorted(required):
            new_index[i] = len(instructions)
            instructions.append(source[i]._replace(arguments=tuple(new_index[j] for j in source[i].arguments)))

    for call, row_inputs, arguments in zip(
        calls, rows, program.outputs[output_count:], strict=True
    ):  # each call comes after those it depends on
        add(arguments)
        result = len(instructions)
        instructions.append(call._replace(arguments=tuple(new_index[i] for i in arguments)))
        for i in row_inputs:
            if call.operation == "lookup":
                new_index[i] = result
                continue
            new_index[i] = len(instructions)
            instructions.append(Instruction("row", (result,), location=(0, source[i].location[1])))
    add(i for group in program.outputs[:output_count] for i in group)
    return eliminate_dead_code(
        Program(
            tuple(instructions), tuple(tuple(new_index[i] for i in group) for group in program.outputs[:output_count])
        )
    )


def instruction_count(program: Program) -> int:
    """Count the instructions, including every multiplication of a layer and every iteration of a loop."""
    sizes = [
        block.size
        for instruction in program.instructions
        for block in (instruction.layer, instruction.loop)
        if block is not None
    ]
    return len(program.instructions) + sum(sizes)


def _group_outputs(program: Program, sizes: list[int]) -> Program:
    indices, groups = iter(program.outputs[0]), []
    for size in sizes:
        groups.append(tuple(next(indices) for _ in range(size)))
    return Program(program.instructions, tuple(groups))
