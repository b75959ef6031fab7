"""A race on the meadow whose gates are solid: four bars each, which films draw and which a drone would hit."""

from dataclasses import replace

import samara
from samara.comparison.race import race_scenario
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3, quat_from_euler, rotate
from samara.physics.ground.solids import Box
from samara.plan.time_optimal import plan_racing_line
from samara.record.run import Run
from samara.scenario.world import Obstacle, World
from samara.sim.fly import fly
from samara.world.gates import Gate, GateSize
from samara.world.track import load_track

HALF_DEPTH = 0.1  # m, of the bars along the flight direction


def fly_race(speed_fraction: float) -> Run:
    """Fly the shipped track `meadow` along its racing line, at a fraction of the fastest speed."""
    track = load_track("meadow")
    vehicle = samara.vehicle(track.vehicle)
    line = plan_racing_line(track, vehicle, speed_fraction)
    scenario = race_scenario(track, vehicle, line, controller_spec("geometric"), 0)
    bars = [bar for number, gate in enumerate(track.gates, 1) for bar in gate_bars(f"gate {number}", gate, track.sizes)]
    return fly(replace(scenario, name="race", world=World(tuple(bars))))


def gate_bars(name: str, gate: Gate, sizes: GateSize) -> list[Obstacle]:
    """Return the left, right, lower and upper bar of a gate; they fill the area between opening and frame."""
    (opening_width, opening_height), (width, height) = sizes.opening_size, sizes.frame_size
    q_WG = quat_from_euler(0.0, 0.0, gate.yaw)
    upright = Vec3(HALF_DEPTH, 0.25 * (width - opening_width), 0.5 * height)
    crossbar = Vec3(HALF_DEPTH, 0.5 * opening_width, 0.25 * (height - opening_height))
    y, z = 0.25 * (width + opening_width), 0.25 * (height + opening_height)
    places = (
        ("left", upright, y, 0.0),
        ("right", upright, -y, 0.0),
        ("lower", crossbar, 0.0, -z),
        ("upper", crossbar, 0.0, z),
    )
    return [
        Obstacle(f"{name}, {side}", Box(gate.p_W + rotate(q_WG, Vec3(0.0, y_G, z_G)), half, q_WG))
        for side, half, y_G, z_G in places
    ]
