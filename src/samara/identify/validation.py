"""How far models are from real flights after a tenth, a quarter and half a second, beside saying nothing new.

Nothing is fitted to what is scored. The first seconds in the air of each flight are kept out of every score; one model, named
so, is trimmed on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.backends.simulator import Simulator
from samara.backends.simulator import compile as compile_vehicle
from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.identify.readers.nanobench import PERIOD, Flight, commands_from_pwm, read_flights
from samara.identify.windows import (
    BASELINES,
    QUANTITIES,
    UNITS,
    Array,
    Windows,
    errors,
    measured,
    predicted,
    rotor_history,
    windows_in,
)
from samara.physics.motion.body import required_torque
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load
from samara.vehicles.trim import effectiveness

VEHICLES = ("crazyflie_documented", "crazyflie")
HORIZONS = (0.1, 0.25, 0.5)  # [s]
STRIDE = 5  # samples between the starts of two windows
FLYING = 0.3  # [m]: above it the ground is no matter
TRIM = 5.0  # [s] in the air
TRIMMED = "crazyflie, trimmed"
GIVEN = "the same, attitude given"
_SPAN, _SETTLED = 10, 100  # samples
_TRIMMED_PARTS = ("rotors.k_thrust", "rotors.k_torque")


class Score(NamedTuple):
    """One flight: its name, how many windows, and by model and quantity the RMS error at every sample (samples + 1,)"""

    flight: str
    windows: int
    rms: dict[str, dict[str, Array]]


def validate(
    folder: str | Path, vehicles: Sequence[str] = VEHICLES, progress: Callable[[str], None] | None = None
) -> list[Score]:
    """Scores of every flight of a folder of NanoBench"""
    simulators = {name: compile_vehicle(load(name)) for name in vehicles}
    trimmed = compile_vehicle(load("crazyflie"), vary=_TRIMMED_PARTS)
    scores = []
    for flight in read_flights(folder):
        if progress:
            progress(flight.name)
        scores.append(score(flight, simulators, trimmed))
    return scores


def score(flight: Flight, simulators: dict[str, Simulator], trimmed: Simulator) -> Score:
    """The RMS errors of one flight, the same windows for all"""
    flying = flight.body[2] > FLYING
    aloft = int(np.argmax(flying))
    kept = np.arange(aloft, aloft + round(TRIM / PERIOD))
    usable = flying & (np.arange(len(flying)) > kept[-1]) & (flight.pwm.min(axis=0) > 0.0)
    windows = windows_in(flight.time, usable, period=PERIOD, samples=round(HORIZONS[-1] / PERIOD), stride=STRIDE)
    if not len(windows.starts):
        raise ValueError(
            f"{flight.name}: no half second in the air after the first {TRIM:g} s; expected a longer flight"
        )
    came = measured(flight.body, windows)
    said = {name: model(flight, windows, simulator) for name, simulator in simulators.items()}
    said[TRIMMED] = model(flight, windows, trimmed, kept)
    said[GIVEN] = model(flight, windows, trimmed, kept, attitude_given=True)
    said |= {name: baseline(flight.body, windows) for name, baseline in BASELINES.items()}
    rms = {
        name: {quantity: np.sqrt((own**2).mean(axis=1)) for quantity, own in errors(each, came).items()}
        for name, each in said.items()
    }
    for quantity in ("attitude", "rate"):
        rms[GIVEN][quantity] = np.full(windows.samples + 1, np.nan)  # told, not said
    return Score(flight.name, len(windows.starts), rms)


def model(
    flight: Flight,
    windows: Windows,
    simulator: Simulator,
    trim_on: Array | None = None,
    *,
    attitude_given: bool = False,
) -> Array:
    """What a vehicle says of a flight from its PWM, perhaps trimmed on some samples of it, perhaps told the attitude"""
    commands = commands_from_pwm(flight, simulator.vehicle)
    own = simulator.vehicle if trim_on is not None else None
    speeds = rotor_history(flight.body, commands, simulator, PERIOD, own)
    if trim_on is not None:
        own = trimmed_vehicle(simulator.vehicle, speeds[:, trim_on])
    return predicted(flight.body, speeds, commands, windows, simulator, own, attitude_given=attitude_given)


def trimmed_vehicle(vehicle: Vehicle, speeds: Array) -> Vehicle:
    """kᵢ ← kᵢ T⁰ᵢ / T̄ᵢ, B T⁰ = weight: on average over these speeds every rotor holds its share of level flight

    One number for each rotor. It stands for the vehicle's true weight, worn propellers, and a centre of mass off the middle.
    """
    weight = np.array([0.0, 0.0, vehicle.mass * vehicle["gravity"].acceleration, 0.0, 0.0, 0.0])
    share = np.linalg.pinv(effectiveness(vehicle)) @ weight
    rotors = []
    for rotor, lift, speed in zip(vehicle.rotors, share, speeds, strict=True):
        factor = float(lift / (rotor.k_thrust * np.mean(speed**2)))
        rotors.append(rotor._replace(k_thrust=factor * rotor.k_thrust, k_torque=factor * rotor.k_torque))
    return replace(vehicle, rotors=tuple(rotors))


class Moment(NamedTuple):
    """Torque on the body that goes with its velocity through the air: τ_x = roll v_y, τ_y = −pitch v_x [N·m per m/s], and the
    share of the unexplained torque's variance that it explains"""

    flight: str
    roll: float
    pitch: float
    explained: float


def moment_of_airspeed(flight: Flight, simulator: Simulator) -> Moment:
    """J ω̇ + ω × Jω − τ_rotors, averaged over a fifth of a second, against v_B by least squares: the torque a model lacks"""
    vehicle = simulator.vehicle
    speeds = rotor_history(flight.body, commands_from_pwm(flight, vehicle), simulator, PERIOD)
    aloft = np.flatnonzero((flight.body[2] > FLYING) & (flight.pwm.min(axis=0) > 0.0))[_SETTLED:-_SETTLED]
    lifts = np.array([[rotor.k_thrust] for rotor in trimmed_vehicle(vehicle, speeds[:, aloft]).rotors]) * speeds**2
    omega_B = flight.body[10:13]
    given = _averaged(effectiveness(vehicle)[3:] @ lifts)
    turning = (np.roll(omega_B, -_SPAN, axis=1) - np.roll(omega_B, _SPAN, axis=1)) / (2 * _SPAN * PERIOD)
    needed = required_torque(Vec3(*_averaged(omega_B)), Vec3(*turning), inertia_B=vehicle.inertia_B)
    v_B = _averaged(np.stack(rotate_inverse(Quat(*flight.body[6:10]), Vec3(*flight.body[3:6]))))
    lacking = [(own - pushed)[aloft] for own, pushed in zip(needed[:2], given[:2], strict=True)]
    regressors = np.stack([*v_B[:2, aloft], np.ones(len(aloft))], axis=1)
    found = [np.linalg.lstsq(regressors, own, rcond=None)[0] for own in lacking]
    left = [own - regressors @ slopes for own, slopes in zip(lacking, found, strict=True)]
    explained = 1.0 - sum(np.var(own) for own in left) / sum(np.var(own) for own in lacking)
    return Moment(flight.name, float(found[0][1]), float(-found[1][0]), float(explained))


def _averaged(x: Array) -> Array:
    """The mean of x over ±0.1 s by the trapezoid rule: what the difference of an integral over that time is the mean of"""
    whole = np.cumsum(0.5 * (x + np.roll(x, 1, axis=1)), axis=1)
    return (np.roll(whole, -_SPAN, axis=1) - np.roll(whole, _SPAN, axis=1)) / (2 * _SPAN)


def all_flights(scores: Sequence[Score]) -> Score:
    """√(Σ N e² / Σ N): every window of every flight counts alike"""
    counts = [own.windows for own in scores]
    rms = {
        name: {
            quantity: np.sqrt(np.average([own.rms[name][quantity] ** 2 for own in scores], axis=0, weights=counts))
            for quantity in QUANTITIES
        }
        for name in scores[0].rms
    }
    return Score("all flights", sum(counts), rms)


def table(scores: Sequence[Score]) -> str:
    """The scores as Markdown: one row for each flight and model"""
    heads = [
        f"{quantity} [{unit}] {horizon:g} s" if k == 0 else f"{horizon:g} s"
        for quantity, unit in zip(QUANTITIES, UNITS, strict=True)
        for k, horizon in enumerate(HORIZONS)
    ]
    lines = [f"| flight | model | {' | '.join(heads)} |", f"|---|---|{'---:|' * len(heads)}"]
    for own in (all_flights(scores), *scores):
        for name, rms in own.rms.items():
            numbers = [_shown(rms[quantity][round(h / PERIOD)]) for quantity in QUANTITIES for h in HORIZONS]
            lines.append(f"| {own.flight} ({own.windows}) | {name} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def _shown(error: float) -> str:
    return "–" if np.isnan(error) else f"{error:.3g}"
