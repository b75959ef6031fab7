"""Machine code for traced programs that run one after another on arrays in memory, step after step, forwards or backwards.

A scan (`scan.py`) keeps its carry in registers and runs over drones. Here every number has a place in memory, so that one
solver may lay its lanes along drones, along the steps of one drone's horizon, or along the columns of a matrix, with the same
programs:

    number c, step k, lane l  is element  places[c] + k · step + l · lane  of its array

Lane 0 is one number for all lanes, lane 1 numbers side by side. Arrays are named; `Loops.call(table, steps)` takes the address
of a table of their addresses.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import llvmlite.ir as ir
import numpy as np

from samara.compiler.llvm.codegen import (
    INDEX,
    Emitter,
    MachineCode,
    element_type,
    index,
    machine_code,
    new_function,
    new_module,
)
from samara.compiler.trace.program import Program

Bases = Mapping[str, ir.Value]
"""The address of each array by its name"""


class ArraySpec(NamedTuple):
    """Where numbers are: which array, the place of each, and how far apart steps and lanes are (in numbers)."""

    name: str
    places: tuple[int, ...]
    step: int = 0
    lane: int = 0


class Pass(NamedTuple):
    """A program on so many lanes: one array for each group of its inputs and of its outputs.

    With `when`, the place of one number, it runs only where that is not 0. A pass that is `apart` is a function of its own,
    which all passes of the same program on arrays of the same kind call.
    """

    program: Program
    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]
    width: int
    when: ArraySpec | None = None
    apart: bool = False

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: "Code") -> None:
        """The code of it at step k, where the builder stands"""
        (_emit_apart if self.apart else _emit_pass)(self, builder, bases, k, code)


class Step(Protocol):
    """What a loop has in turn: a pass, or whatever else has arrays and emits its code"""

    @property
    def inputs(self) -> tuple[ArraySpec, ...]: ...

    @property
    def outputs(self) -> tuple[ArraySpec, ...]: ...

    def emit(self, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: "Code") -> None: ...


class Loop(NamedTuple):
    """Passes in turn for k = 0 … ⌈steps/tile⌉ − 1, or from the last to the first; or only once, at k = 0 or k = steps."""

    passes: tuple[Step, ...]
    at: str = "each"  # or "start", "end"
    reverse: bool = False
    tile: int = 1


class Code(NamedTuple):
    """What code is emitted into: a module, of numbers of one type, and the functions in it that stand apart"""

    module: ir.Module
    dtype: str
    fast: bool
    functions: dict[Hashable, ir.Function]

    def emitter(self, builder: ir.IRBuilder, width: int) -> Emitter:
        """For programs on so many lanes"""
        return Emitter(self.module, builder, self.dtype, width, self.fast)


@dataclass(frozen=True, eq=False)
class Loops:
    """Machine code: `call(table, steps)`, holding the interpreter lock; the names of the arrays; and what keeps it alive."""

    call: Callable[[int, int], int]
    address: int
    names: tuple[str, ...]
    engine: object


def compile_loops(loops: tuple[Loop, ...], dtype: str = "float64", fast: bool = True, effort: int = 1) -> Loops:
    """One function that runs the loops one after another"""
    module = new_module()
    builder, (table, steps) = new_function(module, "run", [element_type(dtype).as_pointer().as_pointer(), INDEX])
    names = tuple(
        dict.fromkeys(
            array.name for loop in loops for own in loop.passes for array in (*own.inputs, *own.outputs) if array.places
        )
    )
    bases = {name: builder.load(builder.gep(table, [index(i)])) for i, name in enumerate(names)}
    code = Code(module, dtype, fast, {})
    for loop in loops:
        builder = _emit(loop, builder, bases, steps, code)
    builder.ret_void()
    call, address, engine = machine_code(module, "run", effort, keeps_lock=True)
    return Loops(call, address, names, engine)


Call = tuple[Loops, int, int]
"""loops.call(table, steps)"""


class Chain:
    """Calls one after another as one: a third of a microsecond for all of them."""

    def __init__(self, *calls: Call) -> None:
        self._loops = [loops for loops, _, _ in calls]  # whose code is kept
        self._list = np.array([*((own.address, table, steps) for own, table, steps in calls), (0, 0, 0)], np.int64)
        self._at, self._call = int(self._list.ctypes.data), _chain_code().call

    def __call__(self) -> None:
        self._call(self._at)


@cache
def _chain_code() -> MachineCode:
    """`call(list)` of triples (address of a function, table, steps), as far as the address 0"""
    module = new_module()
    builder, (first,) = new_function(module, "run", [INDEX.as_pointer()])
    one = ir.FunctionType(ir.VoidType(), [INDEX, INDEX]).as_pointer()
    turn, body, done = (builder.append_basic_block(name) for name in ("turn", "body", "done"))
    entry = builder.block
    builder.branch(turn)
    builder.position_at_end(turn)
    at = builder.phi(INDEX.as_pointer())
    address, table, steps = (builder.gep(at, [index(i)]) for i in range(3))
    address = builder.load(address)
    builder.cbranch(builder.icmp_signed("==", address, index(0)), done, body)
    builder.position_at_end(body)
    builder.call(builder.inttoptr(address, one), [builder.load(table), builder.load(steps)])
    at.add_incoming(first, entry)
    at.add_incoming(builder.gep(at, [index(3)]), body)
    builder.branch(turn)
    builder.position_at_end(done)
    builder.ret_void()
    return machine_code(module, "run", effort=1, keeps_lock=True)


def _emit(loop: Loop, builder: ir.IRBuilder, bases: Bases, steps: ir.Value, code: Code) -> ir.IRBuilder:
    if loop.at != "each":
        once = steps if loop.at == "end" else index(0)
        for own in loop.passes:
            own.emit(builder, bases, once, code)
        return builder
    one, zero, tile = index(1), index(0), index(loop.tile)
    turns = builder.sdiv(builder.add(steps, index(loop.tile - 1)), tile)
    before, body = builder.block, builder.function.append_basic_block("turn")
    after = builder.function.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", turns, zero), body, after)
    builder = ir.IRBuilder(body)
    turn = builder.phi(INDEX)
    turn.add_incoming(zero, before)
    k = builder.sub(builder.sub(turns, one), turn) if loop.reverse else turn
    for own in loop.passes:
        own.emit(builder, bases, k, code)
    following = builder.add(turn, one)
    turn.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, turns), body, after)
    return ir.IRBuilder(after)


def _emit_pass(own: Pass, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: Code) -> None:
    after = None
    if own.when is not None:
        run, after = (builder.function.append_basic_block(name) for name in ("when", "otherwise"))
        asked = _Places(own.when, code.emitter(builder, 1), bases, k).number()
        builder.cbranch(builder.fcmp_unordered("!=", asked, ir.Constant(asked.type, 0.0)), run, after)
        builder.position_at_end(run)
    emitter = code.emitter(builder, own.width)
    places = [_Places(array, emitter, bases, k) for array in (*own.inputs, *own.outputs)]
    results = emitter.run(own.program, tuple(places[: len(own.inputs)]))
    for array, values in zip(places[len(own.inputs) :], results, strict=True):
        for c, value in enumerate(values):
            array.put(c, value)
    if after is not None:
        builder.branch(after)
        builder.position_at_end(after)


def _emit_apart(own: Pass, builder: ir.IRBuilder, bases: Bases, k: ir.Value, code: Code) -> None:
    """A call with the first place of every array at this step"""
    arrays = (*own.inputs, *own.outputs)
    alike = tuple(_from_first(array, i) for i, array in enumerate(arrays))
    inner = own._replace(inputs=alike[: len(own.inputs)], outputs=alike[len(own.inputs) :], apart=False)
    function = code.functions.get(inner) or _function(inner, alike, code)
    code.functions[inner] = function
    used = [array for array in arrays if array.places]
    offsets = (builder.mul(k, index(array.step)) for array in used)
    firsts = (builder.add(at, index(min(own.places))) for at, own in zip(offsets, used, strict=True))
    builder.call(function, [builder.gep(bases[array.name], [at]) for array, at in zip(used, firsts, strict=True)])


def _from_first(array: ArraySpec, number: int) -> ArraySpec:
    return ArraySpec(f"argument{number}", tuple(place - min(array.places) for place in array.places), 0, array.lane)


def _function(own: Pass, arrays: tuple[ArraySpec, ...], code: Code) -> ir.Function:
    used = [array for array in arrays if array.places]
    pointers = [element_type(code.dtype).as_pointer()] * len(used)
    builder, arguments = new_function(code.module, f"apart{len(code.functions)}", pointers)
    builder.function.linkage = "internal"
    builder.function.attributes.add("noinline")
    bases = {array.name: argument for array, argument in zip(used, arguments, strict=True)}
    own.emit(builder, bases, index(0), code)
    builder.ret_void()
    return builder.function


class _Places:
    """An array at one step: loads where a number is first used, as LLVM keeps it in a register from there on."""

    def __init__(self, array: ArraySpec, emitter: Emitter, bases: Bases, k: ir.Value) -> None:
        self.array, self.emitter, self.builder, self.bytes = array, emitter, emitter.builder, emitter.bytes
        if array.places:
            offset = self.builder.mul(k, index(array.step))
            self.base = self.builder.gep(bases[array.name], [offset])

    def _at(self, c: int, lane: int = 0) -> ir.Value:
        return self.builder.gep(self.base, [index(self.array.places[c] + lane * self.array.lane)])

    def number(self) -> ir.Value:
        """The first, alone"""
        return self.builder.load(self._at(0))

    def __getitem__(self, c: int) -> ir.Value:
        builder, vector, width = self.builder, self.emitter.vector, self.emitter.width
        if self.array.lane == 1 or width == 1:
            return builder.load(builder.bitcast(self._at(c), vector.as_pointer()), align=self.bytes)
        if self.array.lane == 0:
            return self.emitter.splat(builder.load(self._at(c)))
        value = ir.Constant(vector, ir.Undefined)
        for lane in range(width):
            value = builder.insert_element(value, builder.load(self._at(c, lane)), ir.Constant(ir.IntType(32), lane))
        return value

    def put(self, c: int, value: ir.Value) -> None:
        builder = self.builder
        if self.array.lane == 1 or self.emitter.width == 1:
            builder.store(value, builder.bitcast(self._at(c), self.emitter.vector.as_pointer()), align=self.bytes)
            return
        for lane in range(self.emitter.width):
            builder.store(builder.extract_element(value, ir.Constant(ir.IntType(32), lane)), self._at(c, lane))
