"""Numbers that say how a flight went: how well it followed, how hard it worked, what it used."""

import math

import numpy as np

from samara.sim.run import Track
from samara.sim.summary import Measure, Summary, rms, tracking
from samara.view.signals import limits_of, supply

AT_LIMIT = 1e-6  # of the range: a command this near to its limit is at it


def measures(track: Track) -> dict[str, list[Measure]]:
    """Tables of a flight by their headings: tracking, motion, effort, and where the vehicle has a battery, energy"""
    tables = {
        "Tracking": _tracking(track),
        "Motion": _motion(track),
        "Effort": _effort(track),
        "Energy": _energy(track),
    }
    return {heading: rows for heading, rows in tables.items() if rows}


def all_measures(track: Track) -> Summary:
    """All of them in one table"""
    return Summary(own for rows in measures(track).values() for own in rows)


def _tracking(track: Track) -> list[Measure]:
    rows = tracking(track)
    if "estimate" in track.tables:
        told, true = track.tables["estimate"], track.tables["state"]
        held = np.maximum(np.searchsorted(true.times_us, told.times_us, side="right") - 1, 0)
        off = np.linalg.norm(told["p_W"] - true["p_W"][held], axis=1)
        rows.append(Measure("estimate off the truth, RMS", rms(off), "m"))
    return rows


def _motion(track: Track) -> list[Measure]:
    speed, rate = (np.linalg.norm(own, axis=1) for own in (track.velocity, track.angular_velocity))
    way = float(np.linalg.norm(np.diff(track.position, axis=0), axis=1).sum())
    rows = [
        Measure("flight time", float(track.time[-1] - track.time[0]), "s"),
        Measure("distance flown", way, "m"),
        Measure("height, largest", float(track.position[:, 2].max()), "m"),
        Measure("speed, largest", float(speed.max()), "m/s"),
        Measure("tilt, largest", math.degrees(float(track.tilt.max())), "°"),
        Measure("angular velocity, largest", math.degrees(float(rate.max())), "°/s"),
    ]
    wind = float(np.linalg.norm(track.wind, axis=1).mean())
    return [*rows, Measure("wind, mean", wind, "m/s")] if wind else rows


def _effort(track: Track) -> list[Measure]:
    """The rate of the command is the work of the motors' bearings; a command at its limit is control that was not there."""
    if not track.vehicle.rotors:
        thrust = track.command[:, 0]
        return [
            Measure("thrust, mean", float(thrust.mean()), "N"),
            Measure("thrust, largest", float(thrust.max()), "N"),
        ]
    fastest = float(track.rotor_speed.max())
    rows = [Measure("rotor speed, largest", fastest, "rad/s", f", {60.0 * fastest / (2.0 * math.pi):.0f} rpm")]
    unit = "rad/s" if track.vehicle.structure.actuation.name == "speed" else ""
    rows.append(Measure("command, mean", float(track.command.mean()), unit))
    if len(track.command_time) > 1:
        rate = rms(np.diff(track.command, axis=0) / np.diff(track.command_time)[:, None])
        rows.append(Measure("rate of command, RMS", rate, f"{unit}/s" if unit else "/s"))
    low, high = saturation(track)
    return [
        *rows,
        Measure("commands at their most", 100.0 * high, "%"),
        Measure("commands at their least", 100.0 * low, "%"),
        *([Measure("commands out of range", track.commands_cut)] if track.commands_cut else []),
    ]


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
        Measure("energy", used, "J", f", {used / 3600.0:.3g} Wh"),
        Measure("power, mean", power, "W"),
        Measure("voltage, lowest", float(supplied.voltage.min()), "V"),
        Measure("current, largest", float(supplied.current.max()), "A"),
    ]
    if track.charge is not None:
        rows.append(Measure("charge left", 100.0 * float(track.charge[-1]), "%"))
    return rows
