"""A function of scalars as a flat list of instructions, from which CPU code, C and JavaScript are emitted.

Programs are in static single assignment: every instruction has one result, and its arguments are results of earlier ones.
"""

from typing import NamedTuple

from samara.core.block_ops import ConstantTable, Layer

OPERATIONS = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "negate", "power", "select"),
        *("sqrt", "floor", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log"),
        *("less", "less_equal", "equal", "not_equal", "and", "or"),
    }
)
"""Operations on scalars; `select` is condition ? a : b."""
CONDITIONS = frozenset({"less", "less_equal", "equal", "not_equal", "and", "or"})


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


def combine_factors(program: Program) -> Program:
    """a (b x) → (a b) x for constants a and b, which rounds differently: for fast arithmetic."""
    instructions: list[Instruction] = []
    new_index: list[int] = []
    scaled: dict[int, tuple[int, float]] = {}  # index of b x: index of x, and b
    for instruction in program.instructions:
        arguments = tuple(new_index[i] for i in instruction.arguments)
        if instruction.operation == "multiply":
            i, j = arguments if instructions[arguments[0]].operation == "constant" else arguments[::-1]
            if instructions[i].operation == "constant":
                base, factor = scaled.get(j, (j, 1.0))
                factor *= instructions[i].constant
                if base != j:
                    arguments = (len(instructions), base)
                    instructions.append(Instruction("constant", constant=factor))
                scaled[len(instructions)] = base, factor
        new_index.append(len(instructions))
        instructions.append(instruction._replace(arguments=arguments))
    outputs = tuple(tuple(new_index[i] for i in group) for group in program.outputs)
    return eliminate_dead_code(Program(tuple(instructions), outputs))


def instruction_count(program: Program) -> int:
    """Count the instructions, including every multiplication of a layer and every iteration of a loop."""
    sizes = [
        block.size
        for instruction in program.instructions
        for block in (instruction.layer, instruction.loop)
        if block is not None
    ]
    return len(program.instructions) + sum(sizes)
