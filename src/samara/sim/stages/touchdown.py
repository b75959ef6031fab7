"""Who stands, and who has hit the ground too hard since the last time or lies on it."""

import math
from typing import Any

import numpy as np

from samara.core.algebra import UP
from samara.scenario.facts import Against, Fact
from samara.scenario.landing import CRASH_SPEED, CRASH_TILT, LANDED_RATE, LANDED_SPEED
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage

Array = np.ndarray[Any, Any]

HARDEST_PULL = 100.0  # [m/s²]: what may pull a drone to the ground before somebody looks again


class TouchdownStage(Stage):
    """Landed and crashed, from how each drone touches the ground."""

    axis = "scenario"

    def __init__(self, scenario: Scenario) -> None:
        ground, world = scenario.environment.ground, scenario.world
        flat = ground.normal_W == UP and not world.solids and world.terrain is None
        self._ground = ground.point_W.z if flat else math.inf

    def update(self, fleet: Fleet) -> None:
        fleet.note_impacts()
        for group in fleet.groups:
            drones, motion = group.indices, group.motion
            speed = np.sqrt((motion.v_W**2).sum(axis=0))
            touching = self._touching(fleet, group, speed)
            hard = fleet.impact_speed[drones] > CRASH_SPEED
            fallen = touching & (1.0 - 2.0 * (motion.q_WB[1] ** 2 + motion.q_WB[2] ** 2) < math.cos(CRASH_TILT))
            for lane in np.flatnonzero((hard | fallen) & ~fleet.crashed[drones]):
                index = group.drones[lane]
                speed_in = float(fleet.impact_speed[index])
                fleet.warn(fleet.note(index, Fact.CRASHED, against=Against.GROUND, speed=speed_in))
            fleet.crashed[drones] |= hard | fallen
            still = (speed < LANDED_SPEED) & (np.sqrt((motion.omega_B**2).sum(axis=0)) < LANDED_RATE)
            fleet.landed[drones] = touching & still & ~fleet.crashed[drones]  # a wreck lies there, it has not landed
        fleet.impact_speed[:] = 0.0

    def _touching(self, fleet: Fleet, group: Group, speed: Array) -> Array:
        """Who touches the ground; a plant looks after every step while somebody could hit it before the next time."""
        ahead = fleet.periods["scenario"] / MICROSECONDS  # [s]: until the next time
        room = (speed + HARDEST_PULL * ahead) * ahead
        near = float((group.motion.p_W[2] - room).min()) <= self._ground + group.reach
        if not (group.key.vehicle.has("contact") and near):
            group.plant.watch(False)
            return np.zeros(len(group.drones), dtype=bool)
        depths = group.plant.depths().max(axis=0)
        group.plant.watch(bool(np.any((depths > -room) & (speed + HARDEST_PULL * ahead > CRASH_SPEED))))
        touching: Array = depths > 0.0
        return touching
