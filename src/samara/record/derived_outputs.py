"""What follows from a drone's motion and is recorded with it: supply, currents and airspeed."""

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
from samara.physics.multirotor import at_rest, empty_command, environment_of
from samara.physics.rotors.propulsion import bus_current, motor_currents, supply_voltage
from samara.physics.rotors.rotor import air_velocity
from samara.physics.types import Command, Environment, State, Vehicle
from samara.record.streams import Table
from samara.scenario.batteries import with_cells
from samara.vehicles.payload import Payload, with_payload

KIND = "samara.Outputs"


class Air(NamedTuple):
    """The relative wind that the body feels, in body axes, and how fast it is  [m/s]"""

    v_air_B: Vec3
    airspeed: Scalar


class Supplied(NamedTuple):
    """Bus voltage [V], the current of all motors and of each [A; positive discharges], and the air as without a battery."""

    voltage: Scalar
    current: Scalar
    motor_current: tuple[Scalar, ...]
    v_air_B: Vec3
    airspeed: Scalar


UNITS = {"voltage": "V", "current": "A", "motor_current": "A", "v_air_B": "m/s", "airspeed": "m/s"}


def outputs(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Air | Supplied:
    """v_air = Rᵀ (wind − v);  V and Iᵢ by the motors' equations, I = Σ Iᵢ, of a vehicle that has a battery"""
    v_air_B = air_velocity(state.q_WB, state.v_W, environment.wind_W)
    air = Air(v_air_B, norm(v_air_B))
    if not vehicle.has("battery"):
        return air
    now = (state, command, vehicle, environment)
    return Supplied(supply_voltage(*now), bus_current(*now), motor_currents(*now), *air)


def output_fields(vehicle: Vehicle) -> tuple[str, ...]:
    """The columns of the stream"""
    return tuple(leaf_names(outputs(at_rest(vehicle), empty_command(vehicle), vehicle, environment_of(vehicle))))


def output_units(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The unit of each column"""
    return tuple(UNITS[field.partition(".")[0].partition("[")[0]] for field in fields)


def output_rows(states: Array, commands: Array, environments: Array, vehicle: Vehicle) -> Array:
    """All of it for rows (m, components, ...) of states, and of the commands and surroundings held then: (m, columns, ...)"""
    state: State = unflatten(at_rest(vehicle), iter(np.moveaxis(states, 1, 0)))
    around: Environment = unflatten(environment_of(vehicle), iter(np.moveaxis(environments, 1, 0)))
    with np.errstate(all="ignore"):  # a drone that goes astray is told of where its state is looked at
        found = outputs(state, tuple(np.moveaxis(commands, 1, 0)), vehicle, around)
    shape = (len(states), *states.shape[2:])
    return np.stack([np.broadcast_to(leaf, shape) for leaf in flatten(found)], axis=1)


class OutputCode:
    """`output_rows` of a flight as machine code, with the same bits: a battery's voltage is a thousand instructions a row."""

    def __init__(self, vehicles: tuple[Vehicle, ...]) -> None:
        """Of one vehicle; or of one for each drone, where their numbers differ"""
        self._code = batch_code(_output_step, [(vehicle,) for vehicle in vehicles])
        sizes = [len(flatten(own)) for own in _now(vehicles[0])]
        self._reads = [(k, *_place(k, sizes)) for k in self._code.reads]
        self._machine = self._code.machine(0)

    def rows(self, states: Array, commands: Array, environments: Array) -> Array:
        """Of rows (m, components, drones) of states, commands and surroundings: (m, columns, drones)"""
        m, _, drones = states.shape
        lanes, width = m * drones, vector_width("float64")
        if self._machine.n < lanes:
            self._machine = self._code.machine(-(-lanes // width) * width)
        sources, machine = (states, commands, environments), self._machine
        for k, which, column in self._reads:
            machine.held[k, :lanes].reshape(m, drones)[...] = sources[which][:, column]
        machine.run()
        return np.ascontiguousarray(machine.carry[:, :lanes].reshape(-1, m, drones).transpose(1, 0, 2))


def _now(vehicle: Vehicle) -> tuple[State, Command, Environment]:
    return at_rest(vehicle), empty_command(vehicle), environment_of(vehicle)


def _output_step(vehicle: Vehicle) -> StepFunction:
    """`outputs` of (state, command, environment)"""
    state, command, environment = now = _now(vehicle)
    return StepFunction(
        lambda carry, held: outputs(held[0], held[1], vehicle, held[2]),
        outputs(state, command, vehicle, environment),
        now,
        as_written=True,
    )


def _place(k: int, sizes: list[int]) -> tuple[int, int]:
    """In which of some blocks of these sizes, one below the other, row k is, and its number there"""
    for which, size in enumerate(sizes):
        if k < size:
            return which, k
        k -= size
    raise IndexError(k)


@lru_cache(maxsize=16)
def output_code(*vehicles: Vehicle) -> OutputCode:
    """The code of a vehicle's outputs, or of those of several lanes, compiled once"""
    return OutputCode(vehicles)


def output_table(tables: Mapping[str, Table], vehicle: Vehicle) -> Table:
    """The stream of a flight, from the states, commands and surroundings that were recorded of it"""
    state, command, around = (tables[name] for name in ("state", "command", "environment"))
    told, held = (_held(own.times_us, state.times_us) for own in (command, around))
    fields, known = output_fields(vehicle), len(flatten(environment_of(vehicle)))
    rows = np.empty((len(state.rows), len(fields)))
    loads, of = np.unique(np.column_stack([around["payload"], around["cells_left"]])[held], axis=0, return_inverse=True)
    for k, (mass, *r_B, cells) in enumerate(loads.tolist()):
        own = np.flatnonzero(of == k)
        loaded = with_payload(with_cells(vehicle, cells), Payload(mass, Vec3(*r_B)))
        rows[own] = output_rows(state.rows[own], command.rows[told[own]], around.rows[held[own], :known], loaded)
    return Table(fields, output_units(fields), KIND, state.times_us, rows)


def _held(times_us: Array, now_us: Array) -> Array:
    """For each time the last row that is not after it."""
    return np.maximum(np.searchsorted(times_us, now_us, side="right") - 1, 0)
