"""One function of time for the tasks of many flights: what differs between them are its arguments, the rest is folded in."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.trace.tape_scalar import played, taped
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.reference import Reference
from samara.plan.trajectory import Trajectory


class ReferenceUnit(NamedTuple):
    """`update(time, goal)` is what is asked, so long after the task began [s]; `goals` are (flights, numbers)."""

    update: Callable[[Any, Sequence[Any]], Reference]
    goals: Array


def reference_unit(tasks: Sequence[Trajectory]) -> ReferenceUnit:
    """The tasks of one kind, one for each flight, as a pure function of scalars of any backend

    A flight's goal enters through its task: make each with its own places and speeds (`hover(p)`, `transfer(…)`), or move one
    trajectory about (`moved`), which is traced only once, and hand over all of them. The numbers in which they differ are
    columns of `goals`, each once, and those which all share are literals, which a trace folds:

        unit = reference_unit([hover((x, 0.0, 1.0)) for x in places])
        reference = unit.update(time, tuple(unit.goals[i]))      # or a column of all flights for each number, in a batch

    ValueError where the tasks differ in more than their numbers, such as how many waypoints they have; TypeError or
    OverflowError for one that cannot be traced (see `samara.compiler.trace.tape_scalar.taped`).
    """
    shapes = {id(task.reference): task for task in tasks}  # tasks that were moved share a function
    tapes = {key: taped(task.reference) for key, task in shapes.items()}
    kinds = {tapes[key][0]: task.name for key, task in shapes.items()}
    if len(kinds) != 1:
        raise ValueError(f"tasks of {len(kinds)} kinds ({', '.join(kinds.values())}); expected one, with other numbers")
    (program,) = kinds
    every = np.array([(*task.shift_W, *tapes[id(task.reference)][1]) for task in tasks])
    differ = np.flatnonzero((every != every[0]).any(axis=0))
    goals, column = np.unique(every[:, differ], axis=1, return_inverse=True)
    place = dict(zip(differ.tolist(), column.reshape(-1).tolist(), strict=True))
    shared = every[0].tolist()
    stays = not any(shared[:3]) and not any(i in place for i in range(3))

    def update(time: Any, goal: Sequence[Any]) -> Reference:
        numbers = [goal[place[i]] if i in place else own for i, own in enumerate(shared)]
        asked: Reference = unflatten(Reference(ZERO), iter(played(program, time, numbers[3:])))
        return asked if stays else asked._replace(p_W=asked.p_W + Vec3(*numbers[:3]))

    return ReferenceUnit(update, goals)
