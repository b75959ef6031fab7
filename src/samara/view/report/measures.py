"""Numbers that say how a flight went: how well it followed, how hard it worked, what it used."""

import math

from samara.record.run import Track
from samara.record.summary import Measure, Summary, flight_time, tracking


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
    rows, off = tracking(track), track.figures.estimate_off
    return [*rows, Measure("estimate off the truth, RMS", off.root, "m")] if off.number else rows


def _motion(track: Track) -> list[Measure]:
    own = track.figures
    rows = [
        flight_time(track),
        Measure("distance flown", float(own.way.total), "m"),
        Measure("height, largest", own.highest.value, "m"),
        Measure("speed, largest", own.speed.value, "m/s"),
        Measure("tilt, largest", math.degrees(own.tilt.value), "°"),
        Measure("angular velocity, largest", math.degrees(own.rate.value), "°/s"),
    ]
    wind = float(own.wind_speed.mean)
    return [*rows, Measure("wind, mean", wind, "m/s")] if wind else rows


def _effort(track: Track) -> list[Measure]:
    """The rate of the command is the work of the motors' bearings; a command at its limit is control that was not there."""
    own = track.figures
    if not track.vehicle.rotors:
        return [
            Measure("thrust, mean", float(own.thrust.mean), "N"),
            Measure("thrust, largest", own.largest_thrust.value, "N"),
        ]
    fastest = own.rotor_speed.value
    rows = [Measure("rotor speed, largest", fastest, "rad/s", f", {60.0 * fastest / (2.0 * math.pi):.0f} rpm")]
    unit = "rad/s" if track.vehicle.structure.actuation.name == "speed" else ""
    rows.append(Measure("command, mean", float(own.command.mean), unit))
    if own.command_rate.number:
        rows.append(Measure("rate of command, RMS", own.command_rate.root, f"{unit}/s" if unit else "/s"))
    low, high = saturation(track)
    return [
        *rows,
        Measure("commands at their most", 100.0 * high, "%"),
        Measure("commands at their least", 100.0 * low, "%"),
        *([Measure("commands out of range", track.commands_cut)] if track.commands_cut else []),
    ]


def saturation(track: Track) -> tuple[float, float]:
    """The shares of all commands that are at their lower and at their upper limit, from 0 to 1"""
    low, high = track.figures.at_least, track.figures.at_most
    return (float(low.mean), float(high.mean)) if low.number else (0.0, 0.0)


def _energy(track: Track) -> list[Measure]:
    """The energy that was used, and how far the supply was drawn down"""
    own = track.figures
    if not own.energy.number:
        return []
    used = float(own.energy.total)
    power = used / max(own.ended.value - own.began.value, 1e-9)
    rows = [
        Measure("energy", used, "J", f", {used / 3600.0:.3g} Wh"),
        Measure("power, mean", power, "W"),
        Measure("voltage, lowest", own.voltage.value, "V"),
        Measure("current, largest", own.current.value, "A"),
    ]
    if own.charge.value is not None:
        rows.append(Measure("charge left", 100.0 * own.charge.value, "%"))
    return rows
