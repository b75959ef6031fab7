"""A traced function as a flat list of instructions: what CPU code and C are emitted from.

CasADi traces the function, shares what is common and drops what is not used; this turns its register code into single
assignment and its `(c ? a : 0) + (!c ? b : 0)` back into one selection.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import casadi

from samara.compiler.scan import Quiet
from samara.compiler.trace.casadi_scalar import Symbol, TracedLoop, expression, opaque_operations
from samara.core.block_ops import Grid, Layer
from samara.core.quantity import Scalar
from samara.core.traced import tracing
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
    """One operation on the results of earlier ones; `constant` for "constant", `place` (group, index) for "input".

    A "layer" computes all rows of a layer at once, a "loop" all that it carries, and a "row" is number `place[1]` of either.
    A "lookup" reads the entry of a grid at two indices.
    """

    operation: str
    arguments: tuple[int, ...] = ()
    constant: float = 0.0
    place: tuple[int, int] = (0, 0)
    layer: Layer | None = None
    grid: Grid | None = None
    loop: "Loop | None" = None


class Program(NamedTuple):
    """Instructions in order, and for each group of outputs the instructions that hold them."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[tuple[int, ...], ...]


class Loop(NamedTuple):
    """carry ← body(k, carry, inputs), `turns` times or while `active(carry, inputs)`; arguments are carry, then inputs."""

    turns: int
    carried: int
    body: Program
    active: Program | None

    @property
    def size(self) -> int:
        """Instructions in all turns"""
        return self.turns * (work(self.body) + (work(self.active) if self.active else 0))


class Guarded(NamedTuple):
    """A program, a shorter one whose last output is a condition under which it gives the same, and when to try that one."""

    idle: Program
    quiet: Program
    whole: Program

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Those of the whole"""
        return self.whole.instructions

    @property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """Those of the whole"""
        return self.whole.outputs


def program_of(function: Callable[..., Tree], *templates: Tree) -> Program:
    """Traces `function(*arguments)`, arguments shaped like the templates; one output group per element of its result"""
    symbols = [casadi.SX.sym(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter([Symbol(own) for own in casadi.vertsplit(x)] if x.numel() else []))
        for template, x in zip(templates, symbols, strict=True)
    ]
    with tracing(), opaque_operations() as opaque:
        results = [casadi.vertcat(*map(expression, flatten(result))) for result in function(*arguments)]
    if not opaque:
        return program_of_expressions(symbols, results)
    symbols_and_rows = [*symbols, *(call.rows for call in opaque)]
    expressions = [*results, *(casadi.vertcat(*call.arguments) for call in opaque)]
    calls = [_instruction(call.operation) for call in opaque]
    return _with_calls(program_of_expressions(symbols_and_rows, expressions), len(symbols), calls)


def _instruction(operation: Layer | Grid | TracedLoop) -> Instruction:
    if isinstance(operation, Layer):
        return Instruction("layer", layer=operation)
    if isinstance(operation, Grid):
        return Instruction("lookup", grid=operation)
    return Instruction("loop", loop=loop_of(operation, program_of))


def loop_of(traced: TracedLoop, program: Callable[..., Program]) -> Loop:
    """A loop whose body and condition are traced by `program_of`, or by `program_as_written`"""
    body, carry, inputs, turns, active = traced
    condition = None if active is None else program(lambda *arguments: (active(*arguments),), carry, inputs)
    turn = program(lambda *arguments: (body(*arguments),), 0.0, carry, inputs)
    return Loop(turns, len(flatten(carry)), turn, condition)


def program_of_body(body: Callable[..., Tree], templates: tuple[Scalar, ...], quiet: Quiet | None) -> Program | Guarded:
    """The body of a scan, traced; with the shorter way through it where there is one"""
    whole = program_of(body, *templates)
    if quiet is None:
        return whole
    idle, brief = quiet
    return Guarded(program_of(lambda *given: (idle(*given),), *templates), program_of(brief, *templates), whole)


def program_of_expressions(symbols: list[casadi.SX], results: list[casadi.SX]) -> Program:
    """The program that computes CasADi expressions; one input group per symbol, one output group per result"""
    sizes = [int(casadi.SX(result).numel()) for result in results]
    shared = casadi.cse(casadi.vertcat(*results))
    traced = casadi.Function("traced", symbols, [shared])
    return _grouped(_single_assignment(traced), sizes)


def _single_assignment(traced: casadi.Function) -> Program:
    instructions: list[Instruction] = []
    held: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for k in range(traced.n_instructions()):
        operation, into, of = traced.instruction_id(k), traced.instruction_output(k), traced.instruction_input(k)
        if operation == casadi.OP_OUTPUT:
            outputs[into[1]] = held[of[0]]
            continue
        if operation == casadi.OP_CONST:
            instruction = Instruction("constant", constant=float(traced.instruction_constant(k)))
        elif operation == casadi.OP_INPUT:
            instruction = Instruction("input", place=(of[0], of[1]))
        elif operation == casadi.OP_FABS:  # CasADi's own: it makes √(x²) of nothing else
            x, zero = held[of[0]], len(instructions)
            instructions += [
                Instruction("constant"),
                Instruction("less", (x, zero)),
                Instruction("negate", (x,)),
            ]
            instruction = Instruction("select", (zero + 1, zero + 2, x))
        elif operation in OPERATIONS:
            instruction = _selection(Instruction(OPERATIONS[operation], tuple(held[i] for i in of)), instructions)
        else:
            raise NotImplementedError(f"CasADi operation {operation} has no translation")
        held[into[0]] = len(instructions)
        instructions.append(instruction)
    order = tuple(outputs[i] for i in range(len(outputs)))
    return without_unused(Program(tuple(instructions), (order,)))


def _selection(instruction: Instruction, earlier: list[Instruction]) -> Instruction:
    """(c ? a : 0) + (!c ? b : 0) is c ? a : b."""
    if instruction.operation != "add":
        return instruction
    first, second = (earlier[i] for i in instruction.arguments)
    if first.operation == second.operation == "if_else_zero":
        condition, other = earlier[first.arguments[0]], earlier[second.arguments[0]]
        if other.operation == "not" and other.arguments[0] == first.arguments[0]:
            return Instruction("select", (first.arguments[0], first.arguments[1], second.arguments[1]))
        if condition.operation == "not" and condition.arguments[0] == second.arguments[0]:
            return Instruction("select", (second.arguments[0], second.arguments[1], first.arguments[1]))
    return instruction


def without_unused(program: Program) -> Program:
    """The instructions on which an output depends"""
    used = {i for group in program.outputs for i in group}
    for i in range(len(program.instructions) - 1, -1, -1):
        if i in used:
            used.update(program.instructions[i].arguments)
    kept = sorted(used)
    at = {old: new for new, old in enumerate(kept)}
    instructions = tuple(
        program.instructions[i]._replace(arguments=tuple(at[j] for j in program.instructions[i].arguments))
        for i in kept
    )
    return Program(instructions, tuple(tuple(at[i] for i in group) for group in program.outputs))


def _with_calls(program: Program, groups: int, calls: list[Instruction]) -> Program:
    """The program with its layers, lookups and loops: their results came as inputs, after the first `groups`, and what they are
    computed from went out"""
    own, into = program.instructions, len(program.outputs) - len(calls)
    rows: list[list[int]] = [[] for _ in calls]
    for i, each in enumerate(own):
        if each.operation == "input" and each.place[0] >= groups:
            rows[each.place[0] - groups].append(i)
    found: list[Instruction] = []
    at: dict[int, int] = {}

    def add(wanted: Iterable[int]) -> None:
        """These, and before them what they need"""
        needed: set[int] = set()
        waiting = list(wanted)
        while waiting:
            if (i := waiting.pop()) not in at and i not in needed:
                needed.add(i)
                waiting += own[i].arguments
        for i in sorted(needed):
            at[i] = len(found)
            found.append(own[i]._replace(arguments=tuple(at[j] for j in own[i].arguments)))

    for call, used, arguments in zip(
        calls, rows, program.outputs[into:], strict=True
    ):  # each after those it depends on
        add(arguments)
        result = len(found)
        found.append(call._replace(arguments=tuple(at[i] for i in arguments)))
        for i in used:
            if call.operation == "lookup":
                at[i] = result
                continue
            at[i] = len(found)
            found.append(Instruction("row", (result,), place=(0, own[i].place[1])))
    add(i for group in program.outputs[:into] for i in group)
    return without_unused(Program(tuple(found), tuple(tuple(at[i] for i in group) for group in program.outputs[:into])))


def work(program: Program) -> int:
    """Instructions, with every product of a layer and every turn of a loop"""
    sizes = [part.size for step in program.instructions for part in (step.layer, step.loop) if part is not None]
    return len(program.instructions) + sum(sizes)


def _grouped(program: Program, sizes: list[int]) -> Program:
    flat, groups = iter(program.outputs[0]), []
    for size in sizes:
        groups.append(tuple(next(flat) for _ in range(size)))
    return Program(program.instructions, tuple(groups))
