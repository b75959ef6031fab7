"""Programs to LLVM's instructions, and those to machine code for the host CPU, through llvmlite.

module = new_module()
builder, (x, count) = new_function(module, "sum", [pointer_to(DOUBLE), INDEX])
…                                                # builder.fadd, with loop(builder, count) as i, Emitter.run(program)
machine_code(module, "sum", effort=1).call(address, n)
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import NamedTuple, Protocol

import llvmlite
import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.cache import digest, kept
from samara.compiler.llvm.math import ELEMENTARY, elementary
from samara.compiler.trace.program import CONDITIONS, Guarded, Loop, Program, program_of
from samara.core.block_ops import ACTIVATIONS, Grid, Layer

INDEX, INT32, BYTE, VOID = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.VoidType()
DOUBLE, FLOAT = ir.DoubleType(), ir.FloatType()
FAST = ("contract", "arcp", "nsz", "afn")  # never nnan or ninf: they would delete the NaN checks
ROWS = 8  # of a layer at a time: sums that do not wait for each other
ALIGNED = 64  # bytes

# Functions and loops ------------------------------------------------------------------------------------------------------


def new_module() -> ir.Module:
    """Return an empty module for this machine."""
    module = ir.Module(name="samara")
    module.triple = llvm.get_default_triple()
    return module


def new_function(
    module: ir.Module, name: str, arguments: Sequence[ir.Type], result: ir.Type = VOID
) -> tuple[ir.IRBuilder, Sequence[ir.Value]]:
    """Add a function; returns the builder at its entry, and its arguments."""
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    align_stack(function)
    return ir.IRBuilder(function.append_basic_block("entry")), function.args


def element_type(dtype: str) -> ir.Type:
    """LLVM's type of "float64" or "float32" """
    return DOUBLE if dtype == "float64" else FLOAT


def pointer_to(kind: ir.Type) -> ir.Type:
    """The type of addresses of such values"""
    return kind.as_pointer()


def constant(kind: ir.Type, value: float | Sequence[float]) -> ir.Constant:
    """A constant of a type"""
    return ir.Constant(kind, value)


def index(value: int) -> ir.Constant:
    """A 64-bit integer constant"""
    return ir.Constant(INDEX, value)


def splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """Return a vector with a scalar in all its lanes."""
    nothing = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
    lone = builder.insert_element(nothing, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(lone, nothing, ir.Constant(ir.VectorType(INT32, width), [0] * width))


def load_vector(builder: ir.IRBuilder, base: ir.Value, at: ir.Value, vector: ir.Type) -> ir.Value:
    """Load the vector that begins at element `at`, aligned as its elements are."""
    return builder.load(builder.bitcast(builder.gep(base, [at]), vector.as_pointer()), align=bytes_of(vector.element))


def store_vector(builder: ir.IRBuilder, value: ir.Value, base: ir.Value, at: ir.Value) -> None:
    """Store a vector from element `at` on, aligned as its elements are."""
    place = builder.bitcast(builder.gep(base, [at]), value.type.as_pointer())
    builder.store(value, place, align=bytes_of(value.type.element))


def bytes_of(element: ir.Type) -> int:
    """The size of a number"""
    return 4 if element in (FLOAT, INT32) else 8


@contextmanager
def loop(builder: ir.IRBuilder, turns: ir.Value) -> Iterator[ir.Value]:
    """for i < turns, at least once"""
    before = builder.block
    body, after = (builder.function.append_basic_block(name) for name in ("turn", "after"))
    builder.branch(body)
    builder.position_at_end(body)
    i = builder.phi(INDEX)
    i.add_incoming(index(0), before)
    yield i
    following = builder.add(i, index(1))
    i.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, turns), body, after)
    builder.position_at_end(after)


# Machine code -------------------------------------------------------------------------------------------------------------


class MachineCode(NamedTuple):
    """A compiled function: `call(…)`, its address, and the engine that keeps it alive."""

    call: Callable[..., int]
    address: int
    engine: llvm.ExecutionEngine


def machine_code(module: ir.Module, name: str, effort: int, *, keeps_lock: bool = False) -> MachineCode:
    """Compile a module and return its function `name`, whose arguments are integers, addresses among them

    A call that `keeps_lock` does not release the interpreter lock: it is faster, and for brief calls only.
    """
    engine = engine_of(str(module), effort)
    kind = module.globals[name].ftype
    prototype = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    result = None if kind.return_type == VOID else ctypes.c_int64
    address = engine.get_function_address(name)
    return MachineCode(prototype(result, *[ctypes.c_int64] * len(kind.args))(address), address, engine)


def host() -> llvm.TargetMachine:
    """The machine this runs on, as LLVM sees it. The engine that compiles for it takes it over: a new one each time."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )


@cache
def vector_width(dtype: str) -> int:
    """Drones per instruction: as many as the widest registers hold."""
    features = llvm.get_host_cpu_features()
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return bits // (64 if dtype == "float64" else 32)


def align_stack(function: ir.Function) -> None:
    """Vectors that are kept on the stack lie within cache lines; else each would straddle two, at a third of the speed"""
    function.attributes.alignstack = 64
    function.attributes.add("nounwind")  # llvmlite leaves the line above out when there is nothing else to say


def engine_of(source: str, effort: int) -> llvm.ExecutionEngine:
    """The source as machine code, ready to be called; it lives as long as what is returned, and is kept on disk"""
    machine = host()
    code = kept(
        digest(*_compiler(), str(effort), source), lambda: machine.emit_object(_optimised(source, machine, effort))
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@cache
def _compiler() -> tuple[str, ...]:
    """All that machine code depends on beside its source: the compiler, and the CPU it compiles for"""
    versions = llvmlite.__version__, repr(llvm.llvm_version_info)
    return *versions, llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def assembly_of(source: str, effort: int) -> str:
    """The machine code as text"""
    machine = host()
    return str(machine.emit_assembly(_optimised(source, machine, effort)))


def _optimised(source: str, machine: llvm.TargetMachine, effort: int) -> llvm.ModuleRef:
    module = llvm.parse_assembly(source)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=effort))
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # which hides the one that frees: 0.7 MB for every module
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
    return module


# Programs -----------------------------------------------------------------------------------------------------------------


class Indexed(Protocol):
    """Vectors by index: a list, a mapping, or an array in memory that loads what is asked for"""

    def __getitem__(self, k: int, /) -> ir.Value: ...


Groups = Sequence[Indexed]


class Emitter:
    """Emits a program's instructions on vectors of one type."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, dtype: str, width: int, fast: bool) -> None:
        self.module, self.builder, self.dtype, self.width, self.fast = module, builder, dtype, width, fast
        self.element = element_type(dtype)
        self.vector, self.bytes = ir.VectorType(self.element, width), bytes_of(self.element)
        self.flags = FAST if fast else ()
        self.suffix = f"v{width}f{64 if dtype == 'float64' else 32}"

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(self.vector, [float(value)] * self.width)

    def splat(self, scalar: ir.Value) -> ir.Value:
        """A number in all lanes"""
        return splat(self.builder, scalar, self.width)

    def intrinsic(self, name: str, *arguments: ir.Value) -> ir.Value:
        full = f"llvm.{name}.{self.suffix}"
        function = self.module.globals.get(full) or ir.Function(
            self.module, ir.FunctionType(self.vector, [self.vector] * len(arguments)), full
        )
        return self.builder.call(function, arguments, fastmath=self.flags)

    def number(self, value: ir.Value) -> ir.Value:
        """A condition used as a number is 0 or 1."""
        return value if value.type == self.vector else self.builder.uitofp(value, self.vector)

    def condition(self, value: ir.Value) -> ir.Value:
        """A number used as a condition is true unless it is 0."""
        if value.type != self.vector:
            return value
        return self.builder.fcmp_unordered("!=", value, self.constant(0.0))

    def run(self, program: Program | Guarded, inputs: Groups) -> list[list[ir.Value]]:
        """Emits the program where the builder stands, and leaves it where the results are known."""
        if isinstance(program, Guarded):
            return self._run_guarded(program, inputs)
        values: list[ir.Value] = []
        for instruction in program.instructions:
            arguments = [values[i] for i in instruction.arguments]
            if instruction.operation == "constant":
                values.append(self.constant(instruction.constant))
            elif instruction.operation == "input":
                values.append(inputs[instruction.place[0]][instruction.place[1]])
            elif instruction.layer is not None:
                values.append(layer_code(self, instruction.layer, [self.number(x) for x in arguments]))
            elif instruction.grid is not None:
                values.append(lookup_code(self, instruction.grid, [self.number(x) for x in arguments]))
            elif instruction.loop is not None:
                values.append(self._run_loop(instruction.loop, [self.number(x) for x in arguments]))
            elif instruction.operation == "row":
                values.append(arguments[0].load(self.builder, instruction.place[1]))
            else:
                values.append(self.operation(instruction.operation, arguments))
        return [[self.number(values[i]) for i in group] for group in program.outputs]

    def activated(self, name: str, value: ir.Value) -> ir.Value:
        """A layer's activation of a vector, which may be wider or narrower than the emitter's own"""
        own = Emitter(self.module, self.builder, self.dtype, value.type.count, self.fast)
        return own.run(_activation(name), ([value],))[0][0]

    def _run_guarded(self, program: Guarded, inputs: Groups) -> list[list[ir.Value]]:
        """The short way where all lanes are idle, and the whole program where one is not, or turns out not to have been."""
        builder = self.builder
        quiet, whole, joined = (builder.append_basic_block(name) for name in ("quiet", "whole", "joined"))
        ((worth_it,),) = self.run(program.idle, inputs)
        builder.cbranch(self.all_lanes(worth_it), quiet, whole)
        builder.position_at_end(quiet)
        *brief, (idle,) = self.run(program.quiet, inputs)
        builder.cbranch(self.all_lanes(idle), joined, whole)
        builder.position_at_end(whole)
        full = self.run(program.whole, inputs)
        builder.branch(joined)
        builder.position_at_end(joined)
        return [
            [self._either(a, quiet, b, whole) for a, b in zip(*groups, strict=True)]
            for groups in zip(brief, full, strict=True)
        ]

    def _run_loop(self, loop: Loop, arguments: list[ir.Value]) -> "Stored":
        """The turns of a loop; lanes that are no longer active keep what they carry"""
        builder, before = self.builder, self.builder.block
        carry, inputs = Stored(builder, self.vector, loop.carried), arguments[loop.carried :]
        for k, value in enumerate(arguments[: loop.carried]):
            builder.store(value, carry.at(builder, k))
        turn, body, after = (builder.append_basic_block(name) for name in ("turn", "body", "after"))
        builder.branch(turn)
        builder.position_at_end(turn)
        k = builder.phi(INDEX)
        k.add_incoming(index(0), before)
        values = [carry.load(builder, c) for c in range(loop.carried)]
        more, active = builder.icmp_signed("<", k, index(loop.turns)), None
        if loop.active is not None:
            active = self.condition(self.run(loop.active, (values, inputs))[0][0])
            lanes = builder.bitcast(active, ir.IntType(self.width))
            more = builder.and_(more, builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)))
        builder.cbranch(more, body, after)
        builder.position_at_end(body)
        number = self.splat(builder.sitofp(k, self.element))
        (advanced,) = self.run(loop.body, ([number], values, inputs))
        for c, (new, old) in enumerate(zip(advanced, values, strict=True)):
            builder.store(new if active is None else builder.select(active, new, old), carry.at(builder, c))
        k.add_incoming(builder.add(k, index(1)), builder.block)
        builder.branch(turn)
        builder.position_at_end(after)
        return carry

    def all_lanes(self, value: ir.Value) -> ir.Value:
        """Whether a condition is true in every lane."""
        lanes = self.builder.bitcast(self.condition(value), ir.IntType(self.width))
        return self.builder.icmp_unsigned("==", lanes, ir.Constant(lanes.type, 2**self.width - 1))

    def _either(self, a: ir.Value, first: ir.Value, b: ir.Value, second: ir.Value) -> ir.Value:
        chosen = self.builder.phi(self.vector)
        chosen.add_incoming(a, first)
        chosen.add_incoming(b, second)
        return chosen

    def operation(self, name: str, arguments: list[ir.Value]) -> ir.Value:
        """One operation on vectors"""
        if name in CONDITIONS or name in ("select", "if_else_zero"):
            return self._choice(name, arguments)
        if name in ELEMENTARY:
            return elementary(self.builder, name, [self.number(x) for x in arguments])
        a, b = self.number(arguments[0]), self.number(arguments[-1])
        if name in _ARITHMETIC:
            return getattr(self.builder, _ARITHMETIC[name])(a, b, flags=self.flags)
        if name == "negate":
            return self.builder.fneg(a, flags=self.flags)
        if name == "invert":
            return self.builder.fdiv(self.constant(1.0), a, flags=self.flags)
        if name in ("sqrt", "floor"):
            return self.intrinsic(name, a)
        raise NotImplementedError(f"{name} has no vector code yet")

    def _choice(self, name: str, arguments: list[ir.Value]) -> ir.Value:
        builder = self.builder
        if name == "select":
            return builder.select(self.condition(arguments[0]), self.number(arguments[1]), self.number(arguments[2]))
        if name == "if_else_zero":
            return builder.select(self.condition(arguments[0]), self.number(arguments[1]), self.constant(0.0))
        if name == "not":
            return builder.not_(self.condition(arguments[0]))
        if name in ("and", "or"):
            a, b = (self.condition(x) for x in arguments)
            return builder.and_(a, b) if name == "and" else builder.or_(a, b)
        a, b = (self.number(x) for x in arguments)
        if name == "not_equal":
            return builder.fcmp_unordered("!=", a, b)
        return builder.fcmp_ordered({"less": "<", "less_equal": "<=", "equal": "=="}[name], a, b)


_ARITHMETIC = {
    **{"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"},
    **{"square": "fmul", "twice": "fadd"},  # of one operand, which is both the first and the last
}


@cache
def _activation(name: str) -> Program:
    return program_of(lambda x: (ACTIVATIONS[name](x),), 0.0)


# Layers and tables --------------------------------------------------------------------------------------------------------


class Stored:
    """The rows of a layer, or what it is given: vectors in memory, of `count` numbers."""

    def __init__(self, builder: ir.IRBuilder, vector: ir.Type, count: int) -> None:
        self.vector, self.count = vector, count
        with builder.goto_entry_block():  # once for the function, not once for each turn of a loop
            whole = builder.alloca(vector, ROWS * -(-count // ROWS))
            whole.align = ALIGNED
        self.base = whole

    def at(self, builder: ir.IRBuilder, row: ir.Value | int) -> ir.Value:
        return builder.gep(self.base, [index(row) if isinstance(row, int) else row])

    def load(self, builder: ir.IRBuilder, row: ir.Value | int) -> ir.Value:
        return builder.load(self.at(builder, row))


def layer_code(emitter: Emitter, layer: Layer, given: list[ir.Value]) -> Stored:
    """y = f(W x + b), where the emitter's builder stands"""
    builder, flags = emitter.builder, emitter.flags
    x, y = (Stored(builder, emitter.vector, count) for count in (layer.columns, layer.rows))
    for k, value in enumerate(given):
        builder.store(value, x.at(builder, k))
    alone = emitter.width == 1
    vector = ir.VectorType(emitter.element, ROWS if alone else emitter.width)
    weights, bias = (_constants(emitter.module, vector.element, numbers) for numbers in _in_blocks(layer))

    def eight(base: ir.Value, first: ir.Value) -> list[ir.Value]:
        """Eight numbers: in one vector, or each in all lanes of one"""
        if alone:
            return [load_vector(builder, base, first, vector)]
        places = [builder.gep(base, [builder.add(first, index(k))]) for k in range(ROWS)]
        return [splat(builder, builder.load(at), emitter.width) for at in places]

    with builder.goto_entry_block():
        sums = [builder.alloca(vector) for _ in range(1 if alone else ROWS)]
    with loop(builder, index(_blocks(layer))) as block:
        first = builder.mul(block, index(ROWS))
        for total, start in zip(sums, eight(bias, first), strict=True):
            builder.store(start, total)
        before = builder.mul(first, index(layer.columns))
        with loop(builder, index(layer.columns)) as column:
            own = x.load(builder, column)
            if alone:
                own = splat(builder, builder.extract_element(own, index(0)), ROWS)
            at = builder.add(before, builder.mul(column, index(ROWS)))
            for total, weight in zip(sums, eight(weights, at), strict=True):
                product = builder.fmul(weight, own, flags=flags)
                builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
        found = [emitter.activated(layer.activation, builder.load(total)) for total in sums]
        if alone:
            store_vector(builder, found[0], builder.bitcast(y.base, vector.element.as_pointer()), first)
        else:
            for k, value in enumerate(found):
                builder.store(value, y.at(builder, builder.add(first, index(k))))
    return y


def _blocks(layer: Layer) -> int:
    return -(-layer.rows // ROWS)


def _in_blocks(layer: Layer) -> tuple[list[float], list[float]]:
    """Weights and bias in the order they are read: by eight rows, of these by columns; what is missing of the last is 0"""
    blocks = _blocks(layer)
    missing = blocks * ROWS - layer.rows
    rows = [*layer.weights, *[(0.0,) * layer.columns] * missing]
    weights = [rows[ROWS * b + k][j] for b in range(blocks) for j in range(layer.columns) for k in range(ROWS)]
    return weights, [*layer.bias, *[0.0] * missing]


def _constants(module: ir.Module, element: ir.Type, numbers: list[float]) -> ir.Value:
    """Where numbers lie that never change"""
    kind = ir.ArrayType(element, len(numbers))
    held = ir.GlobalVariable(module, kind, module.get_unique_name("layer"))
    held.linkage, held.global_constant, held.align = "internal", True, ALIGNED
    held.initializer = ir.Constant(kind, [ir.Constant(element, x) for x in numbers])
    return held.bitcast(element.as_pointer())


def lookup_code(emitter: Emitter, grid: Grid, indices: list[ir.Value]) -> ir.Value:
    """The entries of the grid at two vectors of indices, clamped to its borders, where the emitter's builder stands"""
    builder, (rows, columns) = emitter.builder, grid.values.shape
    i, j = (_clamped(emitter, x, count) for x, count in zip(indices, (rows, columns), strict=True))
    wide = ir.Constant(i.type, [columns] * emitter.width)
    at, table = builder.add(builder.mul(i, wide), j), _table(emitter.module, emitter.element, emitter.dtype, grid)
    value = ir.Constant(emitter.vector, ir.Undefined)
    for lane in range(emitter.width):
        place = ir.Constant(ir.IntType(32), lane)
        entry = builder.load(builder.gep(table, [builder.extract_element(at, place)]))
        value = builder.insert_element(value, entry, place)
    return value


def _clamped(emitter: Emitter, x: ir.Value, count: int) -> ir.Value:
    """⌊x⌋ between 0 and count − 1; 0 for NaN, which has no integer"""
    builder, low, high = emitter.builder, emitter.constant(0.0), emitter.constant(count - 1.0)
    x = builder.select(builder.fcmp_ordered(">", x, low), x, low)
    x = builder.select(builder.fcmp_ordered("<", x, high), x, high)
    return builder.fptosi(x, ir.VectorType(INDEX, emitter.width))


def _table(module: ir.Module, element: ir.Type, dtype: str, grid: Grid) -> ir.Value:
    """Where the entries lie, row by row: bytes, which LLVM reads a hundred times quicker than decimal numbers"""
    data = np.ascontiguousarray(grid.values, dtype=dtype).tobytes()
    name = f"grid_{sha256(data).hexdigest()[:24]}"
    kind = ir.ArrayType(ir.IntType(8), len(data))
    if name not in module.globals:
        table = ir.GlobalVariable(module, kind, name)
        table.linkage, table.global_constant, table.align = "internal", True, ALIGNED
        table.initializer = ir.Constant(kind, bytearray(data))
    return module.globals[name].bitcast(element.as_pointer())
