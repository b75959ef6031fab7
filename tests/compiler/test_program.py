"""Machine code, Python and C compute what a traced program specifies: every operation on every other, including NaN."""

import ctypes
import math
import subprocess
from itertools import product
from operator import add, mul, sub, truediv

import casadi
import numpy as np
from support.c_compiler import STRICT, compiler

import samara
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.casadi_scalar import UNARY
from samara.compiler.trace.program import (
    CONDITIONS,
    OPERATIONS,
    Instruction,
    Program,
    program_from_expressions,
    trace_program,
)
from samara.compiler.trace.tape_scalar import evaluate_program
from samara.control.geometric import geometric
from samara.core import ops
from samara.core.algebra import Vec3
from samara.core.integrate import rk4
from samara.core.portable_math import ELEMENTARY
from samara.core.tree import flatten, unflatten
from samara.export.c_syntax import array, c_lines
from samara.physics.types import Reference

DEFINITIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negate": lambda a: -a,
    "square": lambda a: a * a,
    "twice": lambda a: a + a,
    "invert": lambda a: 1.0 / a,
    "power": np.power,
    "atan2": np.arctan2,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "not": lambda a: a == 0.0,
    "and": lambda a, b: a != 0.0 and b != 0.0,
    "or": lambda a, b: a != 0.0 or b != 0.0,
    "select": lambda c, a, b: a if c != 0.0 else b,
    "if_else_zero": lambda c, a: a if c != 0.0 else 0.0,
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
    assert set(DEFINITIONS) == {*OPERATIONS.values(), "select"}
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


def program_by_operators(function, *templates):
    """The program that CasADi's operators build from a function."""
    symbols = [casadi.SX.sym(f"x{k}", len(flatten(template))) for k, template in enumerate(templates)]
    arguments = [
        unflatten(template, iter(casadi.vertsplit(x) if x.numel() else []))
        for template, x in zip(templates, symbols, strict=True)
    ]
    return program_from_expressions(symbols, [casadi.vertcat(*flatten(result)) for result in function(*arguments)])


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


def test_a_trace_is_that_of_casadis_own_operators():
    """Instruction by instruction: of every operation, of a step with contact and a battery, and of a controller."""
    iris = samara.vehicle("iris")
    state, command = samara.hover(iris)

    def step(x, u):
        return (rk4(lambda x: samara.derivative(x, u, iris), x, 1e-3),)

    def control(x, target):
        return geometric(iris)(x, target, iris, ())

    for function, *templates in (
        (everything, Vec3(0.0, 0.0, 0.0), (0.0,)),
        (step, state, command),
        (control, state, Reference(Vec3(0.0, 0.0, 1.0))),
    ):
        assert trace_program(function, *templates) == program_by_operators(function, *templates)
