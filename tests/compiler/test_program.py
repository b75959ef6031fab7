"""Machine code, Python and C compute what a traced program specifies: every operation on every other, including NaN."""

import ctypes
import math
import subprocess
from itertools import product
from operator import add, mul, neg, sub, truediv

import numpy as np
import pytest
from support.c_compiler import STRICT, compiler
from support.casadi_function import casadi_function

import samara
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.evaluate import evaluate_program
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import CONDITIONS, OPERATIONS, Instruction, Program, combine_factors
from samara.compiler.trace.tape_scalar import UNARY
from samara.control.geometric import geometric
from samara.core import ops
from samara.core.algebra import Vec3
from samara.core.block_ops import ConstantTable, Layer, loop
from samara.core.integrate import rk4
from samara.core.portable_math import ELEMENTARY
from samara.core.tree import flatten
from samara.export.c_syntax import array, c_lines
from samara.physics.types import Reference

DEFINITIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negate": lambda a: -a,
    "power": np.power,
    "atan2": np.arctan2,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "and": lambda a, b: a != 0.0 and b != 0.0,
    "or": lambda a, b: a != 0.0 or b != 0.0,
    "select": lambda c, a, b: a if c != 0.0 else b,
} | {name: getattr(np, name) for name in ("sqrt", "sin", "cos", "tan", "exp", "log", "floor")}
DEFINITIONS |= {name: getattr(np, name.replace("a", "arc", 1)) for name in ("asin", "acos", "atan")}
OPERAND_COUNTS = {"power": 2, "atan2": 2, "select": 3} | dict.fromkeys(
    ("sqrt", "sin", "cos", "tan", "exp", "log", "floor"), 1
)
OPERAND_COUNTS |= dict.fromkeys(("asin", "acos", "atan"), 1)
OPERAND_COUNTS = {
    name: OPERAND_COUNTS.get(name) or meaning.__code__.co_argcount for name, meaning in DEFINITIONS.items()
}
INPUTS = 3


def every_operation_of_every_other(names):
    """x₀ … x₂, each operation on them, and each operation with one of those at each operand."""
    instructions = [Instruction("input", location=(0, k)) for k in range(INPUTS)]
    instructions += [Instruction(name, tuple(range(OPERAND_COUNTS[name]))) for name in names]
    outputs = list(range(INPUTS, len(instructions)))
    for outer, inner in product(names, names):
        for place in range(OPERAND_COUNTS[outer]):
            arguments = list(range(OPERAND_COUNTS[outer]))
            arguments[place] = len(instructions)
            instructions.append(Instruction(inner, tuple((k + 1) % INPUTS for k in range(OPERAND_COUNTS[inner]))))
            outputs.append(len(instructions))
            instructions.append(Instruction(outer, tuple(arguments)))
    return Program(tuple(instructions), (tuple(outputs),))


def evaluate_by_definition(program, numbers):
    values = []
    with np.errstate(all="ignore"):
        for instruction in program.instructions:
            if instruction.operation == "input":
                values.append(np.float64(numbers[instruction.location[1]]))
            else:
                values.append(
                    np.float64(DEFINITIONS[instruction.operation](*(values[i] for i in instruction.arguments)))
                )
    return np.array([values[i] for i in program.outputs[0]])


NUMBERS = [(0.7, 0.3, 0.45), (-0.6, 0.25, -0.85), (2.5, -1.75, 1.25), (0.5, 0.5, 0.0)]
NUMBERS += [(math.nan, 0.3, 0.4), (0.7, math.nan, -0.4), (0.7, -0.3, math.nan)]


def test_the_list_of_operations_is_complete():
    assert set(DEFINITIONS) == OPERATIONS
    assert {*CONDITIONS} <= set(DEFINITIONS)


def test_machine_code_computes_the_program():
    """NaN is different from every number, and true as a condition. (Sines: see test_llvm_math.)"""
    program = every_operation_of_every_other([name for name in DEFINITIONS if name not in ELEMENTARY])
    call = compile_program(program, [INPUTS])
    for numbers in NUMBERS:
        results = np.array(call(numbers))
        np.testing.assert_allclose(
            results, evaluate_by_definition(program, numbers), rtol=1e-13, atol=1e-300, equal_nan=True
        )


def test_python_computes_the_program():
    """Each operation on the inputs, on arrays, as adjoints are evaluated without a compiler."""
    instructions = [Instruction("input", location=(0, k)) for k in range(INPUTS)]
    instructions += [Instruction(name, tuple(range(OPERAND_COUNTS[name]))) for name in DEFINITIONS]
    program = Program(tuple(instructions), (tuple(range(INPUTS, len(instructions))),))
    for numbers in NUMBERS[:4]:
        with np.errstate(all="ignore"):
            (replayed,) = evaluate_program(program, [[np.atleast_1d(x) for x in numbers]])
        values = np.array([float(np.ravel(value)[0]) for value in replayed])
        np.testing.assert_allclose(
            values, evaluate_by_definition(program, numbers), rtol=1e-12, atol=1e-12, equal_nan=True
        )


def test_c_computes_the_program(tmp_path):
    """Parentheses are set where C's operator precedence needs them."""
    program = every_operation_of_every_other(list(DEFINITIONS))
    count = len(program.outputs[0])
    lines = c_lines(
        program, [array("x", [f"in_{k}" for k in range(INPUTS)])], [array("y", [f"out {k}" for k in range(count)])]
    )
    source, library = tmp_path / "all.c", tmp_path / "all.so"
    source.write_text("#include <math.h>\nvoid all(const double *x, double *y) {\n" + "\n".join(lines) + "\n}\n")
    done = subprocess.run(
        [compiler(), *STRICT, "-ffp-contract=off", "-fPIC", "-shared", source, "-o", library, "-lm"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    call = ctypes.CDLL(str(library)).all
    for numbers in NUMBERS:
        x, y = np.array(numbers), np.empty(count)
        call(*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, y)))
        np.testing.assert_allclose(y, evaluate_by_definition(program, numbers), rtol=1e-13, atol=1e-300, equal_nan=True)


def everything(x, y):
    """Every operation of `samara.core.ops`, on two symbols and with numbers of each type on either side."""
    one, other = x.x, y[0]
    numbers = [2, 0.5, np.float64(0.25), 0.0, -0.0, 1.0]
    results = [operation(one, n) for n in numbers for operation in (add, sub, mul)]
    results += [operation(n, one) for n in numbers for operation in (add, sub, mul, truediv)]
    results += [one / n for n in numbers if n] + [one / other, one - other + other, -one, one**2, one**other, 2.0**one]
    results += [getattr(ops, name)(one) for name in (*UNARY, "absolute", "sign", "safe_sqrt", "wrap_angle")]
    results += [ops.atan2(one, other), ops.power(one, 1.5), ops.minimum(one, other), ops.clamp(one, 0.0, other)]
    conditions = [one < other, one <= 1.0, other < 2.0, one >= other, one == other, one != 1.0, ops.equal(one, 0.0)]
    combined = [ops.logical_and(conditions[0], conditions[1]), ops.logical_or(conditions[2], conditions[5])]
    results += [ops.where(condition, one, 3.0) for condition in (*conditions, *combined)]
    return tuple(results), ops.where(one < 0.0, 0.0, other)


def traced_cases():
    """Every operation, a step with contact and a battery, a controller, a loop, a table and a layer; with two points each."""
    iris = samara.vehicle("iris")
    state, command = samara.hover(iris)
    moved = state._replace(p_W=Vec3(0.3, -0.2, 0.01), v_W=Vec3(1.0, 0.4, -2.0), omega_B=Vec3(0.5, -1.0, 0.2))
    grid = ConstantTable([[1.0, 2.0], [4.0, 8.0]])
    network = Layer(((0.3, -0.7), (0.2, 0.0)), (0.1, -0.4), "tanh")

    def step(x, u):
        return (rk4(lambda x: samara.derivative(x, u, iris), x, 1e-3),)

    def control(x, target):
        return geometric(iris)(x, target, iris, ())

    def blocks(x):
        root = loop(lambda k, y, a: 0.5 * (y + a / y) + 0.0 * k, 1.0 + x[0], 2.0 + x[1], count=5)
        return ((root, ops.lookup(grid, x[0], x[1]), *network(x)),)

    goal = Reference(Vec3(0.0, 0.0, 1.0))
    return {
        "operations": (everything, (Vec3(0.3, 0.0, 0.0), (0.7,)), (Vec3(0.9, 0.0, 0.0), (0.2,))),
        "step": (step, (state, command), (moved, command)),
        "controller": (control, (state, goal), (moved, goal)),
        "blocks": (blocks, ((0.3, 0.6),), ((1.4, -0.2),)),
    }


@pytest.mark.parametrize("case", traced_cases())
def test_a_trace_has_the_bits_of_its_function(case):
    """The folded program on floats, against the function itself on the same floats; -0 and 0 are equal."""
    function, *points = traced_cases()[case]
    program = trace_program(function, *points[0])
    for point in points:
        expected = [[float(leaf) for leaf in flatten(result)] for result in function(*point)]
        assert evaluate_program(program, [flatten(tree) for tree in point]) == expected


@pytest.mark.parametrize("case", traced_cases())
def test_casadi_computes_the_same(case):
    """Against CasADi, which traces and simplifies the same source by its own rules."""
    function, *points = traced_cases()[case]
    program, reference = trace_program(function, *points[0]), casadi_function(function, *points[0])
    for point in points:
        values = [value for group in evaluate_program(program, [flatten(tree) for tree in point]) for value in group]
        np.testing.assert_allclose(np.array(values, float), flatten(reference(*point)), rtol=1e-12, atol=1e-12)


FOLDS = {
    "x + 0": (lambda x, y: x + 0.0, lambda x, y: x),
    "0 - x": (lambda x, y: 0.0 - x, lambda x, y: -x),
    "1 x": (lambda x, y: 1.0 * x, lambda x, y: x),
    "-1 x": (lambda x, y: x * -1.0, lambda x, y: -x),
    "x / 1": (lambda x, y: x / 1, lambda x, y: x),
    "-(-x)": (lambda x, y: neg(-x), lambda x, y: x),
    "x + (-y)": (lambda x, y: x + -y, lambda x, y: x - y),
    "(-x) + y": (lambda x, y: -x + y, lambda x, y: y - x),
    "x - (-y)": (lambda x, y: x - -y, lambda x, y: x + y),
    "(-x) - y": (lambda x, y: -x - y, lambda x, y: -(x + y)),
    "(-x) y": (lambda x, y: -x * y, lambda x, y: -(x * y)),
    "x / (-y)": (lambda x, y: x / -y, lambda x, y: -(x / y)),
    "y x": (lambda x, y: x * y - y * x + x, lambda x, y: x),
    "x^3": (lambda x, y: x**3, lambda x, y: x * x * x),
    "x^-2": (lambda x, y: x**-2, lambda x, y: 1.0 / (x * x)),
    "x^0.5": (lambda x, y: x**0.5, lambda x, y: ops.sqrt(x)),
    "c ? x : x": (lambda x, y: ops.where(y < 0.0, x, x), lambda x, y: x),
    "true and c": (lambda x, y: ops.where(ops.logical_and(True, y < 0.0), x, y), lambda x, y: ops.where(y < 0.0, x, y)),
    "true or c": (lambda x, y: ops.where(ops.logical_or(y < 0.0, True), x, y), lambda x, y: x),
}


@pytest.mark.parametrize("fold", FOLDS)
def test_folds(fold):
    folded, expected = (trace_program(lambda x, y, f=f: ((f(x, y),),), 0.0, 0.0) for f in FOLDS[fold])
    assert folded == expected


@pytest.mark.parametrize("function", [lambda x: 0.0 * x, lambda x: 0.0 / x, lambda x: x * x - x * x])
def test_what_is_always_zero_is_a_constant(function):
    program = trace_program(lambda x: ((function(x),),), 0.0)
    assert program.instructions == (Instruction("constant", constant=0.0),)


def test_sums_are_not_reordered():
    """(y - x) + x rounds, so it is not y."""
    program = trace_program(lambda x, y: ((y - x + x,),), 0.0, 0.0)
    assert [instruction.operation for instruction in program.instructions[-2:]] == ["subtract", "add"]


def test_constant_factors_combine_for_fast_arithmetic():
    """2 (3 (x 5)) is 30 x; 3 (x 5) is 15 x where it is used as well; x y keeps its product."""

    def products(x, y):
        return ((2.0 * (3.0 * (x * 5.0)), 3.0 * (x * 5.0), 0.5 * (x * y)),)

    combined = combine_factors(trace_program(products, 0.0, 0.0))
    assert tuple(evaluate_program(combined, [[7.0], [4.0]])[0]) == products(7.0, 4.0)[0]
    assert [i.constant for i in combined.instructions if i.operation == "constant"] == [15.0, 30.0, 0.5]
    assert sum(i.operation == "multiply" for i in combined.instructions) == 4
