"""Numbers that say how a flight went: how well it followed, how hard it worked, what it used."""

import math
from typing import Any, NamedTuple

import numpy as np

from samara.sim.run import Track
from samara.view.signals import limits_of, supply

AT_LIMIT = 1e-6  # of the range: a command this near to its limit is at it
CENTIMETRES = 1.0  # [m]: shorter errors are told in cm


class Measure(NamedTuple):
    """A number with its name and unit, as it is computed (SI) and as it is told."""

    name: str
    value: float
    text: str


def measures(track: Track) -> dict[str, list[Measure]]:
    """Tables of a flight by their headings: tracking, motion, effort, and where the vehicle has a battery, energy"""
    tables = {
        "Tracking": _tracking(track),
        "Motion": _motion(track),
        "Effort": _effort(track),
        "Energy": _energy(track),
    }
    return {heading: rows for heading, rows in tables.items() if rows}


def _tracking(track: Track) -> list[Measure]:
    worst = int(track.error.argmax())
    rows = [
        _length("error, RMS", rms(track.error)),
        _length("error, largest", float(track.error[worst]), f" at {track.time[worst]:.2f} s"),
        _length("error, at the end", float(track.error[-1])),
    ]
    if "estimate" in track.tables:
        told, true = track.tables["estimate"], track.tables["state"]
        held = np.maximum(np.searchsorted(true.times_us, told.times_us, side="right") - 1, 0)
        off = np.linalg.norm(told["p_W"] - true["p_W"][held], axis=1)
        rows.append(_length("estimate off the truth, RMS", rms(off)))
    return rows


def _motion(track: Track) -> list[Measure]:
    speed, rate = (np.linalg.norm(own, axis=1) for own in (track.velocity, track.angular_velocity))
    way = float(np.linalg.norm(np.diff(track.position, axis=0), axis=1).sum())
    rows = [
        Measure("flight time", float(track.time[-1]), f"{track.time[-1]:.2f} s"),
        Measure("distance flown", way, f"{way:.2f} m"),
        Measure("height, largest", float(track.position[:, 2].max()), f"{track.position[:, 2].max():.2f} m"),
        Measure("speed, largest", float(speed.max()), f"{speed.max():.2f} m/s"),
        _angle("tilt, largest", float(track.tilt.max()), "°"),
        _angle("angular velocity, largest", float(rate.max()), "°/s"),
    ]
    wind = float(np.linalg.norm(track.wind, axis=1).mean())
    return [*rows, Measure("wind, mean", wind, f"{wind:.2f} m/s")] if wind else rows


def _effort(track: Track) -> list[Measure]:
    """The rate of the command is the work of the motors' bearings; a command at its limit is control that was not there."""
    if not track.vehicle.rotors:
        thrust = track.command[:, 0]
        return [
            Measure("thrust, mean", float(thrust.mean()), f"{thrust.mean():.3g} N"),
            Measure("thrust, largest", float(thrust.max()), f"{thrust.max():.3g} N"),
        ]
    fastest = float(track.rotor_speed.max())
    rows = [
        Measure("rotor speed, largest", fastest, f"{fastest:.0f} rad/s, {60.0 * fastest / (2.0 * math.pi):.0f} rpm")
    ]
    unit = " rad/s" if track.vehicle.structure.actuation.name == "speed" else ""
    mean = float(track.command.mean())
    rows.append(Measure("command, mean", mean, f"{mean:.3g}{unit}"))
    if len(track.command_time) > 1:
        rate = rms(np.diff(track.command, axis=0) / np.diff(track.command_time)[:, None])
        rows.append(Measure("rate of command, RMS", rate, f"{rate:.3g}{unit}/s" if unit else f"{rate:.3g} /s"))
    low, high = saturation(track)
    rows += [
        Measure("commands at their most", high, f"{100.0 * high:.2f} %"),
        Measure("commands at their least", low, f"{100.0 * low:.2f} %"),
    ]
    return rows


def saturation(track: Track) -> tuple[float, float]:
    """The shares of all commands that are at their lower and at their upper limit, from 0 to 1"""
    limits = limits_of(track.vehicle)
    if limits is None or not track.command.size:
        return 0.0, 0.0
    near = AT_LIMIT * (limits.high - limits.low)
    return float((track.command <= limits.low + near).mean()), float((track.command >= limits.high - near).mean())


def _energy(track: Track) -> list[Measure]:
    """∫ V I dt by trapezoids between the logged times, and how far the supply was drawn down"""
    supplied = supply(track)
    if supplied is None:
        return []
    used = float(np.trapezoid(supplied.voltage * supplied.current, track.time))
    power = used / max(float(np.ptp(track.time)), 1e-9)
    rows = [
        Measure("energy", used, f"{used / 1e3:.3g} kJ, {used / 3600.0:.3g} Wh"),
        Measure("power, mean", power, f"{power:.3g} W"),
        Measure("voltage, lowest", float(supplied.voltage.min()), f"{supplied.voltage.min():.2f} V"),
        Measure("current, largest", float(supplied.current.max()), f"{supplied.current.max():.1f} A"),
    ]
    if track.charge is not None:
        left = float(track.charge[-1])
        rows.append(Measure("charge left", left, f"{100.0 * left:.1f} %"))
    return rows


def rms(values: Any) -> float:
    """√mean(x²)"""
    return math.sqrt(float((np.asarray(values) ** 2).mean()))


def _length(name: str, value: float, more: str = "") -> Measure:
    told = f"{100.0 * value:.2f} cm" if value < CENTIMETRES else f"{value:.2f} m"
    return Measure(name, value, f"{told}{more}")


def _angle(name: str, value: float, unit: str) -> Measure:
    return Measure(
        name, value, f"{math.degrees(value):.1f}{unit}" if unit == "°" else f"{math.degrees(value):.0f} {unit}"
    )
