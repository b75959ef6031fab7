"""One code for lanes whose numbers differ: the computation of each lane's own trace, and lanes of which it is not are told."""

import random

import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.lanes import in_lanes
from samara.compiler.numbered import NumberedStep, in_lane
from samara.core import ops
from samara.core.algebra import Vec3
from samara.core.number_tape import Tape, UnlikeLanesError

LANES = np.array([[0.3, 0.7, 1.9, 0.31], [2.1, 0.4, 5.5, -3.0]])


def code_for(function):
    """`build(a, b)` for in_lanes: x ← function(x, y, a, b)"""

    def build(a, b):
        return CompiledStep(lambda own, held: (function(own[0], held[0], a, b),), (0.0,), (0.0,))

    return build


def run(code, n):
    machine = code.machine(n)
    machine.carry[0], machine.held[0] = np.linspace(-1.3, 2.7, n), np.linspace(0.4, 1.1, n)
    machine.run()
    return machine.carry[0].copy()


def numbered(function, lanes=LANES):
    tape = Tape()
    a, b = tape.inputs(lanes[:, 0].tolist())
    tape.feed(lanes)
    return tape, in_lanes(code_for(function), [(a, b)])


FUNCTIONS = {
    "products in a row": lambda x, y, a, b: 2.0 * (a * (b * x)) + a * (3.0 * (b * (-y))),
    "twice": lambda x, y, a, b: a * (2.0 * x) - (b * x) * 2.0 + (x / a) * b,
    "sums": lambda x, y, a, b: (a + x) - (b + y) + a / b + (x - a) * (y - b),
    "folded": lambda x, y, a, b: (a * b + 1.0) * x + ops.sqrt(a * a + 1.0) / (y * a) - (-b) * (1.0 / y),
    "choices": lambda x, y, a, b: ops.where(x > a, a, y) + ops.clamp(x, -a, a) + ops.where(y < b, b, a),
    "powers": lambda x, y, a, b: (a * x) * (a * x) + x**2 * b + ops.absolute(a - x),
    "zero and one": lambda x, y, a, b: x * 1.0 + 0.0 * a + ((a - b) + b) * x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_lane_has_the_bits_of_its_own_trace(name):
    function = FUNCTIONS[name]
    _, code = numbered(function)
    assert isinstance(code, NumberedStep)
    together = run(code, LANES.shape[1])
    for lane, (a, b) in enumerate(LANES.T.tolist()):
        own = code_for(function)(a, b)
        assert not code.differs(own._program, lane)
        assert run(own, LANES.shape[1])[lane] == together[lane]


def test_a_code_that_is_another_is_told():
    _, code = numbered(lambda x, y, a, b: a * x + b)
    assert code.differs(code_for(lambda x, y, a, b: a * x - b)(0.3, 2.1)._program, 0)
    assert code.differs(code_for(lambda x, y, a, b: a * x + b)(0.3, 2.1)._program, 1)


@pytest.mark.parametrize(
    ("function", "lane"),
    [
        (lambda x, y, a, b: a * x, [0.0, 1.0]),  # 0·x is dropped
        (lambda x, y, a, b: a * x, [1.0, 1.0]),
        (lambda x, y, a, b: (a + b) * x, [-2.0, 2.0]),
        (lambda x, y, a, b: a * x - b * x, [0.6, 0.6]),  # 0
        (lambda x, y, a, b: (a * x) / (b * x), [0.6, 0.6]),  # 1
        (lambda x, y, a, b: (x - a) + b, [0.6, 0.6]),  # x
        (lambda x, y, a, b: a * (x / b), [0.6, 0.6]),  # x
        (lambda x, y, a, b: (x / a) / b, [0.25, 4.0]),  # x
        (lambda x, y, a, b: ops.where(a < b, x, y), [0.7, 0.6]),
    ],
)
def test_lanes_of_which_a_trace_is_another_are_told(function, lane):
    """What CasADi makes shorter in one lane alone: the tape does not agree with it, and the code may not run it"""
    lanes = np.array([[0.3, lane[0]], [2.1, lane[1]]])
    tape, _ = numbered(function, lanes[:, :1])
    assert tape.agreeing(tape.play(lanes)).tolist() == [True, False]
    tape.feed(lanes)
    with pytest.raises(UnlikeLanesError):
        tape.columns([])


def test_a_probe_whose_numbers_coincide_is_refused():
    with pytest.raises(UnlikeLanesError, match="coincide"):
        numbered(lambda x, y, a, b: a * x - b * x, np.array([[0.6], [0.6]]))


def test_equal_numbers_elsewhere_are_the_same_arithmetic():
    """a x + b y with a = b shares a literal in a lane's own trace, and nothing else"""
    lanes = np.array([[0.3, 0.6], [2.1, 0.6]])
    _, code = numbered(lambda x, y, a, b: a * x + b * y, lanes)
    assert not code.differs(code_for(lambda x, y, a, b: a * x + b * y)(0.6, 0.6)._program, 1)


def test_what_cannot_be_one_code_is_a_type_error():
    with pytest.raises(TypeError):
        numbered(lambda x, y, a, b: x**a)
    with pytest.raises(TypeError):
        numbered(lambda x, y, a, b: float(a) * x)


def test_a_record_in_one_lane_has_its_floats():
    tape = Tape()
    a, b = tape.inputs(LANES[:, 0].tolist())
    tape.feed(LANES)
    record = (Vec3(a, 1.0, a * b), (b, "name"))
    assert in_lane(record, tape, 2) == (Vec3(1.9, 1.0, 1.9 * 5.5), (5.5, "name"))


def test_what_casadi_has_folded_by_itself_is_refused():
    """b x + b x is (2 b) x, with a literal that nobody wrote down"""
    with pytest.raises(UnlikeLanesError, match="has made of numbers"):
        numbered(lambda x, y, a, b: (b * x) + (b * x))


def test_a_code_without_numbers_is_left_alone_be_its_literals_what_they_are():
    numbered(lambda x, y, a, b: a * x)
    code = in_lanes(code_for(lambda x, y, a, b: a * x + b), [(1e-70, 1e80)])
    assert not isinstance(code, NumberedStep)
    assert run(code, 1)[0] == 1e-70 * -1.3 + 1e80


def random_tree(draw, depth):
    """An expression of x, y, a, b and literals, as nested tuples"""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(["x", "y", "a", "b", 0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 0.2, 5.0])
    operation = draw.choice(["+", "-", "*", "/", "*", "neg", "sqrt", "where", "max", "square"])
    count = {"neg": 1, "sqrt": 1, "square": 1, "where": 4}.get(operation, 2)
    return (operation, *(random_tree(draw, depth - 1) for _ in range(count)))


def evaluated(tree, names):
    if not isinstance(tree, tuple):
        return names.get(tree, tree)
    own = [evaluated(each, names) for each in tree[1:]]
    return {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "neg": lambda a: -a,
        "sqrt": ops.safe_sqrt,
        "where": lambda a, b, c, d: ops.where(a < b, c, d),
        "max": ops.maximum,
        "square": lambda a: a * a,
    }[tree[0]](*own)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_expressions_have_the_bits_of_every_lanes_own_trace(first):
    """All lanes that agree with the probe, of numbers among which 0, 1, equal ones and reciprocals are frequent"""
    compared = 0
    for seed in range(first, first + 50):
        draw = random.Random(seed)
        tree = random_tree(draw, 4)
        lanes = np.array(
            [[draw.choice([0.3, 0.7, -0.4, 0.25, 4.0, 2.0, 1.0, 0.0, 5.0, 0.2]) for _ in range(6)] for _ in "ab"]
        )

        def function(x, y, a, b, tree=tree):
            return evaluated(tree, {"x": x, "y": y, "a": a, "b": b})

        try:
            tape, code = numbered(function, lanes[:, :1])
        except (UnlikeLanesError, ZeroDivisionError):
            continue
        agree = np.flatnonzero(tape.agreeing(tape.play(lanes)))
        if not isinstance(code, NumberedStep):
            continue
        tape.feed(lanes[:, agree])
        for k, lane in enumerate(agree):
            assert not code.differs(code_for(function)(*lanes[:, lane].tolist())._program, k), (seed, lanes[:, lane])
            compared += 1
    assert compared > 20
