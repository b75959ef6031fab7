"""What Python computes with numbers that differ from lane to lane: written down for one lane, and played for all.

    tape = Tape()
    mass = tape.inputs([0.03])[0]           # a Number: as in the first lane, the probe
    weight = mass * 9.81                    # a Number as well: its value, and how it follows from the inputs
    tape.play(np.array([[0.03, 0.04]]))     # every number of the tape in all lanes, by the same operations in the same order

Code that is run with such numbers takes the way of the probe. Each decision on the way is written down too: `agreeing` tells
the lanes that would have taken the same.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from samara.core.number import DISTINCT, Number, is_distinct, value_of
from samara.core.tree import flatten, unflatten
from samara.core.types import Array

Ref = int | float  # an earlier result by its place, or a literal


class UnlikeLanesError(ValueError):
    """Lanes that do not take the way of the tape's probe"""


# What a step does, of floats as Python does it, and of arrays with the same bits -------------------------------------------


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """Of arrays one number after the other: NumPy's own differ by processor"""

    def of_arrays(*operands: Any) -> Any:
        if not any(isinstance(own, np.ndarray) for own in operands):
            return function(*operands)
        columns = [own.tolist() for own in np.broadcast_arrays(*operands)]
        return np.array([_or_nan(function, *own) for own in zip(*columns, strict=True)])

    return of_arrays


def _or_nan(function: Callable[..., float], *operands: Any) -> float:
    try:
        return function(*operands)
    except (ValueError, OverflowError, ZeroDivisionError):  # the lane is told by its not being finite
        return math.nan


def _choice(first: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def chosen(a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return np.where(first(a, b), a, b)
        return a if first(a, b) else b

    return chosen


def _sqrt(x: Any) -> Any:
    return np.sqrt(x) if isinstance(x, np.ndarray) else math.sqrt(x)


def _rounded(x: Any) -> Any:
    rounded = np.round(x, ROUNDED)
    return rounded if isinstance(x, np.ndarray) else float(rounded)


ROUNDED = 12  # digits after the point
REMEMBERED = 1 << 13  # lanes
ELEMENTARY = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log")
STEPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "absolute": abs,
    "sqrt": _sqrt,
    "power": _each(operator.pow),
    "floor": lambda x: x // 1.0,
    "minimum": _choice(operator.lt),
    "maximum": _choice(operator.gt),
    "rounded": _rounded,
    **{name: _each(getattr(math, name)) for name in ELEMENTARY},
}
DECISIONS: dict[str, Callable[..., Any]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "equal": operator.eq,
    "negative": lambda x: np.signbit(x),
    "alike": lambda *pairs: reduce(operator.and_, (a == b for a, b in zip(pairs[::2], pairs[1::2], strict=True))),
    "reciprocal": lambda a, b: a * b == 1.0,
}


class _InEachLane:
    """A function of floats, called once for each lane that comes, however many of its results are asked for, on any tape."""

    def __init__(self, name: Any, function: Callable[[list[float]], Sequence[float]]) -> None:
        self._function = function
        self._known = _known_of(name)

    def results(self, operands: Sequence[float]) -> Sequence[float]:
        key = tuple(operands)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._function(list(key))
        return found

    def part(self, k: int) -> Callable[..., Array]:
        """The k-th result in lanes of operands"""

        def in_lanes(*operands: Any) -> Array:
            columns = [own.tolist() for own in np.broadcast_arrays(*operands)]
            return np.array([_or_nan(self._result, k, own) for own in zip(*columns, strict=True)])

        return in_lanes

    def _result(self, k: int, operands: tuple[float, ...]) -> float:
        return float(self.results(operands)[k])


@lru_cache(maxsize=16)
def _known_of(name: Any) -> dict[tuple[float, ...], Sequence[float]]:
    """The results of the function of a name, by what it was given"""
    return {}


class _InAllLanes:
    """A function of floats or of arrays alike, called once for all lanes, however many of its results are asked for."""

    def __init__(self, function: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._function = function
        self._last: tuple[tuple[Any, ...], Sequence[Any]] = ((), ())

    def results(self, operands: Sequence[float]) -> Sequence[float]:
        return self._function(list(operands))

    def part(self, k: int) -> Callable[..., Array]:
        """The k-th result in lanes of operands"""

        def in_lanes(*operands: Any) -> Array:
            known, found = self._last
            if len(known) != len(operands) or any(a is not b for a, b in zip(known, operands, strict=True)):
                found = self._function(list(operands))
                self._last = operands, found
            lanes = next(own.shape for own in operands if isinstance(own, np.ndarray))
            return np.broadcast_to(np.asarray(found[k], dtype=float), lanes)

        return in_lanes


class Tape:
    """The steps from some inputs, in order, and what was decided by them."""

    def __init__(self) -> None:
        self.count = 0  # of inputs: the first results
        self.numbers: list[Number] = []
        self.tags: dict[int, float] = {}  # the literals that stand for them in traces, by their place
        self._steps: list[tuple[str | Callable[..., Any], tuple[Ref, ...]]] = []
        self._known: dict[tuple[Any, ...], Number] = {}
        self._decisions: dict[tuple[Any, ...], Any] = {}
        self.codes: list[Any] = []  # what was traced with its numbers
        self._fed: list[Array] = []
        self._checked, self._lanes = (0, 0), 0

    def inputs(self, values: Sequence[float]) -> tuple[Number, ...]:
        """Numbers to begin with, of the probe; all of them before any step"""
        assert not self._steps
        made = tuple(Number(float(value), self.count + k, self) for k, value in enumerate(values))
        self.numbers += made
        self.count += len(made)
        return made

    def note(self, operation: str, *operands: Any) -> Number:
        """One step more; one that was taken already is not taken again"""
        refs = tuple(self._ref(each) for each in operands)
        key = (operation, *((type(ref), ref.hex()) if type(ref) is float else ref for ref in refs))
        found = self._known.get(key)
        if found is None:
            value = STEPS[operation](*(value_of(each) for each in operands))
            found = self._known[key] = Number(float(value), len(self.numbers), self)
            self.numbers.append(found)
            self._steps.append((operation, refs))
        return found

    def called(
        self,
        name: Any,
        function: Callable[[list[Any]], Sequence[Any]],
        operands: Sequence[Any],
        *,
        of_arrays: bool = False,
    ) -> tuple[Number, ...]:
        """A function of floats that is called in each lane, known by its name; everywhere it gives as many results

        One `of_arrays` as well is called once for all lanes, and gives each what it gives its floats.
        """
        refs = tuple(self._ref(each) for each in operands)
        key = ("called", name, *((type(ref), ref.hex()) if type(ref) is float else ref for ref in refs))
        own = _InAllLanes(function) if of_arrays else _InEachLane(name, function)
        values = own.results([value_of(each) for each in operands])
        found = []
        for k, value in enumerate(values):
            if (*key, k) not in self._known:
                self._known[*key, k] = Number(float(value), len(self.numbers), self)
                self.numbers.append(self._known[*key, k])
                self._steps.append((own.part(k), refs))
            found.append(self._known[*key, k])
        return tuple(found)

    def decide(self, decision: str, *operands: Any) -> bool:
        """What is true of the probe, and must be of all lanes"""
        refs = tuple(self._ref(each) for each in operands)
        outcome = bool(DECISIONS[decision](*(value_of(each) for each in operands)))
        self._decisions[decision, *refs] = outcome
        return outcome

    def pin(self, number: Number) -> None:
        """Where the probe's is one of the distinct ones, so is every lane's; where it is none, no lane's is one"""
        self._decisions["pinned", number.at] = number.value if is_distinct(number.value) else None

    def _ref(self, x: Any) -> Ref:
        if type(x) is not Number:
            return float(x)
        if x.tape is not self:
            raise TypeError("numbers of two tapes in one operation")
        return x.at

    def play(self, inputs: Array) -> list[Array]:
        """Every number in all lanes, from inputs (count, lanes)"""
        results = list(np.asarray(inputs, dtype=float))
        if len(results) != self.count:
            raise ValueError(f"{len(results)} inputs; expected {self.count}")
        self._play_on(results)
        return results

    def _play_on(self, results: list[Array]) -> None:
        with np.errstate(all="ignore"):
            for operation, refs in self._steps[len(results) - self.count :]:
                step = operation if callable(operation) else STEPS[operation]
                results.append(step(*(results[ref] if type(ref) is int else ref for ref in refs)))

    def agreeing(self, results: list[Array]) -> Array:
        """Which lanes take the way of the probe, from what `play` gave"""
        finite = np.array([math.isfinite(number.value) for number in self.numbers])
        agree = (np.isfinite(np.array(results)) | ~finite[:, None]).all(axis=0)  # where Python raises, arrays go on
        with np.errstate(all="ignore"):
            for (decision, *refs), outcome in self._decisions.items():
                if decision == "pinned":
                    agree &= _pinned(results[refs[0]], outcome)
                else:
                    own = DECISIONS[decision](*(results[ref] if type(ref) is int else ref for ref in refs))
                    agree &= own == outcome
        return agree

    # The lanes that fly now ------------------------------------------------------------------------------------------

    def feed(self, inputs: Array) -> None:
        """From now on `columns` are of these lanes"""
        self._fed, self._checked, self._lanes = list(np.asarray(inputs, dtype=float)), (0, 0), np.shape(inputs)[1]

    def columns(self, numbers: Sequence[Number]) -> Array:
        """Some numbers in the lanes that were fed, (numbers, lanes); an error where a lane goes another way than the probe"""
        self._play_on(self._fed)
        known = len(self.numbers), len(self._decisions)
        if self._checked != known and self.numbers:
            if not self.agreeing(self._fed).all():
                raise UnlikeLanesError("lanes that do not take the way of their probe")
            self._checked = known
        return np.array([self._fed[own.at] for own in numbers]).reshape(len(numbers), self._lanes)


def _pinned(own: Array, value: float | None) -> Array:
    if value is None:
        return reduce(operator.and_, (own != each for each in DISTINCT))
    return np.asarray(own.view(np.int64) == np.float64(value).view(np.int64))


# For code that may get either ----------------------------------------------------------------------------------------------


def numbers_array(rows: Any) -> Array:
    """An array of floats; of objects where Numbers are among them"""
    found = np.array(rows)
    return found if found.dtype == object else found.astype(float)


def in_each_lane(name: Any, function: Callable[[Any], Any], tree: Any, *, of_arrays: bool = False) -> Any:
    """function(tree); where Numbers are among its leaves it is called with the floats of each lane

    For what finds its way by iterations and needs floats. Its result is a tree of numbers, of the same shape in every lane;
    where it raises, a lane has no way. Functions of one `name` are one function: it is called once for the same leaves. One
    `of_arrays` takes arrays of lanes where floats differ, a thousand times quicker than lane by lane, with the same bits.
    """
    leaves = flatten(tree)
    tape = next((own.tape for own in leaves if type(own) is Number), None)
    if tape is None:
        return function(tree)
    result = function(unflatten(tree, iter([value_of(own) for own in leaves])))

    def of_floats(values: list[float]) -> Sequence[float]:
        return flatten(function(unflatten(tree, iter(values))))

    return unflatten(result, iter(tape.called(name, of_floats, leaves, of_arrays=of_arrays)))


def rounded(x: Any) -> Any:
    """x to 12 digits after the point, as NumPy rounds it"""
    return x.tape.note("rounded", x) if type(x) is Number else float(np.round(x, ROUNDED))


# The operations of samara.core.ops, under the names it asks for ----------------------------------------------------------


def _operation(name: str) -> Callable[..., Any]:
    def noted(*operands: Any) -> Any:
        tape = next(each.tape for each in operands if type(each) is Number)
        return tape.note(name, *operands)

    return noted


sqrt, floor, sin, cos, tan, asin, acos, atan, exp, log, atan2, power, minimum, maximum = (
    _operation(name)
    for name in ("sqrt", "floor", *ELEMENTARY[:6], "exp", "log", "atan2", "power", "minimum", "maximum")
)


def equal(a: Any, b: Any) -> Any:
    return a == b
