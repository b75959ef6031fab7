"""What a scenario expects, against how its drones ended: of one flight, or of many with arrays in the place of numbers."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.scenario.scenario import Expect


class Ended(NamedTuple):
    """How a drone's flight ended, and the worst of it: tilt [°], distance from its reference [m], height [m]; what nobody asks
    for may be None."""

    name: str
    p_W: Any
    landed: Any
    crashed: Any
    tilt_deg: Any
    worst_error: Any
    lowest: Any


class Outcome(NamedTuple):
    """One expectation, by its field of `Expect`; of which drone, where it is asked of each; what was found, and whether it came
    true."""

    what: str
    drone: str
    value: Any
    true: Any


def outcomes(expect: Expect, drones: Sequence[Ended]) -> Iterator[Outcome]:
    """Each expectation of a scenario"""
    if expect.no_crash:
        others = [own.crashed for own in drones if own.name not in expect.crashed]
        yield Outcome("no_crash", "", None, ~np.any(others, axis=0))
    for name in expect.crashed:
        yield Outcome("crashed", name, None, np.any([own.crashed for own in drones if own.name == name], axis=0))
    if expect.final_position is not None:
        off = np.linalg.norm(np.moveaxis(np.array(drones[0].p_W), 0, -1) - np.array(expect.final_position), axis=-1)
        yield Outcome("final_position", "", off, off <= expect.within)
    if expect.landed is not None:
        yield Outcome("landed", "", None, np.all([own.landed for own in drones], axis=0) == expect.landed)
    for own in drones:
        if own.name in expect.crashed:
            continue
        if expect.max_tilt_deg is not None:
            yield Outcome("max_tilt_deg", own.name, own.tilt_deg, own.tilt_deg <= expect.max_tilt_deg)
        if expect.max_error is not None:
            yield Outcome("max_error", own.name, own.worst_error, own.worst_error <= expect.max_error)
        if expect.min_height is not None:
            yield Outcome("min_height", own.name, own.lowest, own.lowest >= expect.min_height)
