"""A traced function as a flat list of instructions: what CPU code and C are emitted from.

CasADi traces the function, shares what is common and drops what is not used; this turns its register code into single
assignment and its `(c ? a : 0) + (!c ? b : 0)` back into one selection.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import casadi

from samara.backends.scan import Quiet
from samara.backends.symbol import Symbol, expression, traced_layers
from samara.core.layer import Layer
from samara.core.tree import flatten, unflatten

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

    A "layer" computes all rows of a layer at once, and a "row" is number `place[1]` of them.
    """

    operation: str
    arguments: tuple[int, ...] = ()
    constant: float = 0.0
    place: tuple[int, int] = (0, 0)
    layer: Layer | None = None


class Program(NamedTuple):
    """Instructions in order, and for each group of outputs the instructions that hold them."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[tuple[int, ...], ...]


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


def program_of(function: Callable[..., Any], *templates: Any) -> Program:
    """Traces `function(*arguments)`, arguments shaped like the templates; one output group per element of its result"""
    symbols = [casadi.SX.sym(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter([Symbol(own) for own in casadi.vertsplit(x)] if x.numel() else []))
        for template, x in zip(templates, symbols, strict=True)
    ]
    with traced_layers() as layers:
        results = [casadi.vertcat(*map(expression, flatten(result))) for result in function(*arguments)]
    if not layers:
        return program_of_expressions(symbols, results)
    given = [*symbols, *(own.rows for own in layers)]
    wanted = [*results, *(casadi.vertcat(*own.given) for own in layers)]
    return _with_layers(program_of_expressions(given, wanted), len(symbols), [own.layer for own in layers])


def program_of_body(body: Callable[..., Any], templates: tuple[Any, ...], quiet: Quiet | None) -> Program | Guarded:
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


def _with_layers(program: Program, groups: int, layers: list[Layer]) -> Program:
    """The program with its layers: what they give came as inputs, after the first `groups`, and what they are given went out"""
    own, into = program.instructions, len(program.outputs) - len(layers)
    rows: list[list[int]] = [[] for _ in layers]
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

    for layer, used, given in zip(layers, rows, program.outputs[into:], strict=True):  # each of those before it at most
        add(given)
        whole = len(found)
        found.append(Instruction("layer", tuple(at[i] for i in given), layer=layer))
        for i in used:
            at[i] = len(found)
            found.append(Instruction("row", (whole,), place=(0, own[i].place[1])))
    add(i for group in program.outputs[:into] for i in group)
    return without_unused(Program(tuple(found), tuple(tuple(at[i] for i in group) for group in program.outputs[:into])))


def work(program: Program) -> int:
    """Instructions, with every product of a layer"""
    return len(program.instructions) + sum(own.layer.size for own in program.instructions if own.layer)


def _grouped(program: Program, sizes: list[int]) -> Program:
    flat, groups = iter(program.outputs[0]), []
    for size in sizes:
        groups.append(tuple(next(flat) for _ in range(size)))
    return Program(program.instructions, tuple(groups))
