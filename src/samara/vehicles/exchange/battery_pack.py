"""A vehicle's batteries as one pack of lithium-polymer cells, as autopilots count them."""

from typing import NamedTuple

from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import full_voltage
from samara.physics.types import Vehicle

CELL = 4.2  # [V], full
NEARLY = 0.05  # of a cell's voltage: further off, no whole number of cells fits


class Pack(NamedTuple):
    """Full voltage [V], cells in series (0: no whole number), capacity [C] (0: it never empties), resistance [Ω]."""

    voltage: float
    cells: int
    capacity: float
    resistance: float


def pack_of(vehicle: Vehicle) -> Pack | None:
    """All of a vehicle's batteries, in parallel"""
    if not vehicle.has("battery"):
        return None
    voltage = float(full_voltage(vehicle))
    cells = round(voltage / CELL)
    cells = cells if cells and abs(voltage / cells - CELL) <= NEARLY * CELL else 0
    if isinstance(vehicle["battery"], Ideal):
        return Pack(voltage, cells, 0.0, 0.0)
    capacity = sum(float(own.capacity) for own in vehicle["battery"])
    conductance = sum(1.0 / float(own.resistance + own.polarisation_resistance) for own in vehicle["battery"])
    return Pack(voltage, cells, capacity, 1.0 / conductance)
