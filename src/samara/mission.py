"""Document 004's mission: lift off, hover at 10 m, move 10 m to the right; flown closed loop through motors with lag."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.algebra import Vec3, euler_from_quat, quat_from_euler
from samara.backends.trace import trace
from samara.control.geometric import Controller, geometric
from samara.integrate import rk4
from samara.physics.multirotor import CALM, Command, State, Vehicle, at_rest, derivative
from samara.plan.reference import Leg, Reference, along_legs

FACING_NORTH = np.pi / 2  # yaw 0 of the document's NED frame; its right is then east
PHYSICS_STEP = 1e-3  # [s]
STEPS_PER_COMMAND = 4  # the controller runs at 250 Hz

MISSION = (
    Leg("lift off and hover at 10 m", Vec3(0.0, 0.0, 10.0), travel=6.0, rest=3.0),
    Leg("move 10 m to the right", Vec3(10.0, 0.0, 10.0), travel=6.0, rest=5.0),
)


class Flight(NamedTuple):
    """What was flown: times [s], and at each of them the state, the command given and the reference."""

    vehicle: Vehicle
    controller: str
    time: np.ndarray[Any, Any]
    states: tuple[State, ...]
    commands: tuple[Command, ...]
    references: tuple[Reference, ...]
    legs: tuple[Leg, ...]

    @property
    def position(self) -> np.ndarray[Any, Any]:
        return np.array([state.p_W for state in self.states], dtype=float)

    @property
    def reference_position(self) -> np.ndarray[Any, Any]:
        return np.array([reference.p_W for reference in self.references], dtype=float)

    @property
    def euler(self) -> np.ndarray[Any, Any]:
        return np.array([euler_from_quat(state.q_WB) for state in self.states], dtype=float)

    @property
    def rotor_speed(self) -> np.ndarray[Any, Any]:
        return np.array([state.rotor_speed for state in self.states], dtype=float)

    def summary(self) -> dict[str, str]:
        """What a person asks first: how close it ended, how well it followed, how hard it worked."""
        error = np.linalg.norm(self.position - self.reference_position, axis=1)
        tilt = np.degrees(np.arccos(np.clip(np.cos(self.euler[:, 0]) * np.cos(self.euler[:, 1]), -1.0, 1.0)))
        lines = {
            "vehicle": self.vehicle.name,
            "controller": self.controller,
            "flight time": f"{self.time[-1]:.1f} s",
            "final position error": f"{100.0 * self.final_error():.2f} cm",
            "tracking error, RMS": f"{100.0 * float(np.sqrt((error**2).mean())):.1f} cm",
            "tracking error, largest": f"{100.0 * float(error.max()):.1f} cm",
            "tilt, largest": f"{float(tilt.max()):.1f}°",
        }
        if self.vehicle.rotors:
            lines["rotor speed, largest"] = f"{float(self.rotor_speed.max()):.0f} rad/s"
        return lines

    def final_error(self) -> float:
        """|p − p_target| at the end  [m]"""
        return float(np.linalg.norm(self.position[-1] - np.array(self.legs[-1].p_W, dtype=float)))


def fly_mission(
    vehicle: Vehicle,
    legs: tuple[Leg, ...] = MISSION,
    controller: Controller | None = None,
    controller_name: str = "geometric",
    progress: Callable[[float, float], None] = lambda time, total: None,
) -> Flight:
    """From rest on the ground along the legs; `progress(time, total)` is called a hundred times on the way."""
    control = controller or geometric(vehicle)
    clearance = -min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0
    start_W = Vec3(0.0, 0.0, clearance)
    state = at_rest(vehicle, start_W, quat_from_euler(0.0, 0.0, FACING_NORTH))
    command = tuple(0.0 for _ in range(len(vehicle.rotors) or 4))
    total = sum(leg.travel + leg.rest for leg in legs)
    plant = trace(_plant(vehicle), state, command)
    pilot = trace(lambda s, r: control(s, r, vehicle, ())[0], state, Reference(start_W))

    ticks = round(total / (PHYSICS_STEP * STEPS_PER_COMMAND))
    times, states, commands, references = [], [], [], []
    for tick in range(ticks + 1):
        time = tick * STEPS_PER_COMMAND * PHYSICS_STEP
        reference = along_legs(time, start_W, legs, FACING_NORTH)
        command = pilot(state, reference)
        times.append(time)
        states.append(state)
        commands.append(command)
        references.append(reference)
        if not all(np.isfinite(x) for x in (*state.p_W, *command)):
            raise FloatingPointError(f"the flight is not finite after {time:.3f} s")
        if tick % max(1, ticks // 100) == 0:
            progress(time, total)
        state = plant(state, command)
    progress(total, total)
    return Flight(
        vehicle, controller_name, np.array(times), tuple(states), tuple(commands), tuple(references), tuple(legs)
    )


def _plant(vehicle: Vehicle) -> Callable[[State, Command], State]:
    """One control period of physics under a held command."""

    def advance(state: State, command: Command) -> State:
        for _ in range(STEPS_PER_COMMAND):
            state = rk4(lambda s: derivative(s, command, vehicle, CALM), state, PHYSICS_STEP)
        return state

    return advance
