"""One code for drones that differ in numbers alone: what differs is read from memory, a column for each lane.

    code = in_lanes(_pilot_code, [(controller, vehicle), (other_controller, other_vehicle)])
    code.machine(2)

Every lane's function is traced by itself, so its numbers are folded as in a flight of its own. Where all these programs are
the same but for constants, one is compiled in which those are inputs: the same operations on the same numbers, and so the same
bits. A number that is 0 or 1 in some lanes only makes another program of theirs (0·x is dropped): `UnlikeError` tells which.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.numbered import HELD, NumberedStep, has_numbers, parts, tagged_numbers
from samara.compiler.trace.casadi_scalar import TAGS
from samara.compiler.trace.program import Guarded, Instruction, Program

CODES = 64  # of lanes that are kept


class UnlikeError(ValueError):
    """Lanes that no single code can do: `classes` are those that may be alike, as tuples of lanes."""

    def __init__(self, kinds: Sequence[Hashable]) -> None:
        by_kind: dict[Hashable, list[int]] = {}
        for lane, kind in enumerate(kinds):
            by_kind.setdefault(kind, []).append(lane)
        self.classes = tuple(map(tuple, by_kind.values()))
        super().__init__(f"{len(self.classes)} kinds of drones in {len(kinds)} lanes; expected one")


def require_equal(lanes: Sequence[Hashable]) -> None:
    """The same in all lanes, for what only one at a time can do"""
    if any(own != lanes[0] for own in lanes[1:]):
        raise UnlikeError(lanes)


class LanedStep(CompiledStep):
    """The codes of several lanes as one; `machine(n)` has the lanes' numbers in its columns, over and over where n is more."""

    def __init__(self, codes: Iterable[CompiledStep]) -> None:
        """`codes` are made one after the other and not kept: they are large"""
        waiting = iter(codes)
        first = next(waiting)
        self.given, self._options, carry = first.given, first._options, first._start[0]
        whole, self._numbers = joined((code._program for code in chain((first,), waiting)), self.given)
        self._program, self.instructions, self.skip = whole, first.instructions, first.skip
        self._start = [carry, np.concatenate([first._start[1], np.zeros(len(self._numbers))])]
        self._kernels = _kernels(whole, len(carry), len(self._start[1]), self._options)

    def memory(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """What `CompiledStep` starts with, and below it the numbers of each lane"""
        carry, held = super().memory(n)
        held[self.given :] = self._numbers[:, np.arange(n) % self._numbers.shape[1]]
        return carry, held


@lru_cache(maxsize=CODES)
def _kernels(program: Program | Guarded, carry: int, held: int, options: tuple[Any, ...]) -> dict[Any, Any]:
    """Where the machine code of equal programs is kept: batches that differ in numbers share it"""
    return {}


def in_lanes(build: Callable[..., Any], lanes: Sequence[tuple[Any, ...]]) -> Any:
    """build(*lane) where all are the same; else one code for all of them"""
    if all(own == lanes[0] for own in lanes[1:]):
        return with_numbers(build, lanes[0])
    return _laned(build, tuple(lanes))


def with_numbers(build: Callable[..., Any], lane: tuple[Any, ...]) -> Any:
    """build(*lane); where it has Numbers, the code of the lanes that are fed to their tape"""
    code = build(*lane)
    return _numbered(code, build, lane) if TAGS and isinstance(code, CompiledStep) else code


@lru_cache(maxsize=CODES)
def _numbered(code: CompiledStep, build: Callable[..., Any], lane: tuple[Any, ...]) -> CompiledStep:
    if not (has_numbers(lane) and tagged_numbers(code._program)):
        return code
    own = NumberedStep(code, _kernels)
    own.tape.codes.append((build, lane, own))
    return own


@lru_cache(maxsize=CODES)
def _laned(build: Callable[..., Any], lanes: tuple[tuple[Any, ...], ...]) -> LanedStep:
    return LanedStep(build(*own) for own in lanes)


def joined(programs: Iterable[Program | Guarded], held: int) -> tuple[Program | Guarded, np.ndarray]:
    """The program of all lanes, and the numbers (k, lanes) that it reads from the held ones number `held` on"""
    known: dict[Hashable, int] = {}
    first: tuple[Program, ...] = ()
    kinds, constants = [], []
    for program in programs:
        whole_of = parts(program)
        first = first or whole_of
        kinds.append(known.setdefault(_kind(whole_of), len(known)))
        constants.append([np.array([each.constant for each in own.instructions]) for own in whole_of])
    if len(known) > 1:
        raise UnlikeError(kinds)
    rows: dict[bytes, int] = {}
    numbers: list[np.ndarray] = []
    whole = []
    for own, of_lanes in zip(first, zip(*constants, strict=True), strict=True):
        columns, instructions = np.array(of_lanes).T.copy(), list(own.instructions)
        bits = columns.view(np.int64)
        for at in np.flatnonzero((bits != bits[:, :1]).any(axis=1)):
            key = columns[at].tobytes()
            if key not in rows:
                rows[key] = held + len(numbers)
                numbers.append(columns[at])
            instructions[at] = Instruction("input", place=(HELD, rows[key]))
        whole.append(Program(tuple(instructions), own.outputs))
    return whole[0] if len(whole) == 1 else Guarded(*whole), np.array(numbers).reshape(len(numbers), len(kinds))


def _kind(programs: tuple[Program, ...]) -> Hashable:
    """All of a program but its numbers; exponents are part of it, since each has code of its own"""
    found = []
    for own in programs:
        exponents = {each.arguments[1] for each in own.instructions if each.operation == "power"}
        shape = tuple(
            each if k in exponents or each.operation != "constant" else each.operation
            for k, each in enumerate(own.instructions)
        )
        found.append((shape, own.outputs))
    return tuple(found)
