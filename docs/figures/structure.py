"""Picture of flexible arms and imbalance: accelerometer signals of a hovering iris with one unbalanced propeller.

`PYTHONPATH=docs python -m figures.structure docs/images` draws it.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from samara.compiler.simulator import compile
from samara.core.atomic_files import atomic_write
from samara.core.tree import flatten, unflatten
from samara.physics.rotors.imbalance import unbalance_force
from samara.physics.structure.arms import rotor_arm
from samara.physics.types import CALM, State, Vehicle
from samara.sensors.registry import part
from samara.vehicles.build import switch_on
from samara.vehicles.defaults import free_modes
from samara.vehicles.loader import vehicle
from samara.vehicles.shape import COLOURS, INK
from samara.vehicles.trim import hover
from samara.view.plot.style import samara_style

UNBALANCE, RIPPLE = 4e-6, 0.01  # of the first propeller [kg m], and of every thrust
RATE, SETTLE, SECONDS = 1000.0, 2.0, 4.0  # [Hz, s, s]
ARMS = ((None, "-"), (60.0, "--"), (30.0, ":"))
"""First natural frequency of a clamped arm [Hz], None for stiff arms; and line style."""


def unbalanced_iris(frequency: float | None) -> Vehicle:
    """Return an iris with an unbalanced first propeller on arms of the given frequency."""
    model = switch_on(vehicle("iris"), "imbalance", unbalance=(UNBALANCE, 0.0, 0.0, 0.0), ripple=RIPPLE)
    return model if frequency is None else switch_on(model, "arms", frequency=frequency)


def measured_force(model: Vehicle) -> Any:
    """Simulate a hover with constant rotor commands; return the specific force that a BMI088 reports [m/s²]."""
    state, command = hover(model)
    simulator = compile(model, backend="llvm")
    states: list[State] = []
    for _ in range(round((SETTLE + SECONDS) * RATE)):
        state = simulator.step(state, command, 1.0 / RATE)
        states.append(state)
    settled_states = np.array([flatten(recorded_state) for recorded_state in states[round(SETTLE * RATE) :]]).T
    sensor: Any = part("bmi088", rate=RATE, calibration_residual=0.0).sensor()
    normals = tuple(np.random.default_rng(1).normal(size=(12, settled_states.shape[1])))
    reading, _ = sensor.measure(
        unflatten(state, iter(settled_states)),
        command,
        model,
        CALM,
        normals,
        sensor.initial(model, (0.0,) * 24),
        1.0 / RATE,
    )
    return reading.specific_force_B


def vibration_response(model: Vehicle, speeds: Any) -> Any:
    """Return the amplitude of the centre's acceleration in the rotor plane at each rotor speed, from the modes [m/s²]."""
    rotor = model.rotors[0]
    amplitudes = []
    for speed in speeds:
        cosine, sine = (np.array(unbalance_force(phase, speed, UNBALANCE, rotor)) for phase in (0.0, 0.5 * math.pi))
        f_B = cosine - 1j * sine
        if not model.has("arms"):
            amplitudes.append(np.linalg.norm(f_B) / math.sqrt(2.0) / model.mass)
            continue
        mass, damping, spring = free_modes(model)
        arm = rotor_arm(rotor, model["arms"])
        force = np.zeros(len(mass), dtype=complex)
        force[:3], force[3:6] = f_B, np.cross(np.array(rotor.r_B), f_B)
        force[6], force[7] = np.array(arm.axis_B) @ f_B, np.array(arm.plane_B) @ f_B
        displacement = np.linalg.solve(spring - speed**2 * mass + 1j * speed * damping, force)
        amplitudes.append(speed**2 * np.linalg.norm(displacement[:3]) / math.sqrt(2.0))
    return np.array(amplitudes)


def _spectrum(values: Any) -> Any:
    window = np.hanning(len(values))
    return np.abs(np.fft.rfft((values - values.mean()) * window)) * 2.0 / window.sum()


def draw_structure(path: str | Path) -> None:
    """Plot the accelerometer spectrum for stiff and soft arms, and the vibration amplitude over rotor speed."""
    models = [unbalanced_iris(frequency) for frequency, _ in ARMS]
    rotor_frequency = float(hover(models[0])[0].rotor_speed[0]) / (2.0 * math.pi)
    with samara_style() as plt:
        figure = plt.figure(figsize=(11.5, 5.4), layout="constrained")
        grid = figure.add_gridspec(len(models), 2, width_ratios=(1.0, 1.05))
        right = figure.add_subplot(grid[:, 1])
        for row, (model, (frequency, line_style), colour) in enumerate(zip(models, ARMS, COLOURS, strict=False)):
            name = "stiff arms" if frequency is None else f"arms of {frequency:g} Hz"
            left = figure.add_subplot(grid[row, 0])
            force = measured_force(model)
            hertz = np.fft.rfftfreq(len(force.x), 1.0 / RATE)
            left.plot(hertz, _spectrum(force.z), color="#9aa5ad", linewidth=1.0, label="up (z)")
            left.plot(hertz, _spectrum(force.x), color=colour, linewidth=1.2, label="forward (x)")
            left.set(yscale="log", ylim=(5e-4, 150.0), xlim=(0.0, 100.0), ylabel="amplitude [m/s²]")
            left.legend(loc="upper right", ncols=2, title=name, title_fontsize=9, alignment="right")
            if row == 0:
                left.set(title="In hover, at the accelerometer")
                left.annotate("once per turn", (rotor_frequency, 0.3), ha="center", fontsize=8)
                left.annotate("twice", (2.0 * rotor_frequency, 0.25), ha="center", fontsize=8)
            left.tick_params(labelbottom=row == len(models) - 1)
            speeds = np.linspace(5.0, 120.0, 461)
            right.plot(
                speeds,
                vibration_response(model, 2.0 * math.pi * speeds),
                line_style,
                color=colour,
                label=name,
                linewidth=2.0,
            )
        left.set(xlabel="frequency [Hz]")
        right.set(title="One unbalanced propeller, over rotor speed", xlabel="rotor speed [turns/s]")
        right.set(yscale="log", ylim=(2e-3, 12.0), xlim=(0.0, 120.0), ylabel="vibration of the centre [m/s²]")
        right.axvline(rotor_frequency, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
        right.annotate("hover", (rotor_frequency, 3e-3), (4, 0), textcoords="offset points", fontsize=8)
        right.legend(loc="lower right")
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")
