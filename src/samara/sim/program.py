"""The stages of a flight that are arithmetic, linked with the physics between them: one program for every group of drones.

A stage gives its operations for a group (`Stage.operations`), or none: then Python runs it at its instants. The operations of
all stages, in their order, are walked through by one loop in machine code (`samara.backends.llvm_schedule`), from one instant
at which Python is needed to the next. Whoever steps from instant to instant walks the same operations, one row at a time.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import DONE, ROW, Memory, Operation, Walk
from samara.backends.threads import CORES, side_by_side
from samara.scenario.timeline import MICROSECONDS
from samara.sim.calendar import Span
from samara.sim.group import Group
from samara.sim.tiles import tiles_of

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
        self.tiles = tiles_of(self._n, fleet.precision.dtype)
        self._walks = {wide: Walk(tuple(operations), wide, self.memory) for _, wide in self.tiles}

    def run(self, span: Span, start: Position, end: Position, tile: tuple[int, int], *, briefly: bool) -> Position:
        """One tile from a position to before another: how far it came, which is not the end where an operation stopped it"""
        lane, width = tile
        first, until = ((own.row, self.begins[own.stage]) for own in (start, end))
        stopped = self._walks[width].run(span.address, first, until, lane, self._n, briefly=briefly)
        if stopped == DONE:
            return end
        row, operation = divmod(stopped, self.begins[-1])
        return Position(row, int(np.searchsorted(self.begins, operation, side="right")))


def walk(programs: Sequence[Program], span: Span, start: Position, end: Position) -> Position:
    """All groups from a position to before another; or only past the stage of the first operation that stopped one

    Nobody is then past it: a stage may stop the program only where a single tile flies.
    """
    parts = [(program, tile) for program in programs for tile in program.tiles]
    for program in programs:
        program.memory.fill()
    if len(parts) * (end.row - start.row + 1) < BRIEF or len(parts) == 1:
        reached = [program.run(span, start, end, tile, briefly=True) for program, tile in parts]
    else:
        reached = []

        def through(own: "Sequence[tuple[Program, tuple[int, int]]]") -> None:
            reached.extend([program.run(span, start, end, tile, briefly=False) for program, tile in own])

        cuts = pairwise(len(parts) * k // CORES for k in range(CORES + 1))
        side_by_side([partial(through, parts[first:last]) for first, last in cuts])
    for program in programs:
        program.memory.give_back()
    return min(reached, default=end)


def run_once(operations: Sequence[Operation], n: int, time_us: int, due: int) -> None:
    """Operations by themselves on n drones, at one instant"""
    row = np.zeros((1, len(ROW)), dtype=np.int64)
    row[0, ROW.index("time_us")], row[0, ROW.index("due")] = time_us, due
    row.view(np.float64)[0, ROW.index("time")] = time_us / MICROSECONDS
    for lane, width in tiles_of(n):
        own = Walk(tuple(operations), width, Memory())
        own.run(row.ctypes.data, (0, 0), (0, len(operations)), lane, n, briefly=True)
