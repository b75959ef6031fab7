"""Time in whole microseconds: the exact instants at which each part of a simulation is due.

A clock ticks at 0, T, 2T, … up to and including the end. The instants of a simulation are the union of all ticks and of the
times of events; between two of them the plant moves in steps that end on the physics clock or at the instant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from samara.sensors.sensor import Sensor

MICROSECONDS = 1_000_000
MAX_PERIOD = 1_000_000  # [s]: longer than any flight


def microseconds(seconds: float, name: str = "time") -> int:
    """Convert seconds to whole microseconds; raise a ValueError with the nearest ones for a time in between."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not abs(seconds) < 1e9:
        raise ValueError(f"{name} is {seconds!r}; expected a finite number of seconds")
    exact = float(seconds) * MICROSECONDS
    rounded = round(exact)
    if abs(exact - rounded) > 1e-3:  # 1e9 s in doubles is good to a tenth of a microsecond
        low, high = floor(exact), ceil(exact)
        raise ValueError(
            f"{name} is {seconds!r} s, not a whole number of microseconds; the nearest are {low} µs and {high} µs"
        )
    return rounded


def period(rate_hz: float, name: str = "rate") -> int:
    """T = 1/f in µs; raise a ValueError with the nearest two rates if T is not an integer."""
    if not isinstance(rate_hz, (int, float)) or isinstance(rate_hz, bool) or not 0.0 < rate_hz <= MICROSECONDS:
        raise ValueError(f"{name} is {rate_hz!r} Hz; expected a number above 0 and up to 1000000")
    if rate_hz < 1.0 / MAX_PERIOD:
        raise ValueError(f"{name} is {rate_hz!r} Hz; expected at least {1.0 / MAX_PERIOD:g}")
    exact = MICROSECONDS / Fraction(rate_hz).limit_denominator(10**9)
    if exact.denominator == 1:
        return int(exact)
    longer, shorter = ceil(exact), max(floor(exact), 1)
    raise ValueError(
        f"{name} is {rate_hz:g} Hz, a period of {float(exact):.3f} µs, not a whole number; the nearest are "
        f"{MICROSECONDS / longer:.10g} Hz ({longer} µs) and {MICROSECONDS / shorter:.10g} Hz ({shorter} µs)"
    )


@dataclass(frozen=True)
class Rates:
    """The rates of the clocks of a simulation [Hz]."""

    physics: float = 1000.0
    control: float = 250.0
    estimator: float = 250.0
    wind: float = 50.0
    scenario: float = 50.0
    log: float = 100.0
    sensor: float = 100.0

    def periods(self) -> dict[str, int]:
        """Return the period of each clock [µs]."""
        return {clock.name: period(getattr(self, clock.name), f"rates.{clock.name}") for clock in fields(self)}


CLOCK_ORDER = ("scenario", "wind", "sensor", "estimator", "control", "log")
"""The clocks in the order in which their stages run at one instant; the plant moves after all of them."""


def clock_ticks(period_us: int, end_us: int) -> np.ndarray:
    """0, T, 2T, … ≤ end  [µs]."""
    return np.arange(0, end_us + 1, period_us, dtype=np.int64)


class DueStages(NamedTuple):
    """A time and the clocks that tick at it: a bit for each clock of `CLOCK_ORDER`, in that order."""

    time_us: int
    due: int


@dataclass(frozen=True)
class Timeline:
    """The instants of a simulation from 0 to its end."""

    end_us: int
    periods: tuple[tuple[str, int], ...]
    extra_us: tuple[int, ...] = ()

    def instants(self) -> Iterator[DueStages]:
        """Yield every instant once, in order, the first at 0 and the last at the end."""
        next_ticks = {name: 0 for name, _ in self.periods if name != "physics"}
        periods = dict(self.periods)
        extra_times = sorted({time for time in self.extra_us if 0 <= time <= self.end_us} | {self.end_us}, reverse=True)
        bits = {name: 1 << CLOCK_ORDER.index(name) for name in next_ticks}
        while True:
            time_us = min(next_ticks.values())
            if extra_times and extra_times[-1] < time_us:
                time_us = extra_times[-1]
            if time_us > self.end_us:
                return
            if extra_times and extra_times[-1] == time_us:
                extra_times.pop()
            due = 0
            for name, tick_us in next_ticks.items():
                if tick_us == time_us:
                    due |= bits[name]
                    next_ticks[name] = tick_us + periods[name]
            yield DueStages(time_us, due)


def plant_steps(start_us: int, end_us: int, physics_us: int) -> list[tuple[int, int]]:
    """Split the time from start to end into (dt in µs, count); every step ends on the physics clock or at the end."""
    parts: list[tuple[int, int]] = []
    first_step = -start_us % physics_us
    if first_step:
        parts.append((min(first_step, end_us - start_us), 1))
        start_us += parts[0][0]
    full_steps, remainder = divmod(end_us - start_us, physics_us)
    if full_steps:
        parts.append((physics_us, full_steps))
    if remainder:
        parts.append((remainder, 1))
    return parts


def timeline(rates: Rates, duration: float, event_times_us: Sequence[int] = ()) -> Timeline:
    """Create the timeline of a scenario: its rates, its duration [s], the times of its events [µs]."""
    return Timeline(
        microseconds(duration, "duration"), tuple(rates.periods().items()), tuple(sorted(set(event_times_us)))
    )


def sampling(sensor: Sensor, clock_us: int) -> tuple[int, int]:
    """Return the sensor-clock ticks between two samples, and the delay of a reading in ticks."""
    period_us = period(sensor.rate, f"the rate of sensor {sensor.name!r}") if sensor.rate else clock_us
    if period_us % clock_us:
        raise ValueError(
            f"sensor {sensor.name!r} samples at {sensor.rate:g} Hz, which does not divide the sensor clock of "
            f"{MICROSECONDS / clock_us:g} Hz; set rates.sensor to a multiple of it"
        )
    delay_us = microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}")
    if delay_us % clock_us:
        below = delay_us // clock_us * clock_us
        raise ValueError(
            f"sensor {sensor.name!r} has a delay of {sensor.delay:g} s; expected a multiple of the sensor clock's "
            f"{clock_us / MICROSECONDS:g} s: the nearest are {below / MICROSECONDS:g} s and "
            f"{(below + clock_us) / MICROSECONDS:g} s"
        )
    return period_us // clock_us, delay_us // clock_us
