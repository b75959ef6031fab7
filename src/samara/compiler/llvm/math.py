"""The elementary functions of `samara.core.portable_math` as straight-line vector code, bit-identical to them.

LLVM would turn a vector sine into scalar calls. The only branch is in sin, cos and tan: lanes with |x| > 10⁴ take the value of
the C library.
"""

from collections.abc import Callable

import llvmlite.ir as ir

from samara.core.portable_math import (
    ARGUMENT_COUNTS,
    DOUBLE_COEFFICIENTS,
    ELEMENTARY,
    FUNCTIONS,
    MAX_REDUCED_ANGLE_RAD,
    SINGLE_COEFFICIENTS,
    TRIGONOMETRIC,
    SimdVector,
)

__all__ = ["ELEMENTARY", "Vector", "elementary"]

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)


def elementary(builder: ir.IRBuilder, name: str, arguments: list[ir.Value]) -> ir.Value:
    """Emit f(arguments) on vectors of floats or doubles of any width; `builder` stays in its block."""
    if name == "power":
        value = _half_power(builder, *arguments)
        if value is not None:
            return value
    return builder.call(_function(builder.module, name, arguments[0].type), arguments[: ARGUMENT_COUNTS.get(name, 1)])


class Vector(SimdVector):
    """A vector in a function that is being emitted: doubles, 64-bit integers or conditions."""

    __slots__ = ("builder",)

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        super().__init__(value)
        self.builder = builder

    def broadcast(self, x: SimdVector | float) -> SimdVector:
        vector_type = self.value.type
        return (
            x if isinstance(x, SimdVector) else Vector(self.builder, ir.Constant(vector_type, [x] * vector_type.count))
        )

    def apply(self, operation: str, *operands: SimdVector) -> SimdVector:
        values = [self.value, *(operand.value for operand in operands)]
        if operation in _ON_DOUBLES and values[0].type.element == DOUBLE:
            return Vector(self.builder, _ON_DOUBLES[operation](self.builder, *values))
        return Vector(self.builder, _OPERATIONS[operation](self.builder, *values))


def _intrinsic(name: str) -> Callable[[ir.IRBuilder, ir.Value], ir.Value]:
    def call(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
        full_name = f"llvm.{name}.v{x.type.count}f64"
        existing = builder.module.globals.get(full_name)
        return builder.call(existing or ir.Function(builder.module, ir.FunctionType(x.type, [x.type]), full_name), [x])

    return call


def _bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.bitcast(x, ir.VectorType(INTEGER, x.type.count))


def _negative(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    zero = ir.Constant(ir.VectorType(INTEGER, x.type.count), [0] * x.type.count)
    return builder.icmp_signed("<", _bits(builder, x), zero)


_ON_DOUBLES: dict[str, Callable[..., ir.Value]] = {
    "add": ir.IRBuilder.fadd,
    "subtract": ir.IRBuilder.fsub,
    "multiply": ir.IRBuilder.fmul,
    "equal": lambda builder, a, b: builder.fcmp_ordered("==", a, b),
}
_OPERATIONS: dict[str, Callable[..., ir.Value]] = {
    "add": ir.IRBuilder.add,
    "subtract": ir.IRBuilder.sub,
    "multiply": ir.IRBuilder.mul,
    "divide": ir.IRBuilder.fdiv,
    "and": ir.IRBuilder.and_,
    "or": ir.IRBuilder.or_,
    "xor": ir.IRBuilder.xor,
    "shift_left": ir.IRBuilder.shl,
    "shift_right": ir.IRBuilder.lshr,
    "less": lambda builder, a, b: builder.fcmp_ordered("<", a, b),
    "greater": lambda builder, a, b: builder.fcmp_ordered(">", a, b),
    "equal": lambda builder, a, b: builder.icmp_signed("==", a, b),
    "is_nan": lambda builder, x: builder.fcmp_unordered("uno", x, x),
    "select": ir.IRBuilder.select,
    "bits": _bits,
    "double": lambda builder, x: builder.bitcast(x, ir.VectorType(DOUBLE, x.type.count)),
    "negative": _negative,
    "converted": lambda builder, x: builder.sitofp(x, ir.VectorType(DOUBLE, x.type.count)),
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
}


def _function(module: ir.Module, name: str, vector: ir.Value) -> ir.Value:
    """Return the function on these vectors, added to the module if missing; it is inlined at each call."""
    is_single = vector.element == ir.FloatType()
    full_name = f"samara.{name}.v{vector.count}f{32 if is_single else 64}"
    if full_name in module.globals:
        return module.globals[full_name]
    function = ir.Function(module, ir.FunctionType(vector, [vector] * ARGUMENT_COUNTS.get(name, 1)), full_name)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    doubles = ir.VectorType(DOUBLE, vector.count)
    arguments = [Vector(builder, builder.fpext(x, doubles) if is_single else x) for x in function.args]
    value = FUNCTIONS[name](*arguments, SINGLE_COEFFICIENTS if is_single else DOUBLE_COEFFICIENTS).value
    if name in TRIGONOMETRIC:
        value = _correct_large_angles(builder, name, arguments[0], value)
    builder.ret(builder.fptrunc(value, vector) if is_single else value)
    return function


def _correct_large_angles(builder: ir.IRBuilder, name: str, x: Vector, value: ir.Value) -> ir.Value:
    """Replace lanes beyond 10⁴ by the C library's value: one test and a branch that is rarely taken."""
    is_far = (abs(x) > MAX_REDUCED_ANGLE_RAD).value
    lanes = ir.IntType(x.value.type.count)
    near_block = builder.block
    with builder.if_then(
        builder.icmp_unsigned("!=", builder.bitcast(is_far, lanes), ir.Constant(lanes, 0)), likely=False
    ):
        corrected = builder.call(_library_function(builder.module, name, x.value.type), [x.value, value])
        far_block = builder.block
    result = builder.phi(x.value.type)
    result.add_incoming(value, near_block)
    result.add_incoming(corrected, far_block)
    return result


def _library_function(module: ir.Module, name: str, vector: ir.Value) -> ir.Value:
    full_name = f"samara.far.{name}.v{vector.count}f64"
    if full_name in module.globals:
        return module.globals[full_name]
    library = module.globals.get(name) or ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), name)
    function = ir.Function(module, ir.FunctionType(vector, [vector, vector]), full_name)
    function.linkage = "internal"
    for attribute in ("noinline", "cold"):
        function.attributes.add(attribute)
    for declared in (function, library):
        for attribute in ("nounwind", "readnone"):
            declared.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block())
    x, near_value = function.args
    result = near_value
    for k in range(vector.count):
        lane_index = ir.Constant(ir.IntType(32), k)
        result = builder.insert_element(
            result, builder.call(library, [builder.extract_element(x, lane_index)]), lane_index
        )
    builder.ret(
        (abs(Vector(builder, x)) > MAX_REDUCED_ANGLE_RAD)
        .where(Vector(builder, result), Vector(builder, near_value))
        .value
    )
    return function


def _half_power(builder: ir.IRBuilder, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """√x, x√x and 1/√x for constant exponents ½, 3/2 and −½: two roundings, so within 2 ulp; None for other exponents."""
    e = exponent.constant[0].constant if isinstance(exponent, ir.Constant) else 0.0
    if e not in (-0.5, 0.5, 1.5):
        return None
    one, zero = (ir.Constant(x.type, [number] * x.type.count) for number in (1.0, 0.0))
    full_name = f"llvm.sqrt.v{x.type.count}f{32 if x.type.element == ir.FloatType() else 64}"
    module = builder.module
    sqrt = module.globals.get(full_name) or ir.Function(module, ir.FunctionType(x.type, [x.type]), full_name)
    x = builder.fadd(x, zero)  # −0 becomes 0, as in C
    root = builder.call(sqrt, [x])
    return root if e == 0.5 else builder.fmul(x, root) if e == 1.5 else builder.fdiv(one, root)
