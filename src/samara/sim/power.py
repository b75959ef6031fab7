"""The drone's own battery, looked at for an autopilot: ten times a second, by the equations that fly it."""

from samara.backends.packing import unpacker
from samara.link.readings import Supply
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.scenario.batteries import battery_status
from samara.scenario.supply import battery_of, cells_of
from samara.sim.plant import Plant

EVERY_US = 100_000


class PowerModule:
    """Looks at a plant's battery once in a while."""

    def __init__(self, plant: Plant) -> None:
        self._plant, self._battery, self._next_us = plant, battery_of(plant.vehicle), 0
        self._state_of = unpacker(at_rest(plant.vehicle))
        self._around_of = unpacker(environment_of(plant.vehicle))

    def read(self, time_us: int) -> Supply | None:
        """What it says now; None between two readings, and where no battery empties"""
        if self._battery is None or time_us < self._next_us:
            return None
        self._next_us = time_us + EVERY_US
        state, around = self._state_of(self._plant.state[:, 0].tolist()), self._plant.environment[:, 0].tolist()
        command = tuple(self._plant.command[:, 0].tolist())
        told = battery_status(state, command, self._plant.vehicle, self._around_of(around))
        current = sum(each.current for each in told)
        return Supply(
            told[0].voltage, current, told[0].charge, cells_of(self._battery), float(self._battery.capacity) * len(told)
        )
