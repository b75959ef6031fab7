"""A stage of a flight: data, and one pure function of one drone's named tuples.

    def update(height: Scalar, *, home_altitude: float) -> tuple[Scalar]: ...

    parameters = (("home_altitude", 488.0),)
    Stage("density", "wind", update, ("state.p_W.z",), ("environment.air_density",), parameters)

A stage is independent of the drone count, of the storage of its values, and of whether Python, compiled code or a GPU runs it.
It reads and writes **slots**: named trees of scalars such as "state", "command", "environment" or "estimate", or a part of
one ("environment.wind_W"). "time" and "dt" [s] may be read as well. The executors (`samara.sim.executors`) allocate the
slots, call the stages that are due at each instant, in their order, and draw their random numbers.

Code that cannot be traced (a controller in Python, a socket) is a `PythonStage`, whose `update(fleet)` is called at its
instants:

    class Thermal(PythonStage):
        rate = "wind"

        def update(self, fleet):
            for group in fleet.groups:
                group.environment.wind_W[2] = np.exp(-(group.state.p_W[:2] ** 2).sum(axis=0))
            fleet.environment_changed = True

    samara.fly("hover", stages=lambda standard: insert(standard, Thermal(), after="wind"))
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from samara.core.quantity import Tree
from samara.core.tree import flatten

if TYPE_CHECKING:
    from samara.physics.types import State
    from samara.scenario.events import FlightSettings
    from samara.sim.fleet import Fleet
    from samara.sim.schedule import Span
    from samara.sim.setup import DroneSetup

EVERY_INSTANT, PHYSICS = "", "physics"
CLOCKS = ("scenario", "wind", "sensor", "estimator", "control", "log")
CLOCK_INPUTS = ("time", "dt")
"""Readable beside the slots: the flight time and the time since the stage's last update  [s]."""


class RandomInputs(NamedTuple):
    """Standard normals drawn at each update of a stage: the name of their source, and their count.

    `shared` marks those drawn once for all drones of a flight, with the index of drone 0; () shares none.
    """

    source: str
    size: int
    shared: tuple[bool, ...] = ()


class Stage(NamedTuple):
    """`update(*reads[, normals], **parameters) → writes`, at the ticks of a clock.

    `rate` names the clock ("scenario", "wind", "sensor", "estimator", "control", "log", "physics"); the stage is due at every
    `every`-th of its ticks, `delay` ticks late. Random numbers are counted by the clock's ticks. `initial_dt` is the dt of
    its first update, if it differs from the period. `skip_when(*reads)` is a condition under which `update` would change
    nothing. A stage that `interrupts` stops a compiled flight for the Python stage it belongs to when the last scalar it
    writes is not 0.

    Parameters are data: the vehicle, a sensor, a controller. Stages of equal parameters share their compiled code.
    """

    name: str
    rate: str
    update: Callable[..., Tree]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parameters: tuple[tuple[str, Tree], ...] = ()
    normals: RandomInputs | None = None
    skip_when: Callable[..., Tree] | None = None
    every: int = 1
    delay: int = 0
    initial_dt: float | None = None
    interrupts: bool = False

    def __call__(self, *inputs: Tree) -> Tree:
        """Compute the written values from the values read and the normals."""
        return self.update(*inputs, **dict(self.parameters))


def require_stage(stage: Stage) -> None:
    """Check the fields of a stage.

    Raises:
        ValueError: a field has a value that no executor can run.
    """
    expected = {
        f"reads = {stage.reads!r}: expected a tuple of slots": _are_names(stage.reads),
        f"writes = {stage.writes!r}: expected a tuple of at least one slot": _are_names(stage.writes) and stage.writes,
        f"rate = {stage.rate!r}: expected one of {', '.join(CLOCKS)}": stage.rate in CLOCKS,
        f"every = {stage.every!r}: expected an integer of at least 1": type(stage.every) is int and stage.every > 0,
        f"delay = {stage.delay!r}: expected an integer of at least 0": type(stage.delay) is int and stage.delay >= 0,
    }
    try:
        hash(stage.parameters)
    except TypeError as error:
        raise ValueError(f"stage {stage.name!r}: parameters: {error}; expected tuples and frozen records") from None
    for expectation, is_met in expected.items():
        if not is_met:
            raise ValueError(f"stage {stage.name!r}: {expectation}")
    require_arguments(stage)


def require_arguments(stage: Stage) -> None:
    """Check that `update` accepts the slots that the stage reads, its normals and its parameters.

    Raises:
        ValueError: it does not.
    """
    inputs = (*stage.reads, *(("normals",) if stage.normals is not None else ()))
    try:
        inspect.signature(stage.update).bind(*inputs, **dict(stage.parameters))
    except TypeError as error:
        names = ", ".join((*inputs, *(f"{name}=" for name, _ in stage.parameters)))
        raise ValueError(f"stage {stage.name!r}: update: {error}; expected a function of ({names})") from None


def _are_names(paths: Tree) -> bool:
    return isinstance(paths, tuple) and all(isinstance(path, str) for path in paths)


def require_writes(stage: Stage, values: Tree, templates: Sequence[Tree]) -> tuple[Tree, ...]:
    """Return the result of `update`, one tree for each slot that the stage writes.

    Raises:
        ValueError: the sizes of the trees differ from those of the slots.
    """
    expected = [len(flatten(template)) for template in templates]
    sizes = [len(flatten(value)) for value in values] if isinstance(values, tuple) else []
    if sizes != expected:
        slots = ", ".join(f"{path} ({size})" for path, size in zip(stage.writes, expected, strict=True))
        returned = f"trees of {sizes} numbers" if sizes else f"a {type(values).__name__}"
        raise ValueError(
            f"stage {stage.name!r}: update returned {returned}; expected a tuple with one for each of {slots}"
        )
    return tuple(values)


Normals: TypeAlias = Callable[[str, int], tuple[Tree, ...]]
"""normals(source, count): standard normals a drone draws once, at the start."""
InitialValue: TypeAlias = Callable[["State", Normals], Tree]


class StageSet(NamedTuple):
    """The stages of one drone under one name, and the slots they add, each with its initial value.

    An initial value is a tree of scalars, or a function `initial(state, normals)` that returns one. `python_reason` is
    why Python has to compute this part, "" if it is traced. `array_stages` then builds stages for JAX that work on
    arrays of many flights, if there are any; `xla_only_reason` is why those cannot run in a GPU kernel.
    """

    stages: tuple[Stage, ...] = ()
    slots: Mapping[str, Tree | InitialValue] = {}
    python_reason: str = ""
    array_stages: "Callable[[], StageSet] | None" = None
    xla_only_reason: str = ""


class StageFactory(NamedTuple):
    """An entry of a flight's sequence: `build(setup)` returns the stages of one drone."""

    name: str
    rate: str
    build: "Callable[[DroneSetup], StageSet]"


class PythonStage:
    """An entry of a flight's sequence that Python runs: `update(fleet)` at its instants, for all drones at once.

    `rate` is the clock it is due at, "" every instant; `reason` is why it is not traced. If `build` returns stages for part of
    the drones, `update` computes the others, and is called only if there are others.
    """

    rate = EVERY_INSTANT
    reason = "a stage in Python"
    needs_tables = True  # collect the tables of the compiled flight before `update`

    @property
    def name(self) -> str:
        """Name in the sequence: the class name without `Stage`, in lower case."""
        return type(self).__name__.removesuffix("Stage").lower()

    def build(self, setup: "DroneSetup") -> StageSet:
        """Build the traced stages of a drone, or give the reason why there are none."""
        return StageSet(python_reason=self.reason)

    def update(self, fleet: "Fleet") -> None:
        """Compute this part of the flight at the fleet's present instant."""
        raise NotImplementedError

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> np.ndarray:
        """Mark the instants of a span at which to call `update`; `needed` is True if drones remain that are not traced."""
        ticks = fleet.schedule.clock(self.rate) if self.rate else fleet.schedule.instant_bit
        return span.due_rows(ticks if needed else 0)

    def prepare(self, fleet: "Fleet") -> None:
        """React to new groups, or to new arrays of their slots."""

    def react(self, fleet: "Fleet", previous_setting: "FlightSettings") -> None:
        """React to a setting that events have changed: tasks, faults, wind, loads."""


Entry: TypeAlias = Stage | StageFactory | PythonStage
StageSequence: TypeAlias = tuple[Entry, ...]
StageArrangement: TypeAlias = Callable[[StageSequence], Sequence[Entry]]
"""Maps the standard sequence to the one to fly."""


def insert(stages: Sequence[Entry], stage: Entry, *, after: str) -> StageSequence:
    """Return the sequence with `stage` inserted after the entry named `after`."""
    names = [entry.name for entry in stages]
    if after not in names:
        raise ValueError(f"no stage {after!r}: expected one of {', '.join(names)}")
    position = names.index(after) + 1
    return (*stages[:position], stage, *stages[position:])


def build(entry: Entry, setup: "DroneSetup") -> StageSet:
    """Build the stages of one drone for an entry."""
    return StageSet((entry,)) if isinstance(entry, Stage) else entry.build(setup)


RESTARTED_SLOTS = frozenset({"controller_state", "estimator_state", "invalid_commands"})
"""Slots that start again when the vehicle changes in flight."""


# Slots -----------------------------------------------------------------------------------------------------------------


class SlotPart(NamedTuple):
    """The part of a slot that a path names: its first leaf and its template."""

    slot: str
    first: int
    template: Tree


def slot_part(templates: Mapping[str, Tree], path: str) -> SlotPart:
    """Find the leaves of a path such as "environment.wind_W" among those of its slot.

    Raises:
        ValueError: the slot does not exist, or lacks that part.
    """
    if path in templates:
        return SlotPart(path, 0, templates[path])
    slot, *fields = path.split(".")
    if slot not in templates:
        raise ValueError(f"no slot {path!r}; expected one of {', '.join(sorted(templates))}")
    first, template = 0, templates[slot]
    for field in fields:
        names = getattr(
            template, "_fields", tuple(map(str, range(len(template) if isinstance(template, tuple) else 0)))
        )
        if field not in names:
            raise ValueError(f"slot {slot!r} has no part {path!r}; expected one of {', '.join(names)}")
        index = names.index(field)
        first += sum(len(flatten(branch)) for branch in template[:index])
        template = template[index]
    return SlotPart(slot, first, template)
