"""Time in whole microseconds: when each part of a simulation is due, exactly.

An axis is due at 0, T, 2T, … up to and including the end. The instants of a simulation are the union of all axes and of the
times events name; between two of them the plant moves in steps that end on the physics axis or at the instant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from samara.sensors.sensor import Sensor

MICROSECONDS = 1_000_000
SLOWEST = 1_000_000  # [s]: no flight is as long as this period


def microseconds(seconds: float, what: str = "time") -> int:
    """The whole number of microseconds a time is; one that is none is refused, with its neighbours."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not abs(seconds) < 1e9:
        raise ValueError(f"{what} is {seconds!r}; expected a finite number of seconds")
    exact = float(seconds) * MICROSECONDS
    whole = round(exact)
    if abs(exact - whole) > 1e-3:  # 1e9 s in doubles is good to a tenth of a microsecond
        low, high = floor(exact), ceil(exact)
        raise ValueError(
            f"{what} is {seconds!r} s, no whole number of microseconds; the nearest are {low} µs and {high} µs"
        )
    return whole


def period(rate_hz: float, what: str = "rate") -> int:
    """T = 1/f in µs; a rate whose period is no whole number of microseconds is refused with the nearest two that are."""
    if not isinstance(rate_hz, (int, float)) or isinstance(rate_hz, bool) or not 0.0 < rate_hz <= MICROSECONDS:
        raise ValueError(f"{what} is {rate_hz!r} Hz; expected a number above 0 and up to 1000000")
    if rate_hz < 1.0 / SLOWEST:
        raise ValueError(f"{what} is {rate_hz!r} Hz; expected at least {1.0 / SLOWEST:g}")
    exact = MICROSECONDS / Fraction(rate_hz).limit_denominator(10**9)
    if exact.denominator == 1:
        return int(exact)
    longer, shorter = ceil(exact), max(floor(exact), 1)
    raise ValueError(
        f"{what} is {rate_hz:g} Hz, a period of {float(exact):.3f} µs, no whole number; the nearest are "
        f"{MICROSECONDS / longer:.10g} Hz ({longer} µs) and {MICROSECONDS / shorter:.10g} Hz ({shorter} µs)"
    )


@dataclass(frozen=True)
class Rates:
    """How often each part of a simulation is due  [Hz]"""

    physics: float = 1000.0
    autopilot: float = 250.0
    estimator: float = 250.0
    wind: float = 50.0
    scenario: float = 50.0
    log: float = 100.0
    sensor: float = 100.0

    def periods(self) -> dict[str, int]:
        """The period of each axis in µs"""
        return {own.name: period(getattr(self, own.name), f"rates.{own.name}") for own in fields(self)}


STAGES = ("scenario", "wind", "sensor", "estimator", "autopilot", "log")
"""The order of what is due at one instant; the plant moves after all of them."""


def axis(period_us: int, end_us: int) -> np.ndarray:
    """0, T, 2T, … ≤ end  [µs]"""
    return np.arange(0, end_us + 1, period_us, dtype=np.int64)


class Instant(NamedTuple):
    """A time and what is due at it: a bit for each of STAGES, in their order."""

    time_us: int
    due: int


@dataclass(frozen=True)
class Timeline:
    """The instants of a simulation from 0 to its end."""

    end_us: int
    periods: tuple[tuple[str, int], ...]
    extra_us: tuple[int, ...] = ()

    def instants(self) -> Iterator[Instant]:
        """Every instant once, in order, the first at 0 and the last at the end"""
        next_at = {name: 0 for name, _ in self.periods if name != "physics"}
        steps = dict(self.periods)
        waiting = sorted({time for time in self.extra_us if 0 <= time <= self.end_us} | {self.end_us}, reverse=True)
        bits = {name: 1 << STAGES.index(name) for name in next_at}
        while True:
            now = min(next_at.values())
            if waiting and waiting[-1] < now:
                now = waiting[-1]
            if now > self.end_us:
                return
            if waiting and waiting[-1] == now:
                waiting.pop()
            due = 0
            for name, at in next_at.items():
                if at == now:
                    due |= bits[name]
                    next_at[name] = at + steps[name]
            yield Instant(now, due)


def plant_steps(start_us: int, end_us: int, physics_us: int) -> list[tuple[int, int]]:
    """(dt in µs, how many) from start to end, every step ending on the physics axis or at the end"""
    parts: list[tuple[int, int]] = []
    to_axis = -start_us % physics_us
    if to_axis:
        parts.append((min(to_axis, end_us - start_us), 1))
        start_us += parts[0][0]
    whole, rest = divmod(end_us - start_us, physics_us)
    if whole:
        parts.append((physics_us, whole))
    if rest:
        parts.append((rest, 1))
    return parts


def timeline(rates: Rates, duration: float, event_times_us: Sequence[int] = ()) -> Timeline:
    """The timeline of a scenario: its rates, its duration in seconds, the times its events name in µs"""
    return Timeline(
        microseconds(duration, "duration"), tuple(rates.periods().items()), tuple(sorted(set(event_times_us)))
    )


def sampling(sensor: Sensor, axis_us: int) -> tuple[int, int]:
    """Ticks of the sensor axis from sample to sample, and how many later one is heard"""
    own_us = period(sensor.rate, f"the rate of sensor {sensor.name!r}") if sensor.rate else axis_us
    if own_us % axis_us:
        raise ValueError(
            f"sensor {sensor.name!r} samples at {sensor.rate:g} Hz, which does not divide the sensor axis of "
            f"{MICROSECONDS / axis_us:g} Hz; set rates.sensor to a multiple of it"
        )
    delay_us = microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}")
    if delay_us % axis_us:
        below = delay_us // axis_us * axis_us
        raise ValueError(
            f"sensor {sensor.name!r} has a delay of {sensor.delay:g} s; expected a multiple of the sensor axis' "
            f"{axis_us / MICROSECONDS:g} s: the nearest are {below / MICROSECONDS:g} s and "
            f"{(below + axis_us) / MICROSECONDS:g} s"
        )
    return own_us // axis_us, delay_us // axis_us
