"""Emission of programs as LLVM instructions, and their compilation to machine code for the host CPU, through llvmlite.

module = new_module()
builder, (x, count) = new_function(module, "sum", [pointer_type(DOUBLE), INDEX])
…                                                # builder.fadd, with loop(builder, count) as i, Emitter.run(program)
machine_code(module, "sum", optimisation_level=1).call(address, n)
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

from samara.compiler.llvm.cache import digest, load_or_compile
from samara.compiler.llvm.math import ELEMENTARY, elementary
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import CONDITIONS, GuardedProgram, Loop, Program, combine_factors
from samara.core.block_ops import ACTIVATIONS, ConstantTable, Layer

INDEX, INT32, BYTE, VOID = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.VoidType()
DOUBLE, FLOAT = ir.DoubleType(), ir.FloatType()
FAST = ("contract", "arcp", "nsz", "afn")  # never nnan or ninf: they would delete the NaN checks
ROWS_PER_BLOCK = 8  # rows of a layer that are computed together, as independent sums
ALIGNMENT_BYTES = 64  # bytes

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
    """Return LLVM's type of "float64" or "float32"."""
    return DOUBLE if dtype == "float64" else FLOAT


def pointer_type(element: ir.Type) -> ir.Type:
    """Return the type of pointers to values of a type."""
    return element.as_pointer()


def constant(value_type: ir.Type, value: float | Sequence[float]) -> ir.Constant:
    """Return a constant of a type."""
    return ir.Constant(value_type, value)


def index(value: int) -> ir.Constant:
    """Return a 64-bit integer constant."""
    return ir.Constant(INDEX, value)


def splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """Return a vector with a scalar in all its lanes."""
    undefined = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
    first_lane = builder.insert_element(undefined, scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first_lane, undefined, ir.Constant(ir.VectorType(INT32, width), [0] * width))


def load_vector(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value, vector: ir.Type) -> ir.Value:
    """Load the vector that begins at element `offset`, aligned as its elements are."""
    return builder.load(
        builder.bitcast(builder.gep(base, [offset]), vector.as_pointer()), align=byte_size(vector.element)
    )


def store_vector(builder: ir.IRBuilder, value: ir.Value, base: ir.Value, offset: ir.Value) -> None:
    """Store a vector from element `offset` on, aligned as its elements are."""
    pointer = builder.bitcast(builder.gep(base, [offset]), value.type.as_pointer())
    builder.store(value, pointer, align=byte_size(value.type.element))


def byte_size(element: ir.Type) -> int:
    """Return the size of a scalar type in bytes."""
    return 4 if element in (FLOAT, INT32) else 8


@contextmanager
def loop(builder: ir.IRBuilder, count: ir.Value) -> Iterator[ir.Value]:
    """Emit a loop over i < count that runs at least once."""
    entry = builder.block
    body, after = (builder.function.append_basic_block(name) for name in ("turn", "after"))
    builder.branch(body)
    builder.position_at_end(body)
    i = builder.phi(INDEX)
    i.add_incoming(index(0), entry)
    yield i
    next_i = builder.add(i, index(1))
    i.add_incoming(next_i, builder.block)
    builder.cbranch(builder.icmp_signed("<", next_i, count), body, after)
    builder.position_at_end(after)


# Machine code -------------------------------------------------------------------------------------------------------------


class MachineCode(NamedTuple):
    """A compiled function: `call(…)`, its address, and the engine that owns it."""

    call: Callable[..., int]
    address: int
    engine: llvm.ExecutionEngine


def machine_code(module: ir.Module, name: str, optimisation_level: int, *, holds_lock: bool = False) -> MachineCode:
    """Compile a module and return its function `name`, whose arguments are integers or addresses.

    With `holds_lock` a call does not release the interpreter lock: it is faster, but only for brief calls.
    """
    engine = compile_engine(str(module), optimisation_level)
    function_type = module.globals[name].ftype
    prototype = ctypes.PYFUNCTYPE if holds_lock else ctypes.CFUNCTYPE
    result = None if function_type.return_type == VOID else ctypes.c_int64
    address = engine.get_function_address(name)
    return MachineCode(prototype(result, *[ctypes.c_int64] * len(function_type.args))(address), address, engine)


def host() -> llvm.TargetMachine:
    """Return LLVM's target machine of the host; a new one each time, as the compiling engine takes ownership."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )


@cache
def vector_width(dtype: str) -> int:
    """Return the lane count of the widest vector registers."""
    features = llvm.get_host_cpu_features()
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return bits // (64 if dtype == "float64" else 32)


def align_stack(function: ir.Function) -> None:
    """Align vectors on the stack to cache lines; vectors that straddle two lines run at a third of the speed."""
    function.attributes.alignstack = 64
    function.attributes.add("nounwind")  # llvmlite omits alignstack if the function has no other attribute


def compile_engine(source: str, optimisation_level: int) -> llvm.ExecutionEngine:
    """Compile the source to machine code, cached on disk; the code lives as long as the returned engine."""
    machine = host()
    code = load_or_compile(
        digest(*_compiler(), str(optimisation_level), source),
        lambda: machine.emit_object(_optimise(source, machine, optimisation_level)),
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@cache
def _compiler() -> tuple[str, ...]:
    """Return the cache key besides the source: the compiler version, and the CPU it compiles for."""
    versions = llvmlite.__version__, repr(llvm.llvm_version_info)
    return *versions, llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def emit_assembly(source: str, effort: int) -> str:
    """Return the machine code as assembly text."""
    machine = host()
    return str(machine.emit_assembly(_optimise(source, machine, effort)))


def _optimise(source: str, machine: llvm.TargetMachine, effort: int) -> llvm.ModuleRef:
    module = llvm.parse_assembly(source)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=effort))
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # shadows the method that frees: 0.7 MB leak per module
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
    return module


# Programs -----------------------------------------------------------------------------------------------------------------


class VectorSource(Protocol):
    """Vectors by index: a list, a mapping, or an array in memory that loads on access."""

    def __getitem__(self, k: int, /) -> ir.Value: ...


Groups = Sequence[VectorSource]


class Emitter:
    """Emits a program's instructions on vectors of one type."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, dtype: str, width: int, fast: bool) -> None:
        self.module, self.builder, self.dtype, self.width, self.fast = module, builder, dtype, width, fast
        self.element = element_type(dtype)
        self.vector, self.bytes = ir.VectorType(self.element, width), byte_size(self.element)
        self.flags = FAST if fast else ()
        self.suffix = f"v{width}f{64 if dtype == 'float64' else 32}"

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(self.vector, [float(value)] * self.width)

    def splat(self, scalar: ir.Value) -> ir.Value:
        """Broadcast a scalar to all lanes."""
        return splat(self.builder, scalar, self.width)

    def intrinsic(self, name: str, *arguments: ir.Value) -> ir.Value:
        full_name = f"llvm.{name}.{self.suffix}"
        function = self.module.globals.get(full_name) or ir.Function(
            self.module, ir.FunctionType(self.vector, [self.vector] * len(arguments)), full_name
        )
        return self.builder.call(function, arguments, fastmath=self.flags)

    def number(self, value: ir.Value) -> ir.Value:
        """Convert a condition to the number 0 or 1."""
        return value if value.type == self.vector else self.builder.uitofp(value, self.vector)

    def condition(self, value: ir.Value) -> ir.Value:
        """Convert a number to a condition: true unless it is 0."""
        if value.type != self.vector:
            return value
        return self.builder.fcmp_unordered("!=", value, self.constant(0.0))

    def run(self, program: Program | GuardedProgram, inputs: Groups) -> list[list[ir.Value]]:
        """Emit the program at the builder's position; the builder ends where the results are available."""
        if isinstance(program, GuardedProgram):
            return self._run_guarded(program, inputs)
        program = combine_factors(program) if self.fast else program
        values: list[ir.Value] = []
        for instruction in program.instructions:
            arguments = [values[i] for i in instruction.arguments]
            if instruction.operation == "constant":
                values.append(self.constant(instruction.constant))
            elif instruction.operation == "input":
                values.append(inputs[instruction.location[0]][instruction.location[1]])
            elif instruction.layer is not None:
                values.append(layer_code(self, instruction.layer, [self.number(x) for x in arguments]))
            elif instruction.grid is not None:
                values.append(lookup_code(self, instruction.grid, [self.number(x) for x in arguments]))
            elif instruction.loop is not None:
                values.append(self._run_loop(instruction.loop, [self.number(x) for x in arguments]))
            elif instruction.operation == "row":
                values.append(arguments[0].load(self.builder, instruction.location[1]))
            else:
                values.append(self.operation(instruction.operation, arguments))
        return [[self.number(values[i]) for i in group] for group in program.outputs]

    def apply_activation(self, name: str, value: ir.Value) -> ir.Value:
        """Apply a layer's activation to a vector, whose width may differ from that of the emitter."""
        emitter = Emitter(self.module, self.builder, self.dtype, value.type.count, self.fast)
        return emitter.run(_activation(name), ([value],))[0][0]

    def _run_guarded(self, program: GuardedProgram, inputs: Groups) -> list[list[ir.Value]]:
        """Emit the idle path for vectors whose lanes are all idle, else the full program; also if the idle path is invalid."""
        builder = self.builder
        idle_block, full_block, merge_block = (
            builder.append_basic_block(name) for name in ("quiet", "whole", "joined")
        )
        ((guard,),) = self.run(program.guard, inputs)
        builder.cbranch(self.all_lanes(guard), idle_block, full_block)
        builder.position_at_end(idle_block)
        *idle_results, (is_valid,) = self.run(program.idle_path, inputs)
        builder.cbranch(self.all_lanes(is_valid), merge_block, full_block)
        builder.position_at_end(full_block)
        full_results = self.run(program.full, inputs)
        builder.branch(merge_block)
        builder.position_at_end(merge_block)
        return [
            [self._merge(a, idle_block, b, full_block) for a, b in zip(*groups, strict=True)]
            for groups in zip(idle_results, full_results, strict=True)
        ]

    def _run_loop(self, loop: Loop, arguments: list[ir.Value]) -> "StackArray":
        """Emit a loop; lanes that are no longer active retain their carry."""
        builder, entry = self.builder, self.builder.block
        carry, inputs = StackArray(builder, self.vector, loop.carry_size), arguments[loop.carry_size :]
        for k, value in enumerate(arguments[: loop.carry_size]):
            builder.store(value, carry.pointer(builder, k))
        header, body, after = (builder.append_basic_block(name) for name in ("turn", "body", "after"))
        builder.branch(header)
        builder.position_at_end(header)
        k = builder.phi(INDEX)
        k.add_incoming(index(0), entry)
        values = [carry.load(builder, c) for c in range(loop.carry_size)]
        is_continued, active = builder.icmp_signed("<", k, index(loop.max_iterations)), None
        if loop.active is not None:
            active = self.condition(self.run(loop.active, (values, inputs))[0][0])
            lanes = builder.bitcast(active, ir.IntType(self.width))
            is_continued = builder.and_(is_continued, builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)))
        builder.cbranch(is_continued, body, after)
        builder.position_at_end(body)
        iteration = self.splat(builder.sitofp(k, self.element))
        (next_carry,) = self.run(loop.body, ([iteration], values, inputs))
        for c, (new, old) in enumerate(zip(next_carry, values, strict=True)):
            builder.store(new if active is None else builder.select(active, new, old), carry.pointer(builder, c))
        k.add_incoming(builder.add(k, index(1)), builder.block)
        builder.branch(header)
        builder.position_at_end(after)
        return carry

    def all_lanes(self, value: ir.Value) -> ir.Value:
        """Whether a condition is true in every lane."""
        lanes = self.builder.bitcast(self.condition(value), ir.IntType(self.width))
        return self.builder.icmp_unsigned("==", lanes, ir.Constant(lanes.type, 2**self.width - 1))

    def _merge(self, a: ir.Value, first: ir.Value, b: ir.Value, second: ir.Value) -> ir.Value:
        merged = self.builder.phi(self.vector)
        merged.add_incoming(a, first)
        merged.add_incoming(b, second)
        return merged

    def operation(self, name: str, arguments: list[ir.Value]) -> ir.Value:
        """Emit one operation on vectors."""
        if name in CONDITIONS or name == "select":
            return self._comparison(name, arguments)
        if name in ELEMENTARY:
            return elementary(self.builder, name, [self.number(x) for x in arguments])
        a, b = self.number(arguments[0]), self.number(arguments[-1])
        if name in _ARITHMETIC:
            return getattr(self.builder, _ARITHMETIC[name])(a, b, flags=self.flags)
        if name == "negate":
            return self.builder.fneg(a, flags=self.flags)
        if name in ("sqrt", "floor"):
            return self.intrinsic(name, a)
        raise NotImplementedError(f"operation {name}: no vector code is defined for it")

    def _comparison(self, name: str, arguments: list[ir.Value]) -> ir.Value:
        builder = self.builder
        if name == "select":
            return builder.select(self.condition(arguments[0]), self.number(arguments[1]), self.number(arguments[2]))
        if name in ("and", "or"):
            a, b = (self.condition(x) for x in arguments)
            return builder.and_(a, b) if name == "and" else builder.or_(a, b)
        a, b = (self.number(x) for x in arguments)
        if name == "not_equal":
            return builder.fcmp_unordered("!=", a, b)
        return builder.fcmp_ordered({"less": "<", "less_equal": "<=", "equal": "=="}[name], a, b)


_ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}


@cache
def _activation(name: str) -> Program:
    return trace_program(lambda x: (ACTIVATIONS[name](x),), 0.0)


# Layers and tables --------------------------------------------------------------------------------------------------------


class StackArray:
    """An array of `count` vectors on the stack, such as the rows or the inputs of a layer."""

    def __init__(self, builder: ir.IRBuilder, vector: ir.Type, count: int) -> None:
        self.vector, self.count = vector, count
        with builder.goto_entry_block():  # one allocation per call, not one per iteration
            storage = builder.alloca(vector, ROWS_PER_BLOCK * -(-count // ROWS_PER_BLOCK))
            storage.align = ALIGNMENT_BYTES
        self.base = storage

    def pointer(self, builder: ir.IRBuilder, row: ir.Value | int) -> ir.Value:
        return builder.gep(self.base, [index(row) if isinstance(row, int) else row])

    def load(self, builder: ir.IRBuilder, row: ir.Value | int) -> ir.Value:
        return builder.load(self.pointer(builder, row))


def layer_code(emitter: Emitter, layer: Layer, inputs: list[ir.Value]) -> StackArray:
    """Emit y = f(W x + b) at the builder's position."""
    builder, flags = emitter.builder, emitter.flags
    x, y = (StackArray(builder, emitter.vector, count) for count in (layer.columns, layer.rows))
    for k, value in enumerate(inputs):
        builder.store(value, x.pointer(builder, k))
    is_scalar = emitter.width == 1
    vector = ir.VectorType(emitter.element, ROWS_PER_BLOCK if is_scalar else emitter.width)
    weights, bias = (_constants(emitter.module, vector.element, numbers) for numbers in _block_layout(layer))

    def load_rows(base: ir.Value, first: ir.Value) -> list[ir.Value]:
        """Load ROWS_PER_BLOCK numbers: as one vector, or each as the splat of a vector."""
        if is_scalar:
            return [load_vector(builder, base, first, vector)]
        pointers = [builder.gep(base, [builder.add(first, index(k))]) for k in range(ROWS_PER_BLOCK)]
        return [splat(builder, builder.load(pointer), emitter.width) for pointer in pointers]

    with builder.goto_entry_block():
        sums = [builder.alloca(vector) for _ in range(1 if is_scalar else ROWS_PER_BLOCK)]
    with loop(builder, index(_block_count(layer))) as block:
        first = builder.mul(block, index(ROWS_PER_BLOCK))
        for total, start in zip(sums, load_rows(bias, first), strict=True):
            builder.store(start, total)
        block_start = builder.mul(first, index(layer.columns))
        with loop(builder, index(layer.columns)) as column:
            input_value = x.load(builder, column)
            if is_scalar:
                input_value = splat(builder, builder.extract_element(input_value, index(0)), ROWS_PER_BLOCK)
            weight_offset = builder.add(block_start, builder.mul(column, index(ROWS_PER_BLOCK)))
            for total, weight in zip(sums, load_rows(weights, weight_offset), strict=True):
                product = builder.fmul(weight, input_value, flags=flags)
                builder.store(builder.fadd(builder.load(total), product, flags=flags), total)
        activations = [emitter.apply_activation(layer.activation, builder.load(total)) for total in sums]
        if is_scalar:
            store_vector(builder, activations[0], builder.bitcast(y.base, vector.element.as_pointer()), first)
        else:
            for k, value in enumerate(activations):
                builder.store(value, y.pointer(builder, builder.add(first, index(k))))
    return y


def _block_count(layer: Layer) -> int:
    return -(-layer.rows // ROWS_PER_BLOCK)


def _block_layout(layer: Layer) -> tuple[list[float], list[float]]:
    """Return weights and bias in reading order: blocks of rows, each by columns; the last block is padded with 0."""
    blocks = _block_count(layer)
    missing = blocks * ROWS_PER_BLOCK - layer.rows
    rows = [*layer.weights, *[(0.0,) * layer.columns] * missing]
    weights = [
        rows[ROWS_PER_BLOCK * b + k][j]
        for b in range(blocks)
        for j in range(layer.columns)
        for k in range(ROWS_PER_BLOCK)
    ]
    return weights, [*layer.bias, *[0.0] * missing]


def _constants(module: ir.Module, element: ir.Type, numbers: list[float]) -> ir.Value:
    """Add a constant array to the module and return its address."""
    array_type = ir.ArrayType(element, len(numbers))
    variable = ir.GlobalVariable(module, array_type, module.get_unique_name("layer"))
    variable.linkage, variable.global_constant, variable.align = "internal", True, ALIGNMENT_BYTES
    variable.initializer = ir.Constant(array_type, [ir.Constant(element, x) for x in numbers])
    return variable.bitcast(element.as_pointer())


def lookup_code(emitter: Emitter, grid: ConstantTable, indices: list[ir.Value]) -> ir.Value:
    """Emit the lookup of a grid's entries at two vectors of indices, clamped to its borders."""
    builder, (rows, columns) = emitter.builder, grid.values.shape
    i, j = (_clamp_index(emitter, x, count) for x, count in zip(indices, (rows, columns), strict=True))
    row_length = ir.Constant(i.type, [columns] * emitter.width)
    entry_index, table = (
        builder.add(builder.mul(i, row_length), j),
        _table(emitter.module, emitter.element, emitter.dtype, grid),
    )
    value = ir.Constant(emitter.vector, ir.Undefined)
    for lane in range(emitter.width):
        lane_index = ir.Constant(ir.IntType(32), lane)
        entry = builder.load(builder.gep(table, [builder.extract_element(entry_index, lane_index)]))
        value = builder.insert_element(value, entry, lane_index)
    return value


def _clamp_index(emitter: Emitter, x: ir.Value, count: int) -> ir.Value:
    """Emit ⌊x⌋ clamped to [0, count − 1]; 0 for NaN."""
    builder, low, high = emitter.builder, emitter.constant(0.0), emitter.constant(count - 1.0)
    x = builder.select(builder.fcmp_ordered(">", x, low), x, low)
    x = builder.select(builder.fcmp_ordered("<", x, high), x, high)
    return builder.fptosi(x, ir.VectorType(INDEX, emitter.width))


def _table(module: ir.Module, element: ir.Type, dtype: str, grid: ConstantTable) -> ir.Value:
    """Return the address of the entries, row by row: as bytes, which LLVM parses a hundred times faster than decimals."""
    data = np.ascontiguousarray(grid.values, dtype=dtype).tobytes()
    name = f"grid_{sha256(data).hexdigest()[:24]}"
    array_type = ir.ArrayType(ir.IntType(8), len(data))
    if name not in module.globals:
        table = ir.GlobalVariable(module, array_type, name)
        table.linkage, table.global_constant, table.align = "internal", True, ALIGNMENT_BYTES
        table.initializer = ir.Constant(array_type, bytearray(data))
    return module.globals[name].bitcast(element.as_pointer())
