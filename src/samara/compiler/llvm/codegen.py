"""Programs to LLVM's instructions, and those to machine code for the host CPU, through llvmlite: the one door to LLVM.

Scans (`llvm_kernel.py`) and loops over arrays in memory (`llvm_loop.py`) both go through it.
"""

from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import llvmlite.ir as ir

from samara.compiler.llvm.blocks import INDEX
from samara.compiler.llvm.cache import digest, kept
from samara.compiler.llvm.grid import lookup_code
from samara.compiler.llvm.network import Stored, layer_code
from samara.compiler.trace.program import CONDITIONS, Guarded, Loop, Program, program_of
from samara.core.llvm_math import ELEMENTARY, elementary
from samara.core.network_layer import ACTIVATIONS

FAST = ("contract", "arcp", "nsz", "afn")  # never nnan or ninf: they would delete the NaN checks


def host() -> Any:
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


class Emitter:
    """Emits a program's instructions on vectors of one type."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, dtype: str, width: int, fast: bool) -> None:
        self.module, self.builder, self.dtype, self.width, self.fast = module, builder, dtype, width, fast
        self.element = ir.DoubleType() if dtype == "float64" else ir.FloatType()
        self.vector, self.bytes = ir.VectorType(self.element, width), 8 if dtype == "float64" else 4
        self.flags = FAST if fast else ()
        self.suffix = f"v{width}f{64 if dtype == 'float64' else 32}"

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [float(value)] * self.width)

    def splat(self, scalar: Any) -> Any:
        """A number in all lanes"""
        nothing, number = ir.Constant(self.vector, ir.Undefined), ir.IntType(32)
        lone = self.builder.insert_element(nothing, scalar, ir.Constant(number, 0))
        return self.builder.shuffle_vector(
            lone, nothing, ir.Constant(ir.VectorType(number, self.width), [0] * self.width)
        )

    def intrinsic(self, name: str, *arguments: Any) -> Any:
        full = f"llvm.{name}.{self.suffix}"
        function = self.module.globals.get(full) or ir.Function(
            self.module, ir.FunctionType(self.vector, [self.vector] * len(arguments)), full
        )
        return self.builder.call(function, arguments, fastmath=self.flags)

    def number(self, value: Any) -> Any:
        """A condition used as a number is 0 or 1."""
        return value if value.type == self.vector else self.builder.uitofp(value, self.vector)

    def condition(self, value: Any) -> Any:
        """A number used as a condition is true unless it is 0."""
        if value.type != self.vector:
            return value
        return self.builder.fcmp_unordered("!=", value, self.constant(0.0))

    def run(self, program: Program | Guarded, inputs: tuple[list[Any], ...]) -> list[list[Any]]:
        """Emits the program where the builder stands, and leaves it where the results are known."""
        if isinstance(program, Guarded):
            return self._run_guarded(program, inputs)
        values: list[Any] = []
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

    def activated(self, name: str, value: Any) -> Any:
        """A layer's activation of a vector, which may be wider or narrower than the emitter's own"""
        own = Emitter(self.module, self.builder, self.dtype, value.type.count, self.fast)
        return own.run(_activation(name), ([value],))[0][0]

    def _run_guarded(self, program: Guarded, inputs: tuple[list[Any], ...]) -> list[list[Any]]:
        """The short way where all lanes are idle, and the whole program where one is not, or turns out not to have been."""
        builder = self.builder
        quiet, whole, joined = (builder.append_basic_block(name) for name in ("quiet", "whole", "joined"))
        ((worth_it,),) = self.run(program.idle, inputs)
        builder.cbranch(self._all(worth_it), quiet, whole)
        builder.position_at_end(quiet)
        *brief, (idle,) = self.run(program.quiet, inputs)
        builder.cbranch(self._all(idle), joined, whole)
        builder.position_at_end(whole)
        full = self.run(program.whole, inputs)
        builder.branch(joined)
        builder.position_at_end(joined)
        return [
            [self._either(a, quiet, b, whole) for a, b in zip(*groups, strict=True)]
            for groups in zip(brief, full, strict=True)
        ]

    def _run_loop(self, loop: Loop, arguments: list[Any]) -> Stored:
        """The turns of a loop; lanes that are no longer active keep what they carry"""
        builder, before = self.builder, self.builder.block
        carry, inputs = Stored(builder, self.vector, loop.carried), arguments[loop.carried :]
        for k, value in enumerate(arguments[: loop.carried]):
            builder.store(value, carry.at(builder, k))
        turn, body, after = (builder.append_basic_block(name) for name in ("turn", "body", "after"))
        builder.branch(turn)
        builder.position_at_end(turn)
        index = builder.phi(INDEX)
        index.add_incoming(ir.Constant(INDEX, 0), before)
        values = [carry.load(builder, k) for k in range(loop.carried)]
        more, active = builder.icmp_signed("<", index, ir.Constant(INDEX, loop.turns)), None
        if loop.active is not None:
            active = self.condition(self.run(loop.active, (values, inputs))[0][0])
            lanes = builder.bitcast(active, ir.IntType(self.width))
            more = builder.and_(more, builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)))
        builder.cbranch(more, body, after)
        builder.position_at_end(body)
        number = self.splat(builder.sitofp(index, self.element))
        (advanced,) = self.run(loop.body, ([number], values, inputs))
        for k, (new, old) in enumerate(zip(advanced, values, strict=True)):
            builder.store(new if active is None else builder.select(active, new, old), carry.at(builder, k))
        index.add_incoming(builder.add(index, ir.Constant(INDEX, 1)), builder.block)
        builder.branch(turn)
        builder.position_at_end(after)
        return carry

    def _all(self, value: Any) -> Any:
        """Whether a condition is true in every lane."""
        lanes = self.builder.bitcast(self.condition(value), ir.IntType(self.width))
        return self.builder.icmp_unsigned("==", lanes, ir.Constant(lanes.type, 2**self.width - 1))

    def _either(self, a: Any, first: Any, b: Any, second: Any) -> Any:
        chosen = self.builder.phi(self.vector)
        chosen.add_incoming(a, first)
        chosen.add_incoming(b, second)
        return chosen

    def operation(self, name: str, arguments: list[Any]) -> Any:
        if name in CONDITIONS or name in ("select", "if_else_zero"):
            return self._choice(name, arguments)
        a = self.number(arguments[0])
        b = self.number(arguments[-1])
        builder, flags = self.builder, self.flags
        simple = {
            "add": lambda: builder.fadd(a, b, flags=flags),
            "subtract": lambda: builder.fsub(a, b, flags=flags),
            "multiply": lambda: builder.fmul(a, b, flags=flags),
            "divide": lambda: builder.fdiv(a, b, flags=flags),
            "negate": lambda: builder.fneg(a, flags=flags),
            "square": lambda: builder.fmul(a, a, flags=flags),
            "twice": lambda: builder.fadd(a, a, flags=flags),
            "invert": lambda: builder.fdiv(self.constant(1.0), a, flags=flags),
            "sqrt": lambda: self.intrinsic("sqrt", a),
            "floor": lambda: self.intrinsic("floor", a),
        }
        if name in ELEMENTARY:
            return elementary(builder, name, [self.number(x) for x in arguments])
        if name not in simple:
            raise NotImplementedError(f"{name} has no vector code yet")
        return simple[name]()

    def _choice(self, name: str, arguments: list[Any]) -> Any:
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


@cache
def _activation(name: str) -> Program:
    return program_of(lambda x: (ACTIVATIONS[name](x),), 0.0)


def align_stack(function: ir.Function) -> None:
    """Vectors that are kept on the stack lie within cache lines; else each would straddle two, at a third of the speed"""
    function.attributes.alignstack = 64
    function.attributes.add("nounwind")  # llvmlite leaves the line above out when there is nothing else to say


def engine_of(source: str, effort: int) -> Any:
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


def _optimised(source: str, machine: Any, effort: int) -> Any:
    module = llvm.parse_assembly(source)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=effort))
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # which hides the one that frees: 0.7 MB for every module
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
    return module
