"""Sensors: each samples at its own rate and is heard when its delay has passed."""

from samara.sim.fleet import Fleet
from samara.sim.stage import Stage


class SensorsStage(Stage):
    """One tick of the sensor axis for every sensor of every drone; what was heard is recorded."""

    axis = "sensor"

    def update(self, fleet: Fleet) -> None:
        tick = fleet.tick("sensor")
        for group in fleet.groups:
            for own in group.measuring:
                if own.update(group.plant, tick):
                    group.tables[own.sensor.name].add(fleet.time_us, own.said)
