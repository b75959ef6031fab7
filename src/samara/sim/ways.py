"""Flights whose numbers differ, computed once for all that take the same way.

A function is called with `Number`s, as in one flight, the probe; what it gives is then played for all flights that decide as
the probe does (`samara.core.number_tape`). Those that do not have a way, and a probe, of their own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.core.number import Number
from samara.core.number_tape import Tape, UnlikeLanesError
from samara.core.tree import flatten
from samara.core.types import Array

AT_ONCE = 1024  # flights that are played at a time: their numbers stay in the cache
MOST = 8  # ways, before each flight is computed by itself


class Way(NamedTuple):
    """A tape, and what the function gave of its numbers."""

    tape: Tape
    given: Any

    def takes(self, inputs: Array) -> Array:
        """Which of the lanes of inputs (count, n) go this way"""
        if not len(inputs):
            return np.ones(inputs.shape[1], dtype=bool)
        blocks = [inputs[:, k : k + AT_ONCE] for k in range(0, inputs.shape[1], AT_ONCE)]
        return np.concatenate([self.tape.agreeing(self.tape.play(own)) for own in blocks])

    def leaves(self, inputs: Array) -> Array:
        """What was given, leaf by leaf, for lanes that go this way: (leaves, n)"""
        self.tape.feed(inputs)
        found = flatten(self.given)
        columns = np.empty((len(found), inputs.shape[1]))
        numbers = [k for k, own in enumerate(found) if type(own) is Number]
        columns[:] = np.array([0.0 if type(own) is Number else own for own in found])[:, None]
        if numbers:
            columns[numbers] = self.tape.columns([found[k] for k in numbers])
        return columns


def way_of(function: Callable[[tuple[Number, ...], Tape], Any], probe: Array) -> Way:
    """The way that a flight takes; `function(numbers, tape)` has their tape too"""
    tape = Tape()
    tape.feed(probe[:, None])
    return Way(tape, function(tape.inputs(probe.tolist()), tape))


def ways_of(
    function: Callable[[tuple[Number, ...], Tape], Any], inputs: Array, ways: list[Way]
) -> tuple[list[tuple[Way, Array]], Array]:
    """Each way with its flights, of inputs (count, n), and the flights that are left; `ways` are known, and found ones added"""
    found, left = [], np.arange(inputs.shape[1])
    for way in ways:
        if len(left):
            takes = way.takes(inputs[:, left])
            found.append((way, left[takes]))
            left = left[~takes]
    while len(left) and len(ways) < MOST:
        try:
            way = way_of(function, inputs[:, left[0]])
            takes = way.takes(inputs[:, left])
        except (TypeError, UnlikeLanesError):  # something in it needs floats
            break
        if not takes[0]:
            break
        ways.append(way)
        found.append((way, left[takes]))
        left = left[~takes]
    return [(way, own) for way, own in found if len(own)], left
