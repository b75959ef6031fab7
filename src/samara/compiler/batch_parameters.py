"""Parameters that differ between the drones of a batch become inputs of its programs.

    code = batch_code(step, [(first_vehicle,), (second_vehicle,)])
    code.machine(2)

`step(*records)` returns a `StepFunction`: a function and the templates of its arguments, built from records of numbers such as
vehicles, controllers and stages. The floats of the records are numbered leaves. Some of them become inputs of the trace; the
others stay constants. The choice depends on `references` alone, records of the same step: every leaf in which they differ from
the first one is an input. A drone that differs from the first reference elsewhere, by more than rounding, gets a program with
those leaves as further inputs. So a drone's program never depends on the other drones of its batch.

Instructions that depend on parameters alone are computed once for each drone, before the flight (`hoist`).
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.scan import IdlePath
from samara.compiler.trace.program import CONDITIONS, GuardedProgram, Instruction, Program, eliminate_dead_code
from samara.core.batch_scalar import BatchScalar, batch_columns, batch_size
from samara.core.traced_scalar import TraceError
from samara.core.types import Array
from samara.physics.types import Structure, Vehicle

MAX_CODES = 512
MAX_SPLIT_RECORDS = 4096
LEAVES = (float, BatchScalar)
RELATIVE_ROUNDING, ABSOLUTE_ROUNDING = 1e-13, 1e-15  # differences of a leaf up to these are rounding errors
HELD_GROUP = 1  # the input group of the parameters
NOT_HOISTED = frozenset({"layer", "loop", "lookup", "row"})


class DifferentProgramsError(ValueError):
    """Drones of a batch need different programs; `classes` has the columns of each."""

    def __init__(self, program_keys: Sequence[Hashable]) -> None:
        columns: dict[Hashable, list[int]] = {}
        for column, program_key in enumerate(program_keys):
            columns.setdefault(program_key, []).append(column)
        self.classes = tuple(map(tuple, columns.values()))
        super().__init__(f"{len(self.classes)} programs for {len(program_keys)} drones; expected one")


def require_equal(records: Sequence[Hashable]) -> None:
    """Check that all drones of a batch have equal records.

    Raises:
        DifferentProgramsError: the records differ.
    """
    if any(record != records[0] for record in records[1:]):
        raise DifferentProgramsError(records)


class StepFunction(NamedTuple):
    """body(carry, held) → carry, with templates of its arguments; `idle_path` and `skip_when`: see `CompiledStep`."""

    body: Callable[[Any, Any], Any]
    carry: Any
    held_inputs: Any
    idle_path: IdlePath | None = None
    skip_when: Callable[[Any], Any] | None = None

    def compile(self) -> CompiledStep:
        """Trace the function with its parameters as constants."""
        body, carry, held_inputs, idle_path, skip_when = self
        return CompiledStep(body, carry, held_inputs, idle_path, skip_when=skip_when)


Step = Callable[..., StepFunction]


# Selection of the input leaves -------------------------------------------------------------------------------------------


def batch_code(
    step: Step, drone_records: Sequence[tuple[Any, ...]], references: Sequence[tuple[Any, ...]] | None = None
) -> CompiledStep:
    """Compile one program for all drones of a batch; `drone_records` has the records of each drone, or one entry if all
    are equal.

    Without `references`, the leaves in which the drones differ are the inputs. Leaves that the first reference does not have,
    because its structure differs, are inputs.

    Raises:
        DifferentProgramsError: no single program serves all drones.
    """
    if references is None and all(records == drone_records[0] for records in drone_records[1:]):
        return _constant_code(step, drone_records[0])
    drones = [split_record(records) for records in drone_records]
    structures: list[Any] = []
    for record in drones:
        if record.structure not in structures:
            structures.append(record.structure)
    if len(structures) > 1:
        raise DifferentProgramsError([structures.index(record.structure) for record in drones])
    values = _columns(drones)
    base, varies = _base_leaves(drone_records[0], structures[0], drone_records if references is None else references)
    rounding = np.where(np.isfinite(base), RELATIVE_ROUNDING * np.abs(base) + ABSOLUTE_ROUNDING, 0.0)[:, None]
    with np.errstate(invalid="ignore"):
        differs = (values != base[:, None]) & ~(np.abs(values - base[:, None]) <= rounding)
    further_inputs = differs & ~varies[:, None]
    if (further_inputs != further_inputs[:, :1]).any():
        raise DifferentProgramsError([column.tobytes() for column in further_inputs.T])
    varies = varies | further_inputs[:, 0]
    template = replace_leaves(drone_records[0], dict(enumerate(np.where(varies, values[:, 0], base).tolist())))
    if not varies.any():
        return _constant_code(step, template)
    try:
        key = _Key(structures[0], base[~varies].tobytes(), template)
        code = _parametric_code(step, key, tuple(np.flatnonzero(varies).tolist()))
    except TraceError:  # a leaf decides how the program continues
        if values.shape[1] > 1:
            raise DifferentProgramsError(range(values.shape[1])) from None
        return _constant_code(step, template)
    return BatchStep(code, values[varies])


def _base_leaves(records: Any, structure: Any, references: Sequence[Any]) -> tuple[Array, Array]:
    """Return the values of a record's leaves in the first reference, and a mask of the leaves that vary in the references.

    A leaf that the first reference does not have is NaN, and varies.
    """
    if not references:
        count = len(split_record(records).leaves)
        return np.full(count, np.nan), np.ones(count, dtype=bool)
    first, *other_records = [split_record(reference) for reference in references]
    base, *leaves = _columns([first, *(record for record in other_records if record.structure == first.structure)]).T
    varies = np.zeros(len(base), dtype=bool)
    for example in leaves:
        varies |= example != base
    if first.structure == structure:
        return base, varies
    leaf_indices: list[int] = []
    _match_leaves(records, replace_leaves(references[0], {k: _LeafIndex(k) for k in range(len(base))}), leaf_indices)
    index = np.array(leaf_indices, dtype=int)
    is_present = index >= 0
    return np.where(is_present, base[index], np.nan), np.where(is_present, varies[index], True)


class _LeafIndex(int):
    """The index of a leaf, stored at its position in a record."""


def _match_leaves(record: Any, numbered: Any, leaf_indices: list[int]) -> None:
    """Append for each leaf of a record the index of the leaf at the same position of another record, or -1 if it has none."""
    if isinstance(record, LEAVES):
        leaf_indices.append(int(numbered) if type(numbered) is _LeafIndex else -1)
    elif isinstance(record, tuple):
        is_same = type(numbered) is type(record) and len(numbered) == len(record)
        for k, part in enumerate(record):
            _match_leaves(part, numbered[k] if is_same else None, leaf_indices)
    elif is_dataclass(record) and not isinstance(record, (type, Structure)):
        is_same = type(numbered) is type(record)
        for name in _field_names(type(record)):
            _match_leaves(getattr(record, name), getattr(numbered, name) if is_same else None, leaf_indices)


class _Key:
    """Records, compared by their structure and their constants."""

    def __init__(self, structure: tuple[Any, ...], constants: bytes, records: tuple[Any, ...]) -> None:
        self.key, self.records = (structure, constants), records

    def __hash__(self) -> int:
        return hash(self.key[1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.key == other.key


@lru_cache(maxsize=MAX_CODES)
def _constant_code(step: Step, records: tuple[Any, ...]) -> CompiledStep:
    return step(*records).compile()


@lru_cache(maxsize=MAX_CODES)
def _parametric_code(step: Step, key: _Key, inputs: tuple[int, ...]) -> "ParametricStep":
    return ParametricStep(step, key.records, inputs)


# Programs with parameters ------------------------------------------------------------------------------------------------


class ParametricStep(CompiledStep):
    """A step whose records have inputs instead of some leaves; `BatchStep` adds the values of the drones."""

    def __init__(self, step: Step, records: tuple[Any, ...], inputs: tuple[int, ...]) -> None:
        template = step(*records)

        def step_function(held_inputs: Any) -> StepFunction:
            return step(*replace_leaves(records, dict(zip(inputs, held_inputs[1], strict=True))))

        idle_path = None
        if template.idle_path is not None:
            idle_path = IdlePath(
                lambda carry, values, step_inputs: step_function(values).idle_path.guard(carry, values[0], step_inputs),  # type: ignore[union-attr]
                lambda carry, values, step_inputs: step_function(values).idle_path.body(carry, values[0], step_inputs),  # type: ignore[union-attr]
            )
        skip = template.skip_when
        super().__init__(
            lambda carry, held_inputs: step_function(held_inputs).body(carry, held_inputs[0]),
            template.carry,
            (template.held_inputs, (0.0,) * len(inputs)),
            idle_path,
            skip_when=None if skip is None else lambda held_inputs: skip(held_inputs[0]),
        )
        self.held_count -= len(inputs)
        self._program, prologue = hoist(self._program, self.held_count)
        outputs = len(prologue.outputs[0])
        self._initial_values[1] = np.concatenate([self._initial_values[1][: self.held_count], np.zeros(outputs)])
        self._prologue = CompiledStep.from_program(prologue, np.zeros(outputs), np.zeros(len(inputs)))

    def parameter_rows(self, values: Array) -> Array:
        """Compute the rows that the program reads from the parameters (inputs, n) of n drones."""
        n = values.shape[1]
        rows, values = np.zeros((len(self._prologue._initial_values[0]), n)), np.ascontiguousarray(values)
        if len(rows):
            kernel = self._prologue.kernel(False, 1)  # scalar code, whose bits do not depend on the batch
            kernel.call(rows.ctypes.data, 0, values.ctypes.data, 0, 0, 0, n, n, 1, 2)
        return rows


class BatchStep(CompiledStep):
    """A step with parameters, and their values for the drones of a batch; for more drones the values repeat."""

    def __init__(self, code: ParametricStep, values: Array) -> None:
        vars(self).update(vars(code))
        self._rows = code.parameter_rows(values)

    def memory(self, n: int) -> tuple[Array, Array]:
        """Return carry and held inputs of n drones, the latter followed by the rows of their parameters."""
        carry, held_inputs = super().memory(n)
        held_inputs[self.held_count :] = self._rows[:, np.arange(n) % self._rows.shape[1]]
        return carry, held_inputs


def hoist(program: Program | GuardedProgram, first: int) -> tuple[Program | GuardedProgram, Program]:
    """Move the instructions that depend on parameters alone out of a program.

    The parameters are the held inputs from index `first` on. Returns the program, which reads results of the second program
    instead, and that program, which computes them from the parameters. The operations and their order do not change.
    """
    prologue: list[Instruction] = []
    prologue_index: dict[Hashable, int] = {}  # equal instructions share an index, also across programs
    rows: dict[int, int] = {}  # index in the prologue: index of the held input with its result

    def add(instruction: Instruction) -> int:
        key = instruction, math.copysign(1.0, instruction.constant)  # -0.0 == 0.0
        if key not in prologue_index:
            prologue_index[key] = len(prologue)
            prologue.append(instruction)
        return prologue_index[key]

    def split(part: Program) -> Program:
        hoisted: dict[int, int] = {}  # index in the program: index in the prologue
        constants: dict[int, Instruction] = {}
        body: list[Instruction] = []
        index: dict[int, int] = {}

        def read(k: int) -> int:
            """Return the index in the body of the result of instruction k."""
            if k not in index:
                row = rows.setdefault(hoisted[k], first + len(rows))
                index[k] = len(body)
                body.append(Instruction("input", location=(HELD_GROUP, row)))
            return index[k]

        for k, instruction in enumerate(part.instructions):
            if instruction.operation == "constant":
                constants[k] = instruction
            elif (
                instruction.operation == "input"
                and instruction.location[0] == HELD_GROUP
                and instruction.location[1] >= first
            ):
                hoisted[k] = add(instruction._replace(location=(HELD_GROUP, instruction.location[1] - first)))
                continue
            elif (
                instruction.operation not in NOT_HOISTED
                and all(i in hoisted or i in constants for i in instruction.arguments)
                and any(i in hoisted for i in instruction.arguments)
            ):
                arguments = tuple(hoisted[i] if i in hoisted else add(constants[i]) for i in instruction.arguments)
                hoisted[k] = add(instruction._replace(arguments=arguments))
                if instruction.operation not in CONDITIONS:
                    continue  # conditions are also computed in the body, as they are not numbers
            arguments = tuple(read(i) for i in instruction.arguments)
            index[k] = len(body)
            body.append(instruction._replace(arguments=arguments))
        outputs = tuple(tuple(read(k) for k in group) for group in part.outputs)
        return eliminate_dead_code(Program(tuple(body), outputs))

    result = GuardedProgram(*map(split, program)) if isinstance(program, GuardedProgram) else split(program)
    return result, eliminate_dead_code(Program(tuple(prologue), (tuple(rows), ())))


# Leaves of records -------------------------------------------------------------------------------------------------------


class SplitRecord(NamedTuple):
    """A record of tuples and frozen dataclasses: its structure, and its floats and BatchScalars in order."""

    structure: tuple[Any, ...]
    leaves: tuple[Any, ...]


def _columns(records: Sequence[SplitRecord]) -> Array:
    """Return the leaves of all drones (leaves, drones): from one record of BatchScalars, or from one record per drone."""
    if len(records) == 1:
        return batch_columns(records[0].leaves, batch_size(records[0].leaves) or 1)
    return np.array([record.leaves for record in records], dtype=float).reshape(len(records), -1).T


_split_vehicles: dict[int, tuple[Any, SplitRecord]] = {}  # by id of a vehicle, which several stages share


def split_record(record: Any) -> SplitRecord:
    """Split a record into its structure and its floats."""
    structure: list[Any] = []
    leaves: list[Any] = []
    _split(record, structure, leaves)
    return SplitRecord(tuple(structure), tuple(leaves))


def _split(record: Any, structure: list[Any], leaves: list[Any]) -> None:
    if isinstance(record, LEAVES):
        leaves.append(record)
        structure.append(float)
    elif isinstance(record, tuple):
        structure.append((type(record), len(record)))
        for part in record:
            _split(part, structure, leaves)
    elif isinstance(record, Vehicle):
        if id(record) not in _split_vehicles:
            if len(_split_vehicles) >= MAX_SPLIT_RECORDS:
                _split_vehicles.clear()
            parts: tuple[list[Any], list[Any]] = [], []
            for name in _field_names(Vehicle):
                _split(getattr(record, name), *parts)
            _split_vehicles[id(record)] = record, SplitRecord(tuple(parts[0]), tuple(parts[1]))
        part = _split_vehicles[id(record)][1]
        structure += part.structure
        leaves += part.leaves
    elif is_dataclass(record) and not isinstance(record, (type, Structure)):
        structure.append(type(record))
        for name in _field_names(type(record)):
            _split(getattr(record, name), structure, leaves)
    else:
        structure.append(record)


def replace_leaves(record: Any, values: Mapping[int, Any]) -> Any:
    """Return a record in which leaf k is replaced by `values[k]`."""
    return _replace_leaves(record, values, count())


def _replace_leaves(record: Any, values: Mapping[int, Any], indices: Iterator[int]) -> Any:
    if isinstance(record, LEAVES):
        return values.get(next(indices), record)
    if isinstance(record, tuple):
        parts = [_replace_leaves(part, values, indices) for part in record]
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    if is_dataclass(record) and not isinstance(record, (type, Structure)):
        replaced = copy(record)
        for name in _field_names(type(record)):
            object.__setattr__(replaced, name, _replace_leaves(getattr(record, name), values, indices))
        return replaced
    return record


@cache
def _field_names(record_type: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record_type) if field.compare)


def drone_record(record: Any, column: int) -> Any:
    """Return the record of one drone, with floats instead of BatchScalars."""
    leaves = split_record(record).leaves
    if not batch_size(leaves):
        return record
    return replace_leaves(
        record, {k: float(leaf.values[column]) for k, leaf in enumerate(leaves) if type(leaf) is BatchScalar}
    )
