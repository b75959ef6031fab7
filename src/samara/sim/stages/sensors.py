"""Sensors: each samples at its own rate and is heard when its delay has passed."""

import numpy as np

from samara.backends.llvm_schedule import Operation
from samara.sim.calendar import Span
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage


class SensorsStage(Stage):
    """Every sensor of every drone; what was heard is recorded."""

    axis = "sensor"
    in_python = "sensor in Python"
    looks_back = False

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """All that are traced"""
        plant, operations = group.plant, []
        for own in group.measuring:
            if not own.is_traced:
                continue
            sampled, heard = (fleet.calendar.bit(own.period_us, offset) for offset in (0, own.delay_us))
            inputs, name = (plant.state, plant.command, plant.environment), own.sensor.name
            draws = fleet.keys(group, f"sensor {name}"), fleet.numbers_of(group)
            operations += own.operations(sampled, heard, inputs, *draws)
            rate = {"period": own.period_us, "offset": own.delay_us}
            operations += fleet.put(group, name, self, own.said, due=heard, **rate)
        return operations

    def visits(self, fleet: Fleet, span: Span, *, python: bool) -> np.ndarray:
        """Where a sensor that is not traced is to be asked"""
        asked = any(not own.is_traced for group in fleet.groups for own in group.measuring)
        return span.at(fleet.calendar.axis("sensor") if asked else 0)

    def update(self, fleet: Fleet) -> None:
        tick = fleet.tick("sensor")
        for group in fleet.groups:
            for own in group.measuring:
                if not own.is_traced and own.update(group.plant, tick):
                    group.tables[own.sensor.name].add(fleet.time_us, own.said)
