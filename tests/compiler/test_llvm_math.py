"""Elementary functions in vector code, against multiple-precision arithmetic (mpmath).

An ulp is the distance of neighbouring numbers at the exact value; half of one is the best that rounding can achieve.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from samara.compiler.llvm import codegen
from samara.compiler.llvm.scan import ScanShape, compile_scan_llvm, scan_kernel
from samara.compiler.scan import Templates, compile_scan_python
from samara.compiler.trace.folding_tape import trace_program
from samara.core import ops

Array = NDArray[Any]
DTYPES = ("float64", "float32")
UNARY_NAMES = ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "log")
BINARY_NAMES = ("atan2", "power")
NAMES = UNARY_NAMES + BINARY_NAMES
IN_NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
PAIR = Templates((0.0, 0.0), (), ())

# Measured on 30 million arguments each, half of them in the worst range; in single precision at most 0.507 everywhere.
MEASURED = {"sin": 0.86, "cos": 0.89, "tan": 1.53, "asin": 1.17, "acos": 1.15, "atan": 1.45, "atan2": 1.59, "exp": 0.99}
MEASURED |= {"log": 0.87, "power": 0.91}
WORST = {"float64": {name: 1.05 * ulp for name, ulp in MEASURED.items()}, "float32": dict.fromkeys(NAMES, 0.51)}


def all_functions(carry: tuple[Any, Any], held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
    """Every function of a, and of a and b; the carry is unchanged."""
    a, b = carry
    return carry, (
        *(getattr(ops, name)(a) for name in UNARY_NAMES),
        *(getattr(ops, name)(a, b) for name in BINARY_NAMES),
    )


@cache
def compiled(dtype: str, fast: bool = False) -> Any:
    return compile_scan_llvm(all_functions, PAIR, dtype=dtype, fast=fast)


def vector_code(dtype: str, a: Array, b: Array | None = None, fast: bool = False) -> dict[str, Array]:
    """All functions at all a (and b): full vectors at full width, the remainder at width 1."""
    pair = np.array([a, a if b is None else b], dtype=dtype)
    _, outputs = compiled(dtype, fast)(pair, [], None, 1)
    return dict(zip(NAMES, outputs[0], strict=True))


def run_at_width(width: int, dtype: str, a: Array, b: Array) -> dict[str, Array]:
    """The same from a kernel of this width alone; the argument count must be a multiple of it."""
    kernel = scan_kernel(trace_program(all_functions, *PAIR), ScanShape(2, (), 0, True, len(NAMES)), dtype, width)
    pair, outputs, nothing = np.array([a, b], dtype=dtype), np.empty((len(NAMES), len(a)), dtype), np.zeros(1, dtype)
    pointers = [array.ctypes.data for array in (pair, nothing, nothing, nothing, outputs)]
    kernel.call(*pointers, 0, len(a), len(a), 1, 1)
    return dict(zip(NAMES, outputs, strict=True))


def same_bits(a: Array, b: Array) -> bool:
    """Equal, including signs of zeros; all NaN are equal."""
    bits = f"i{a.itemsize}"
    return bool(np.all((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))))


def errors_in_ulp(values: Array, function: Callable[..., Any], *arguments: Array) -> Array:
    """|value − exact| / ulp(exact), the exact value with 40 digits more than the arguments need."""
    form = np.finfo(values.dtype)
    precision, least = form.nmant + 1, int(form.minexp) - form.nmant
    errors = []
    with mpmath.workprec(200):
        for value, *operands in zip(values.tolist(), *(x.tolist() for x in arguments), strict=True):
            truth = function(*(mpmath.mpf(x) for x in operands))
            exponent = max(int(mpmath.frexp(truth)[1]) - precision, least)
            errors.append(float(abs(mpmath.mpf(value) - truth) / mpmath.ldexp(1, exponent)))
    return np.array(errors)


def magnitudes(rng: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Numbers uniform in order of magnitude."""
    return np.exp2(rng.uniform(np.log2(low), np.log2(high), count))


@cache
def closest_to_quarter_turns(dtype: str) -> Array:
    """Of the numbers nearest to n π/2 below 10⁴, the hundred whose remainder is smallest: most digits cancel there."""
    with mpmath.workprec(200):
        turns = [n * mpmath.pi / 2 for n in range(1, 6367)]
        nearest = np.array([float(turn) for turn in turns], dtype)
        left = [float(abs(mpmath.mpf(float(x)) - turn)) for x, turn in zip(nearest, turns, strict=True)]
    return nearest[np.argsort(left)[:100]]


def sample_arguments(name: str, dtype: str, rng: np.random.Generator, count: int = 1500) -> tuple[Array, ...]:
    """Arguments with finite results: the whole range, every order of magnitude, and the seams of the method."""
    form = np.finfo(dtype)
    tiny, least, most = float(form.tiny), float(form.smallest_subnormal), float(form.max)
    signs = rng.choice([-1.0, 1.0], count)
    lowest, highest = (-745.0, 709.7) if dtype == "float64" else (-103.2, 88.7)
    choices: dict[str, Callable[[], list[Array]]] = {
        "turn": lambda: [
            rng.uniform(-1e4, 1e4, count),
            signs * magnitudes(rng, tiny, 1e4, count),
            closest_to_quarter_turns(dtype),
            np.array([1e4, -1e4, least, math.pi / 4]),
        ],
        "arc": lambda: [
            rng.uniform(-1, 1, count),
            signs * magnitudes(rng, tiny, 1, count),
            signs * (1.0 - magnitudes(rng, float(form.epsneg), 0.5, count)),
            np.array([0.5, -0.5, 1.0, -1.0, least, *np.nextafter(np.array([0.5, 1.0], dtype), 0)]),
        ],
        "atan": lambda: [rng.uniform(-3, 3, count), signs * magnitudes(rng, tiny, most, count), np.array([1.0, least])],
        "exp": lambda: [rng.uniform(lowest, highest, count), signs * magnitudes(rng, tiny, 1, count)],
        "log": lambda: [
            magnitudes(rng, least, most, count),
            rng.uniform(0.5, 2, count),
            1.0 + signs * magnitudes(rng, float(form.eps), 0.1, count),
            np.array([least, tiny, most, math.sqrt(0.5), math.sqrt(2.0)]),
        ],
    }
    if name == "atan2":
        y = np.concatenate([rng.normal(size=2 * count), signs * magnitudes(rng, tiny, most, count)])
        x = np.concatenate([rng.normal(size=count), y[count : 2 * count] * rng.uniform(-3, 3, count), y[2 * count :]])
        x[-count // 2 :] = magnitudes(rng, tiny, most, count // 2)
        return y.astype(dtype), x.astype(dtype)
    if name == "power":
        base = np.concatenate([rng.uniform(0.5, 2, 2 * count), magnitudes(rng, least * 4, most, count)]).astype(dtype)
        with np.errstate(divide="ignore"):
            largest = rng.uniform(lowest, highest, 3 * count) / np.log(base.astype(float))
        exponent = np.where(np.arange(3 * count) % 2 == 0, rng.uniform(-0.9, 0.9, 3 * count), largest)
        inside = np.abs(exponent) < 1e6
        return base[inside], exponent[inside].astype(dtype)
    kind = "turn" if name in ("sin", "cos", "tan") else "arc" if name in ("asin", "acos") else name
    return (np.concatenate(choices[kind]()).astype(dtype),)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_farther_than_two_ulp_from_the_truth(name: str, dtype: str) -> None:
    """… and none farther than measured on many more: a lost digit in one coefficient shows at once."""
    arguments = sample_arguments(name, dtype, np.random.default_rng(7))
    values = vector_code(dtype, *arguments)[name]
    errors = errors_in_ulp(values, getattr(mpmath, name), *arguments)
    assert errors.max() <= WORST[dtype][name] <= 2.0, [x[errors.argmax()] for x in arguments]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_width_gives_the_same_bits(dtype: str) -> None:
    """A drone's values do not depend on the other lanes: NaN, large angles and edge cases are among them."""
    rng = np.random.default_rng(3)
    form = np.finfo(dtype)
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2e4, 1e30, form.tiny, form.smallest_subnormal]
    a = np.concatenate([rng.normal(size=2000), magnitudes(rng, 1e-30, 1e30, 2000), rng.uniform(-3e4, 3e4, 84), edges])
    a = rng.permutation(a).astype(dtype)
    b = rng.permutation(a)
    assert len(a) % 16 == 0
    scalar_results = run_at_width(1, dtype, a, b)
    assert sum(np.isfinite(scalar_results[name]).sum() for name in NAMES) > 20_000
    for width in (2, 4, 8, 16):
        vector_results = run_at_width(width, dtype, a, b)
        assert [name for name in NAMES if not same_bits(scalar_results[name], vector_results[name])] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plain_machine_gives_the_same_bits_as_this_one(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strict IEEE, nothing fused: results do not depend on the features of the processor."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(scale=3.0, size=(2, 1600)).astype(dtype)
    host_results = run_at_width(4, dtype, a, b)

    def plain() -> Any:
        return llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True)

    monkeypatch.setattr(codegen, "host", plain)
    plain_results = run_at_width(4, dtype, a, b)
    assert [name for name in NAMES if not same_bits(host_results[name], plain_results[name])] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_fast_code_does_not_touch_the_elementary_functions(dtype: str) -> None:
    """Contraction inside a polynomial would change its last bits."""
    a, b = np.random.default_rng(9).normal(scale=2.0, size=(2, 3201)).astype(dtype)
    strict, fast = vector_code(dtype, a, b), vector_code(dtype, a, b, fast=True)
    assert [name for name in NAMES if not same_bits(strict[name], fast[name])] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges_are_those_of_the_c_library(dtype: str) -> None:
    """NaN, ±∞, ±0, overflow, underflow and every quadrant: the same number, sign and type as NumPy takes from C."""
    form = np.finfo(dtype)
    least, tiny, most, eps = (float(x) for x in (form.smallest_subnormal, form.tiny, form.max, form.eps))
    sizes = [0.0, least, 3 * least, tiny, eps, 0.3, 0.5, 1 - eps / 2, 1.0, 1 + eps, 2.0, 2.5, 3.0, 5.0, 88.0, 89.0]
    sizes += [103.5, 104.5, 709.0, 710.0, 745.0, 746.0, 1e4, most, math.inf]
    values = np.array([*sizes, *(-x for x in sizes), math.nan], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    results = vector_code(dtype, a, b)
    for name in NAMES:
        with np.errstate(all="ignore"):
            function, doubles = getattr(np, IN_NUMPY.get(name, name)), (a.astype(float), b.astype(float))
            truth = function(*doubles[: 2 if name in BINARY_NAMES else 1]).astype(dtype)
            error_ulp = np.abs(results[name] - truth) / np.spacing(np.abs(truth))
        edge = ~np.isfinite(truth) | (truth == 0)
        assert same_bits(results[name][edge], truth[edge]), name
        assert np.array_equal(np.signbit(results[name][~edge]), np.signbit(truth[~edge])), name
        assert error_ulp[~edge].max() <= 6.0, name  # NumPy's vector code may be off by 4


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("atan2", (0.0, -0.0), math.pi),
        ("atan2", (-0.0, -1.0), -math.pi),
        ("atan2", (-0.0, 1.0), -0.0),
        ("atan2", (math.inf, -math.inf), 0.75 * math.pi),
        ("atan2", (1.0, 0.0), math.pi / 2),
        ("log", (0.0, 0.0), -math.inf),
        ("log", (-1.0, 0.0), math.nan),
        ("asin", (1.0 + 1e-6, 0.0), math.nan),
        ("acos", (1.0, 0.0), 0.0),
        ("acos", (-1.0, 0.0), math.pi),
        ("sin", (-0.0, 0.0), -0.0),
        ("sin", (math.inf, 0.0), math.nan),
        ("exp", (-math.inf, 0.0), 0.0),
        ("power", (0.0, 1.7), 0.0),
        ("power", (0.0, -1.7), math.inf),
        ("power", (0.0, 0.0), 1.0),
        ("power", (-2.0, 3.0), -8.0),
        ("power", (-2.0, 0.4), math.nan),
        ("power", (2.0, math.nan), math.nan),
    ],
)
def test_the_edges_a_flight_meets(name: str, arguments: tuple[float, float], value: float) -> None:
    """A level heading, a vertical climb, an empty battery: well-known values, to the bit."""
    for dtype in DTYPES:
        a, b = (np.array([x], dtype) for x in arguments)
        assert same_bits(vector_code(dtype, a, b)[name], np.array([value], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_angles_keep_their_digits_and_leave_their_neighbours_alone(dtype: str) -> None:
    """Beyond 10⁴ rad the C library computes only those lanes: within 1 ulp, up to the largest number."""
    rng = np.random.default_rng(11)
    far = (rng.choice([-1.0, 1.0], 400) * magnitudes(rng, 1.0001e4, float(np.finfo(dtype).max), 400)).astype(dtype)
    near = rng.uniform(-1e4, 1e4, 400).astype(dtype)
    mixed = np.stack([far, near], axis=1).ravel()
    mixed_results, near_results = vector_code(dtype, mixed), vector_code(dtype, near)
    for name in ("sin", "cos", "tan"):
        assert errors_in_ulp_far(mixed_results[name][::2], name, far).max() < 1.0
        assert same_bits(np.ascontiguousarray(mixed_results[name][1::2]), near_results[name])


def errors_in_ulp_far(values: Array, name: str, far: Array) -> Array:
    """A thousand more bits: as many as the largest number has before the point."""

    def function(x: Any) -> Any:
        with mpmath.workprec(1400):
            return getattr(mpmath, name)(x)

    return errors_in_ulp(values, function, far)


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetries_hold_to_the_bit(dtype: str) -> None:
    """sin, tan, asin and atan are odd, cos is even, atan2 is odd in y: mirrored flights stay mirrored."""
    a, b = np.random.default_rng(13).uniform(-1.0, 1.0, size=(2, 5000)).astype(dtype)
    a[:2500] *= 1e4
    plus, minus = vector_code(dtype, a, b), vector_code(dtype, -a, b)
    for name in ("sin", "tan", "asin", "atan", "atan2"):
        assert same_bits(plus[name], -minus[name])
    assert same_bits(plus["cos"], minus["cos"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_exponents_are_as_good_as_any(dtype: str) -> None:
    """x^−½ and x^3/2 by roots, others by logarithm (5.2559: air pressure with height): within 2 ulp, 0 and −0 as in C."""
    exponents = (-0.5, 1.5, -1.5, 5.2559)
    run = compile_scan_llvm(
        lambda carry, held_inputs, inputs: (carry, tuple(ops.power(carry[0], e) for e in exponents)),
        Templates((0.0,), (), ()),
        dtype=dtype,
    )
    x = magnitudes(np.random.default_rng(15), 1e-6, 1e6, 2000).astype(dtype)
    _, outputs = run(np.array([x]), [], None, 1)
    for e, values in zip(exponents, outputs[0], strict=True):
        exponent = float(np.dtype(dtype).type(e))
        assert errors_in_ulp(values, lambda base, e=exponent: base**e, x).max() <= 2.0
    edges = np.array([[0.0, -0.0, math.inf]], dtype)
    _, outputs = run(edges, [], None, 1)
    for e, values in zip(exponents, outputs[0], strict=True):
        with np.errstate(divide="ignore"):
            assert same_bits(values, np.power(edges[0], np.dtype(dtype).type(e)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_loop_calls_no_library(dtype: str) -> None:
    """LLVM would turn a vector sine into scalar calls. Only the branch for large angles may call the C library."""
    kernel = scan_kernel(
        trace_program(all_functions, *PAIR), ScanShape(2, (), 0, True, len(NAMES)), dtype, codegen.vector_width(dtype)
    )
    loop, *far = re.split(r"^_?samara\.far\.\w+\.\w+:", kernel.assembly, flags=re.MULTILINE)
    library = re.compile(r"(?<![.\w])_?(a?sin|a?cos|a?tan|atan2|exp|log|pow)f?\b")
    assert len(far) == 3 and all(library.search(part) for part in far)
    assert library.findall(loop) == []


@pytest.mark.parametrize("drones", [1, 19])
def test_a_body_of_many_functions_follows_python(drones: int) -> None:
    """A point spirals in: polar form, a turn, a power, back. After forty steps vector code and Python's `math` agree."""

    def body(carry: tuple[Any, Any], held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
        x, y = carry
        angle = ops.atan2(y, x) + 0.3
        radius = ops.exp(0.5 * ops.log(x * x + y * y)) * ops.power(0.9, 0.3 + 0.1 * ops.cos(angle))
        outputs = (ops.tan(0.3 * angle), ops.asin(ops.sin(angle)), ops.acos(0.9 * ops.cos(angle)), ops.atan(radius))
        return (radius * ops.cos(angle), radius * ops.sin(angle)), outputs

    start = np.random.default_rng(17).normal(size=(2, drones))
    final, recorded = compile_scan_llvm(body, PAIR, dtype="float64")(start.copy(), [], None, 40)
    python, expected = compile_scan_python(body, PAIR, dtype="float64")(start.copy(), [], None, 40)
    assert final == pytest.approx(python, rel=1e-13, abs=1e-15)
    assert recorded == pytest.approx(expected, rel=2e-13, abs=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_numpy_give_the_bits_of_vector_code(dtype):
    """Numbers of every magnitude, near and far, integers and not, and NaN; NumPy's functions differ by processor."""
    generator = np.random.default_rng(5)
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, np.inf, -np.inf, np.nan, 1e-310, 1e5, -3e4, 88.0, 800.0, -800.0]
    )
    wide = generator.normal(size=700) * 10.0 ** generator.uniform(-8, 4, 700)
    a = np.concatenate([generator.uniform(-1.0, 1.0, 700), wide, np.repeat(special, len(special))]).astype(dtype)
    b = np.concatenate([generator.normal(size=1400) * 3.0, np.tile(special, len(special))]).astype(dtype)
    expected = vector_code(dtype, a, b)
    for name in NAMES:
        result = getattr(ops, name)(a) if name in UNARY_NAMES else getattr(ops, name)(a, b)
        assert result.dtype == dtype
        assert np.array_equal(result, expected[name], equal_nan=True), name
        assert np.array_equal(np.signbit(result[result == 0.0]), np.signbit(expected[name][result == 0.0])), name


def test_numpy_arrays_keep_shape_and_precision():
    """Its shape, its precision beside Python floats; a NumPy scalar stays one, and complex numbers are refused."""
    x = np.linspace(-1.0, 1.0, 10_000).reshape(2, 5, 1000)
    assert np.array_equal(ops.sin(x).ravel(), np.concatenate([ops.sin(row) for row in x.reshape(10, 1000)]))
    assert ops.atan2(x[0], 2.0).shape == (5, 1000) and ops.power(2.0, x[0, 0, :3]).shape == (3,)
    assert ops.power(np.float32([4.0]), 1.5).dtype == np.float32 and ops.power(np.array([-0.0]), 0.5)[0] == 0.0
    assert type(ops.exp(np.float64(1.0))) is np.float64 and ops.exp(np.array(3)) == pytest.approx(math.e**3, rel=1e-15)
    with pytest.raises(TypeError, match="expected real numbers"):
        ops.sin(np.array([1j]))


@pytest.mark.parametrize("exponent", [0.5, 1.5, -0.5])
def test_half_powers_of_arrays_are_those_of_square_roots(exponent):
    x = np.array([0.25, 2.0, 3.7, 1e10])
    assert ops.power(x, exponent) == pytest.approx([math.pow(base, exponent) for base in x], rel=1e-15)
