"""The stages of a flight that are arithmetic, linked with the physics between them: one program for every group of drones.

A stage gives its operations for a group (`Stage.operations`), or none: then Python runs it at its instants. The operations of
all stages, in their order, are walked through by one loop in machine code (`samara.backends.llvm_schedule`), from one instant
at which Python is needed to the next. Whoever steps from instant to instant walks the same operations, one row at a time.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import DONE, ROW, Memory, Operation, Walk
from samara.backends.threads import side_by_side, threads_at_most
from samara.scenario.timeline import MICROSECONDS
from samara.sim.calendar import Span
from samara.sim.group import Group
from samara.sim.tiles import Part, parts_of

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.stage import Stage

BRIEF = 64  # rows × tiles: not worth giving the interpreter lock away for, nor another thread


class Position(NamedTuple):
    """A row of a span and a stage of the line: all rows before it are done, and of it all stages before that one."""

    row: int
    stage: int

    @property
    def after(self) -> "Position":
        """Past this stage"""
        return Position(self.row, self.stage + 1)


class Program:
    """All operations of one group, in the order of the stages; and which of the stages have none there."""

    def __init__(self, fleet: "Fleet", group: Group, stages: "Sequence[Stage]") -> None:
        operations: list[Operation] = []
        self.python, self.begins = [], [0]
        for stage in stages:
            own = stage.operations(fleet, group)
            if own is None:
                self.python.append(stage)
            operations += own or ()
            self.begins.append(len(operations))
        self._n, self.memory = len(group.drones), Memory(fleet.precision)
        self.parts = parts_of(self._n, fleet.precision.dtype)
        self._walks = {part.width: Walk(tuple(operations), part.width, self.memory) for part in self.parts}

    def run(
        self, span: Span, start: Position, end: Position, part: Part, *, briefly: bool, shared: int = 0
    ) -> Position:
        """Some tiles from a position to before another: how far they came, not to the end where an operation stopped one"""
        first, until = ((own.row, self.begins[own.stage]) for own in (start, end))
        lanes = part.first, part.last
        stopped = self._walks[part.width].run(
            span.address, first, until, lanes, self._n, briefly=briefly, shared=shared
        )
        if stopped == DONE:
            return end
        row, operation = divmod(stopped, self.begins[-1])
        return Position(row, int(np.searchsorted(self.begins, operation, side="right")))


def walk(programs: Sequence[Program], span: Span, start: Position, end: Position) -> Position:
    """All groups from a position to before another; or only past the stage of the first operation that stopped one

    Nobody is then past it: a stage may stop the program only where a single tile flies.
    """
    parts = [(program, part) for program in programs for part in program.parts]
    for program in programs:
        program.memory.fill()
    if (tiles := sum(part.tiles for _, part in parts)) == 1 or tiles * (end.row - start.row + 1) < BRIEF:
        reached = [program.run(span, start, end, part, briefly=end.row - start.row < BRIEF) for program, part in parts]
    else:
        reached, cores = [], threads_at_most()
        shares = [(program, part.share(k, cores)) for k in range(cores) for program, part in parts]
        counters = np.array([part.first for _, part in shares], dtype=np.int64)  # the next tile of each share
        turns = [(*own, counters.ctypes.data + 8 * k) for k, own in enumerate(shares)]

        def through(first: int) -> None:  # its own share, then what is left of the others
            for program, part, shared in turns[first:] + turns[:first]:
                reached.append(program.run(span, start, end, part, briefly=False, shared=shared))

        side_by_side([partial(through, len(parts) * k) for k in range(cores)])
    for program in programs:
        program.memory.give_back()
    return min(reached, default=end)


def run_once(operations: Sequence[Operation], n: int, time_us: int, due: int) -> None:
    """Operations by themselves on n drones, at one instant"""
    row = np.zeros((1, len(ROW)), dtype=np.int64)
    row[0, ROW.index("time_us")], row[0, ROW.index("due")] = time_us, due
    row.view(np.float64)[0, ROW.index("time")] = time_us / MICROSECONDS
    for first, last, width in parts_of(n):
        own = Walk(tuple(operations), width, Memory())
        own.run(row.ctypes.data, (0, 0), (0, len(operations)), (first, last), n, briefly=True)
