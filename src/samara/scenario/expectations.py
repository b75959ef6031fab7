"""The expectations of a scenario, evaluated for one flight, or for a batch with arrays instead of scalars."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.quantities import position_error
from samara.scenario.scenario import Expectations


class DroneResult(NamedTuple):
    """How a drone's flight ended; `metric` returns a metric of the flight by its name, as in `samara.record.metrics`."""

    name: str
    p_W: Vec3 | Array
    landed: Scalar
    crashed: Scalar
    metric: Callable[[str], Scalar]


class ExpectationResult(NamedTuple):
    """One expectation by its field of `Expectations`; its drone, if evaluated per drone; the value; whether it is satisfied."""

    field: str
    drone: str
    value: Scalar
    satisfied: Scalar


class MetricLimit(NamedTuple):
    """An expectation that bounds a metric: the name of both, and whether the bound is a minimum."""

    metric: str
    is_minimum: bool = False


LIMITS = (
    MetricLimit("max_tilt_deg"),
    MetricLimit("max_error"),
    MetricLimit("min_height", is_minimum=True),
)


def evaluate_expectations(expect: Expectations, drones: Sequence[DroneResult]) -> Iterator[ExpectationResult]:
    """Evaluate each expectation of a scenario. Only metrics that it bounds are requested."""
    if expect.no_crash:
        crashed = [drone.crashed for drone in drones if drone.name not in expect.crashed]
        yield ExpectationResult("no_crash", "", None, ~np.any(crashed, axis=0))
    for name in expect.crashed:
        crashed = [drone.crashed for drone in drones if drone.name == name]
        yield ExpectationResult("crashed", name, None, np.any(crashed, axis=0))
    if expect.final_position is not None:
        error = np.asarray(position_error(Vec3(*drones[0].p_W), Vec3(*expect.final_position)))
        yield ExpectationResult("final_position", "", error, error <= expect.position_tolerance)
    if expect.landed is not None:
        yield ExpectationResult("landed", "", None, np.all([drone.landed for drone in drones], axis=0) == expect.landed)
    for drone in drones:
        if drone.name in expect.crashed:
            continue
        for limit in LIMITS:
            bound = getattr(expect, limit.metric)
            if bound is not None:
                value = drone.metric(limit.metric)
                yield ExpectationResult(
                    limit.metric, drone.name, value, value >= bound if limit.is_minimum else value <= bound
                )


def relative_margin(outcome: ExpectationResult, expect: Expectations) -> Scalar:
    """(limit − value)/|limit|, negative if the expectation fails; None if it does not bound a number."""
    if outcome.field == "final_position":
        return (expect.position_tolerance - np.asarray(outcome.value)) / max(abs(expect.position_tolerance), 1e-12)
    for limit in LIMITS:
        bound = getattr(expect, limit.metric)
        if limit.metric == outcome.field and bound is not None:
            sign = -1.0 if limit.is_minimum else 1.0
            return sign * (bound - np.asarray(outcome.value)) / max(abs(bound), 1e-12)
    return None
