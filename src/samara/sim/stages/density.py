"""The density of the air at each drone's height above home, evaluated on the wind axis and held between its ticks."""

from functools import lru_cache
from typing import Any

from samara.backends.llvm_schedule import Operation
from samara.backends.machine import CompiledStep
from samara.physics.air.atmosphere import density_at_height
from samara.sim.fleet import Fleet
from samara.sim.group import Group
from samara.sim.stage import Stage

HEIGHT = 2  # the row of p_W.z in a state


class DensityStage(Stage):
    """Writes ρ(p_W.z) into every drone's environment, where physics, sensors, downwash and outputs read it.

    In the 20 ms between two ticks a climb of 10 m/s changes the density by 2e-5 of itself.
    """

    axis = "wind"

    def operations(self, fleet: Fleet, group: Group) -> list[Operation]:
        """Evaluate the density of each drone of the group"""
        due, scenario = fleet.calendar.axis("wind"), fleet.scenario
        code = density_code(scenario.environment.air_density, scenario.home.origin.altitude)
        machine = code.machine(len(group.drones))
        return [
            Operation("copy", due, (group.plant.state[HEIGHT : HEIGHT + 1], machine.held, 1)),
            Operation("run", due, (machine,)),
            Operation("copy", due, (machine.carry, group.around.air_density, 1)),
        ]


@lru_cache(maxsize=64)
def density_code(home_density: float, home_altitude: float) -> CompiledStep:
    """Compile `density_at_height`: (density,) from (height,)"""

    def density(previous: Any, inputs: Any) -> Any:
        return (density_at_height(inputs[0], home_density=home_density, home_altitude=home_altitude),)

    return CompiledStep(density, (home_density,), (0.0,))
