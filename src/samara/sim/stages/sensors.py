"""Sensors: each samples at its own rate and is heard when its delay has passed."""

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.sim.calendar import Span
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.looking import Looking, Others
from samara.sim.stage import Stage
from samara.vehicles.shape import corners_of


class SensorsStage(Stage):
    """Every sensor of every drone; what was heard is recorded."""

    axis = "sensor"
    in_python = "sensor in Python"
    looks_back = False

    def __init__(self) -> None:
        self._corners: tuple[np.ndarray, np.ndarray] | None = None  # of all drones, once one looks

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """All that are traced"""
        plant, operations = group.plant, []
        for own in group.measuring:
            if isinstance(own, Looking) or not own.is_traced:
                continue
            sampled, heard = (fleet.calendar.bit(own.period_us, offset) for offset in (0, own.delay_us))
            inputs, name = (plant.state, plant.command, plant.environment), own.sensor.name
            draws = fleet.keys(group, f"sensor {name}"), fleet.numbers_of(group)
            operations += own.operations(sampled, heard, inputs, *draws)
            rate = {"period": own.period_us, "offset": own.delay_us}
            operations += fleet.put(group, name, self, own.said, due=heard, **rate)
        return operations

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """Where a sensor that is not traced is to be asked, or is heard"""
        found, times_us = np.zeros(len(span.times_us), dtype=bool), span.times_us
        for own in (each for group in fleet.groups for each in group.measuring if not each.is_traced):
            for offset in (0, own.delay_us):
                found |= (times_us >= offset) & ((times_us - offset) % own.period_us == 0)
        return found & span.at(fleet.calendar.axis("sensor"))

    def update(self, fleet: Fleet) -> None:
        tick = fleet.tick("sensor")
        for group in fleet.groups:
            for own in group.measuring:
                if isinstance(own, Looking):
                    others = self._others(fleet) if tick % own.every == 0 else None
                    heard = own.look(group.plant, tick, others, group.drones)
                    if heard:
                        group.show(own)
                else:
                    heard = not own.is_traced and own.update(group.plant, tick)
                if heard and own.sensor.name in group.tables:
                    group.tables[own.sensor.name].add(fleet.time_us, own.said)

    def _others(self, fleet: Fleet) -> Others | None:
        """All drones as they are now, where there are several in one flight"""
        if fleet.apart or len(fleet.scenario.drones) < 2:
            return None
        if self._corners is None:
            corners = [corners_of(own.vehicle) for own in fleet.scenario.drones]
            self._corners = np.array([low for low, _ in corners]).T, np.array([high for _, high in corners]).T
        return Others(fleet.p_W, fleet.q_WB, *self._corners)
