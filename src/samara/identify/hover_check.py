"""Fly an identified vehicle: whether it returns to hover after a step."""

import numpy as np

from samara.core.algebra import Vec3
from samara.physics.types import Vehicle
from samara.plan.trajectory import hover
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly

START_W, TARGET_W = Vec3(0.0, 0.0, 5.0), Vec3(0.3, -0.3, 5.3)  # [m]
FLIGHT_S, LAST_S = 8.0, 1.0  # [s]
MAX_DISTANCE_M, MAX_TILT_DEG = 0.1, 60.0


def hover_problem(vehicle: Vehicle) -> str:
    """Return why the vehicle does not hover; empty if it does.

    It starts in hover trim and flies to a point 0.5 m away, with the controller that flights have by default.
    """
    drone = Drone("drone", vehicle, hover(TARGET_W), START_W, airborne=True)
    try:
        run = fly(Scenario("hover", (drone,), FLIGHT_S))
    except ValueError as error:
        return " ".join(str(error).split())
    tilt = float(np.degrees(np.max(run.tilt)))
    is_late = run.time > FLIGHT_S - LAST_S
    distance = float(np.linalg.norm(run.position[is_late] - np.array(TARGET_W), axis=1).max())
    if run.crashed:
        return f"it crashed in a hover of {FLIGHT_S:g} s"
    if not tilt <= MAX_TILT_DEG:
        return f"it tilted by {tilt:.0f}° in a hover; expected at most {MAX_TILT_DEG:g}°"
    if not distance <= MAX_DISTANCE_M:
        return f"it is {distance:.2g} m from its position after {FLIGHT_S:g} s of hover; expected at most {MAX_DISTANCE_M:g} m"
    return ""
