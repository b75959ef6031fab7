"""Numbers that differ from lane to lane: what is written down of one lane, played for all, is what Python computes for each."""

import math

import numpy as np
import pytest

from samara.core import ops
from samara.core.number import Number, plain
from samara.core.number_tape import Tape, UnlikeLanesError, numbers_array, rounded
from samara.core.portable_linalg import product, solve

LANES = np.array([[0.3, 0.7, 1.9], [2.1, 0.4, 5.5]])


def computed(a, b):
    """Something of every operation"""
    some = [a + b, a - b, a * b, a / b, -a, abs(a - 1.0), 3.0 - a, 2.0 / b, 1 + a, a**2, b**0.3, 2.0**a, a - 0.5]
    some += [
        ops.sqrt(a),
        ops.sin(a),
        ops.cos(b),
        ops.tan(a),
        ops.exp(a),
        ops.log(b),
        ops.atan2(a, b),
        ops.floor(3.0 * b),
    ]
    some += [ops.asin(0.1 * a), ops.acos(0.1 * b), ops.atan(a), ops.power(b, a), rounded(a / 3.0)]
    some += [ops.minimum(a, b), ops.maximum(a, b), ops.minimum(1.0, a), ops.maximum(b, 1.0), ops.clamp(a, 0.5, 1.0)]
    return some


def noted(function, values):
    tape = Tape()
    return tape, function(*tape.inputs(values))


def test_what_is_played_is_what_python_computes_bit_for_bit():
    tape, numbers = noted(computed, LANES[:, 0].tolist())
    tape.feed(LANES)
    columns = tape.columns(numbers)
    for lane in range(3):
        alone = np.array(computed(*LANES[:, lane].tolist()))
        assert columns[:, lane].tobytes() == alone.tobytes()
    assert [own.value for own in numbers] == columns[:, 0].tolist()


def test_linear_algebra_of_numbers_is_that_of_floats():
    """A⁻¹ b and A b, b of numbers"""
    matrix = np.array([[4.0, 1.0], [0.5, 3.0]])

    def answers(a, b):
        return [*solve(matrix, numbers_array([a, b])), *product(matrix, numbers_array([a, b]))]

    tape, numbers = noted(answers, LANES[:, 0].tolist())
    tape.feed(LANES)
    columns = tape.columns(numbers)
    for lane in range(3):
        assert columns[:, lane].tobytes() == np.array(answers(*LANES[:, lane].tolist())).tobytes()


@pytest.mark.parametrize(
    ("decide", "agree"),
    [
        (lambda a, b: a < b, [True, False, True]),
        (lambda a, b: a <= 0.3, [True, False, False]),
        (lambda a, b: a > 1.0, [True, True, False]),
        (lambda a, b: b <= 0.5, [True, False, True]),
        (lambda a, b: a == 0.3, [True, False, False]),
        (lambda a, b: a != 0.7, [True, False, True]),
        (lambda a, b: bool(a - 0.7), [True, False, True]),
        (lambda a, b: sorted([b, a])[0], [True, False, True]),
        (lambda a, b: 0.0 * (a - 0.5), [True, False, False]),
        (lambda a, b: 1.0 / (a - 0.7), [True, False, True]),
    ],
)
def test_lanes_that_decide_otherwise_than_the_probe_are_told(decide, agree):
    tape, _ = noted(decide, LANES[:, 0].tolist())
    assert tape.agreeing(tape.play(LANES)).tolist() == agree
    tape.feed(LANES)
    with pytest.raises(UnlikeLanesError):
        tape.columns(tape.numbers[:1])


def test_minimum_and_maximum_decide_nothing():
    tape, _ = noted(lambda a, b: (ops.minimum(a, b), ops.maximum(a, b)), LANES[:, 0].tolist())
    assert tape.agreeing(tape.play(LANES)).all()


def test_zero_times_a_number_is_a_float_of_its_sign():
    _, (right, left) = noted(lambda a, b: (0.0 * a, (-b) * 0.0), [1.0, 2.0])
    assert type(right) is type(left) is float
    assert (math.copysign(1.0, right), math.copysign(1.0, left)) == (1.0, -1.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 2.0, 0.5, math.inf])
def test_a_pinned_number_is_the_probes_where_that_is_a_literal_of_its_own_kind(value):
    tape = Tape()
    tape.pin(tape.inputs([value])[0])
    assert tape.agreeing(tape.play(np.array([[value, 0.3, value]]))).tolist() == [True, False, True]
    other = Tape()
    other.pin(other.inputs([0.3])[0])
    assert other.agreeing(other.play(np.array([[value, 0.3, 0.4]]))).tolist() == [False, True, True]


def test_a_number_never_becomes_a_float_by_itself():
    _, (number,) = noted(lambda a: (a,), [1.5])
    for refused in (float, math.sqrt, lambda x: np.array([x], dtype=float), lambda x: x + "1"):
        with pytest.raises(TypeError):
            refused(number)
    assert plain(number) is number
    assert type(plain(np.float64(2.0))) is float
    assert numbers_array([number, 1.0]).dtype == object
    assert numbers_array([1, 2]).dtype == float


def test_what_is_decided_is_what_the_probe_is():
    _, (number,) = noted(lambda a: (a,), [1.5])
    assert [number == 1.5, number != 1.5, number != 2.0, number < 2.0, number >= 2.0, bool(number)] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]


def test_numbers_of_two_tapes_do_not_mix():
    (a,), (b,) = Tape().inputs([1.5]), Tape().inputs([2.5])
    with pytest.raises(TypeError, match="two tapes"):
        a + b


def test_the_same_step_is_taken_once_and_numbers_are_told_by_themselves():
    tape, (one, again, other) = noted(lambda a, b: (a * b, a * b, b * a), [1.5, 2.5])
    assert one is again
    assert one is not other
    assert len({one, again, other}) == 2
    assert isinstance(one, Number)
    assert repr(one) == "3.75"
    assert len(tape.numbers) == 4


def test_as_many_inputs_as_the_tape_has():
    tape, _ = noted(lambda a, b: a + b, [1.0, 2.0])
    with pytest.raises(ValueError, match="1 inputs; expected 2"):
        tape.play(np.zeros((1, 3)))
