"""Estimators: what each drone makes of its sensors, or of the truth and noise."""

from collections.abc import Sequence
from typing import Any

from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.estimate.fusion import Fusion, Sample, Variances
from samara.estimate.simple import TRUTH, Estimator
from samara.physics.multirotor import at_rest
from samara.physics.types import State
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup
from samara.sim.stage import RandomInputs, Stage, StageFactory, StageSet


def predict(reading: Any, fresh: Scalar, filter_state: Any, dt: Scalar, *, fusion: Fusion) -> tuple[Scalar, Any]:
    """Move the filter on by the driver's reading, which is then no longer fresh"""
    return 0.0, fusion.predict(Sample(reading, fresh), filter_state, dt)


def correct(reading: Any, fresh: Scalar, filter_state: Any, *, fusion: Fusion, sensor: Sensor) -> tuple[Scalar, Any]:
    """Correct the filter by a sensor's reading, which is then no longer fresh"""
    return 0.0, fusion.correct(sensor, Sample(reading, fresh), filter_state)


def is_stale(reading: Any, fresh: Scalar, filter_state: Any) -> Any:
    """Whether there is nothing to correct by"""
    return fresh < 0.5


def read_filter(filter_state: Any, state: State, *, fusion: Fusion) -> tuple[State, Any]:
    """The estimated motion and its variances; rotor speeds and batteries as motor controllers report them, without error"""
    estimate = fusion.estimate(filter_state)
    known = state._replace(p_W=estimate.p_W, v_W=estimate.v_W, q_WB=estimate.q_WB, omega_B=estimate.omega_B)
    return known, estimate.variances


def add_noise(
    state: State, estimator_state: Any, dt: Scalar, normals: Sequence[Scalar] = (), *, estimator: Estimator
) -> tuple[State, Any]:
    """The truth, late or with noise"""
    return estimator.update(state, normals, estimator_state, dt)


def freeze(new: State, estimate: State, frozen: Any) -> tuple[State]:
    """The new estimate, but for components that are frozen: 1 where they are, else 0"""
    pairs = zip(flatten(frozen), flatten(estimate), flatten(new), strict=True)
    return (unflatten(new, iter([where(mask > 0.5, old, now) for mask, old, now in pairs])),)


def estimate_slot(setup: DroneSetup) -> str:
    """The slot with what the controller knows: the state itself where it knows the truth"""
    return "state" if setup.estimator == TRUTH else "estimate"


def build_estimator(setup: DroneSetup) -> StageSet:
    """The stages of one drone's estimator"""
    estimator, still = setup.estimator, at_rest(setup.vehicle)
    if estimator == TRUTH:
        return StageSet()
    slots: dict[str, Any] = {"estimate": lambda state, normals: state}
    target = "new_estimate" if setup.flight.is_frozen else "estimate"
    if isinstance(estimator, Fusion):
        stages = _fusion_stages(estimator, target)
        slots["filter"] = lambda state, normals: estimator.initial(
            state, normals("estimator start", estimator.start_normals)
        )
        slots["variances"] = Variances() if estimator.knows_variances else ()
    else:
        slots["estimator_state"] = lambda state, normals: estimator.initial(state)
        count = estimator.normals_needed
        reads, writes = ("state", "estimator_state", "dt"), (target, "estimator_state")
        normals = RandomInputs("estimator", count) if count else None
        parameters = (("estimator", estimator),)
        stages = [Stage("estimator", "estimator", add_noise, reads, writes, parameters, normals, initial_dt=0.0)]
    if setup.flight.is_frozen:
        slots |= {"new_estimate": still, "frozen": tuple(0.0 for _ in flatten(still))}
        reads = ("new_estimate", "estimate", "frozen")
        stages.append(Stage("frozen estimate", "estimator", freeze, reads, ("estimate",)))
    return StageSet(tuple(stages), slots)


def _fusion_stages(fusion: Fusion, target: str) -> list[Stage]:
    """Predict by the driver's reading, correct by each of the others that is fresh"""
    driver, known = fusion.driver.name, (("fusion", fusion),)
    reads: tuple[str, ...]
    reads, writes = (f"{driver}/reading", f"{driver}/fresh", "filter", "dt"), (f"{driver}/fresh", "filter")
    stages = [Stage("prediction", "estimator", predict, reads, writes, known, initial_dt=0.0)]
    for aid in fusion.aids:
        reads, writes = (f"{aid.name}/reading", f"{aid.name}/fresh", "filter"), (f"{aid.name}/fresh", "filter")
        parameters = (*known, ("sensor", aid))
        stages.append(
            Stage(f"correction by {aid.name}", "estimator", correct, reads, writes, parameters, skip_when=is_stale)
        )
    return [*stages, Stage("estimate", "estimator", read_filter, ("filter", "state"), (target, "variances"), known)]


ESTIMATOR = StageFactory("estimator", "estimator", build_estimator)
