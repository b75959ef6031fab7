"""Outputs derived from a drone's motion and recorded with it: supply voltage, currents and airspeed."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.batch_parameters import StepFunction, batch_code
from samara.compiler.llvm.codegen import vector_width
from samara.core.algebra import Vec3, norm
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest, zero_command
from samara.physics.rotors.propulsion import bus_current, motor_currents, supply_voltage
from samara.physics.rotors.rotor import air_velocity
from samara.physics.types import Command, Environment, State, Vehicle
from samara.record.streams import RecordedStream
from samara.scenario.batteries import reduce_cells
from samara.vehicles.payload import Payload, with_payload

SCHEMA_NAME = "samara.Derived"


class AirData(NamedTuple):
    """The air velocity relative to the body, in body axes, and its norm  [m/s]."""

    v_air_B: Vec3
    airspeed: Scalar


class PoweredOutputs(NamedTuple):
    """Bus voltage [V], the current of all motors and of each [A; positive discharges], and the air data."""

    voltage: Scalar
    current: Scalar
    motor_current: tuple[Scalar, ...]
    v_air_B: Vec3
    airspeed: Scalar


UNITS = {"voltage": "V", "current": "A", "motor_current": "A", "v_air_B": "m/s", "airspeed": "m/s"}


def outputs(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> AirData | PoweredOutputs:
    """v_air = Rᵀ (wind − v);  V and Iᵢ by the motors' equations, I = Σ Iᵢ, of a vehicle with a battery."""
    v_air_B = air_velocity(state.q_WB, state.v_W, environment.wind_W)
    air = AirData(v_air_B, norm(v_air_B))
    if not vehicle.has("battery"):
        return air
    inputs = (state, command, vehicle, environment)
    return PoweredOutputs(supply_voltage(*inputs), bus_current(*inputs), motor_currents(*inputs), *air)


def output_fields(vehicle: Vehicle) -> tuple[str, ...]:
    """Return the columns of the stream."""
    return tuple(
        leaf_names(outputs(state_at_rest(vehicle), zero_command(vehicle), vehicle, complete_environment(vehicle)))
    )


def output_units(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the unit of each column."""
    return tuple(UNITS[field.partition(".")[0].partition("[")[0]] for field in fields)


def output_rows(states: Array, commands: Array, environments: Array, vehicle: Vehicle) -> Array:
    """Compute the outputs for rows (m, components, ...) of states, held commands and environments: (m, columns, ...)."""
    state: State = unflatten(state_at_rest(vehicle), iter(np.moveaxis(states, 1, 0)))
    environment: Environment = unflatten(complete_environment(vehicle), iter(np.moveaxis(environments, 1, 0)))
    with np.errstate(all="ignore"):  # the check of the state reports a diverged drone
        result = outputs(state, tuple(np.moveaxis(commands, 1, 0)), vehicle, environment)
    shape = (len(states), *states.shape[2:])
    return np.stack([np.broadcast_to(leaf, shape) for leaf in flatten(result)], axis=1)


class CompiledOutputs:
    """A compiled `output_rows` with the same bits: a battery's voltage takes a thousand instructions per row."""

    def __init__(self, vehicles: tuple[Vehicle, ...]) -> None:
        """Compile for one vehicle, or for one vehicle per drone if their parameters differ."""
        self._code = batch_code(_output_step, [(vehicle,) for vehicle in vehicles])
        sizes = [len(flatten(tree)) for tree in _example_inputs(vehicles[0])]
        self._reads = [(k, *_locate_row(k, sizes)) for k in self._code.used_held_inputs]
        self._machine = self._code.machine(0)

    def rows(self, states: Array, commands: Array, environments: Array) -> Array:
        """Compute the outputs for rows (m, components, drones) of states, commands and environments: (m, columns, drones)."""
        m, _, drones = states.shape
        count, width = m * drones, vector_width("float64")
        if self._machine.n < count:
            self._machine = self._code.machine(-(-count // width) * width)
        sources, machine = (states, commands, environments), self._machine
        for k, source, column in self._reads:
            machine.held_inputs[k, :count].reshape(m, drones)[...] = sources[source][:, column]
        machine.run()
        return np.ascontiguousarray(machine.carry[:, :count].reshape(-1, m, drones).transpose(1, 0, 2))


def _example_inputs(vehicle: Vehicle) -> tuple[State, Command, Environment]:
    return state_at_rest(vehicle), zero_command(vehicle), complete_environment(vehicle)


def _output_step(vehicle: Vehicle) -> StepFunction:
    """Build the step function of `outputs` of (state, command, environment)."""
    state, command, environment = example = _example_inputs(vehicle)
    return StepFunction(
        lambda carry, inputs: outputs(inputs[0], inputs[1], vehicle, inputs[2]),
        outputs(state, command, vehicle, environment),
        example,
    )


def _locate_row(k: int, sizes: list[int]) -> tuple[int, int]:
    """Return the index of the block of these sizes that holds row k, and the row's index in it."""
    for block, size in enumerate(sizes):
        if k < size:
            return block, k
        k -= size
    raise IndexError(k)


@lru_cache(maxsize=16)
def compiled_outputs(*vehicles: Vehicle) -> CompiledOutputs:
    """Return the compiled outputs of a vehicle, or of one vehicle per drone; cached."""
    return CompiledOutputs(vehicles)


def output_table(tables: Mapping[str, RecordedStream], vehicle: Vehicle) -> RecordedStream:
    """Compute the stream of a flight from its recorded states, commands and environments."""
    state, command, environment = (tables[name] for name in ("state", "command", "environment"))
    command_rows, environment_rows = (_last_rows(table.times_us, state.times_us) for table in (command, environment))
    fields, environment_size = output_fields(vehicle), len(flatten(complete_environment(vehicle)))
    rows = np.empty((len(state.rows), len(fields)))
    loads, load_index = np.unique(
        np.column_stack([environment["payload"], environment["remaining_cells"]])[environment_rows],
        axis=0,
        return_inverse=True,
    )
    for k, (mass, *r_B, cells) in enumerate(loads.tolist()):
        rows_of_load = np.flatnonzero(load_index == k)
        loaded = with_payload(reduce_cells(vehicle, cells), Payload(mass, Vec3(*r_B)))
        rows[rows_of_load] = output_rows(
            state.rows[rows_of_load],
            command.rows[command_rows[rows_of_load]],
            environment.rows[environment_rows[rows_of_load], :environment_size],
            loaded,
        )
    return RecordedStream(fields, output_units(fields), SCHEMA_NAME, state.times_us, rows)


def _last_rows(times_us: Array, now_us: Array) -> Array:
    """Return for each time the index of the last row that is not after it."""
    return np.maximum(np.searchsorted(times_us, now_us, side="right") - 1, 0)
