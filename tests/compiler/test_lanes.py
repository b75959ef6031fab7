"""Functions that differ in numbers alone, as one code: every lane has the bits it has alone."""

import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.lanes import LanedStep, UnlikeError, in_lanes, joined
from samara.core.ops import sin, where


def spring(stiffness, mass):
    """v̇ = −(k/m) sin x, one step of Euler"""
    return CompiledStep(
        lambda own, held: (own[0] + held * own[1], own[1] - held * (stiffness / mass * sin(own[0]))),
        (0.1, 0.0),
        0.01,
    )


def test_every_lane_has_the_bits_it_has_alone():
    lanes = [(3.1 + 0.7 * k, 0.37 + 0.11 * k) for k in range(8)]
    machine = in_lanes(spring, lanes).machine(8)
    assert machine.held.shape == (1, 8)  # the numbers of the lanes are not for others to write to
    machine.run(100)
    for k, own in enumerate(lanes):
        alone = spring(*own).machine()
        alone.run(100)
        assert machine.carry[:, k].tobytes() == alone.carry[:, 0].tobytes()
    assert len(np.unique(machine.carry[0])) == 8


def test_batches_with_other_numbers_share_one_code():
    first, second = (LanedStep([spring(k, m) for k in (3.3, 4.4)]) for m in (0.7, 0.9))
    first.machine(2)
    assert second._kernels is first._kernels
    assert second._kernels


def test_lanes_that_are_equal_have_the_code_of_one():
    code = spring(3.0, 0.5)
    assert in_lanes(lambda own: own, [(code,), (code,)]) is code


def test_a_number_that_is_one_in_some_lanes_tells_them_apart():
    with pytest.raises(UnlikeError) as apart:
        in_lanes(spring, [(2.3, 0.7), (0.7, 0.7), (2.3, 0.9), (0.9, 0.9)])
    assert apart.value.classes == ((0, 2), (1, 3))


def test_exponents_are_part_of_a_program():
    programs = [CompiledStep(lambda own, held, e=e: held**e, 0.0, 1.0)._program for e in (1.5, 2.5)]
    with pytest.raises(UnlikeError):
        joined(programs, 1)


def test_a_number_that_several_places_share_is_read_once():
    programs = [
        CompiledStep(lambda own, held, c=c: where(held > c, held * c, held - c), 0.0, 1.0)._program for c in (0.3, 0.4)
    ]
    _, numbers = joined(programs, 1)
    np.testing.assert_array_equal(numbers, [[0.3, 0.4]])
