"""Estimator stages: sensor fusion, or the true state with delay and noise."""

from collections.abc import Sequence

from samara.core.ops import where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.estimate.estimator import Fusion, SensorSample, Variances
from samara.estimate.ideal import TRUTH, Estimator
from samara.physics.multirotor import state_at_rest
from samara.physics.types import State
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup
from samara.sim.stage import RandomInputs, Stage, StageFactory, StageSet


def predict(reading: Tree, fresh: Scalar, filter_state: Tree, dt: Scalar, *, fusion: Fusion) -> tuple[Scalar, Tree]:
    """Predict with the reading of the driving sensor, which is then no longer fresh."""
    return 0.0, fusion.predict(SensorSample(reading, fresh), filter_state, dt)


def correct(reading: Tree, fresh: Scalar, filter_state: Tree, *, fusion: Fusion, sensor: Sensor) -> tuple[Scalar, Tree]:
    """Correct the filter with a sensor's reading, which is then no longer fresh."""
    return 0.0, fusion.correct(sensor, SensorSample(reading, fresh), filter_state)


def is_stale(reading: Tree, fresh: Scalar, filter_state: Tree) -> Tree:
    """Whether the reading has been used before."""
    return fresh < 0.5


def read_filter(filter_state: Tree, state: State, *, fusion: Fusion) -> tuple[State, Tree]:
    """Return the estimated motion and its variances; rotor speeds and batteries are the true ones, as ESCs report them."""
    estimate = fusion.estimate(filter_state)
    estimated = state._replace(p_W=estimate.p_W, v_W=estimate.v_W, q_WB=estimate.q_WB, omega_B=estimate.omega_B)
    return estimated, estimate.variances


def add_noise(
    state: State, estimator_state: Tree, dt: Scalar, normals: Sequence[Scalar] = (), *, estimator: Estimator
) -> tuple[State, Tree]:
    """Return the true state with delay or noise."""
    return estimator.update(state, normals, estimator_state, dt)


def freeze(new_estimate: State, estimate: State, frozen: Tree) -> tuple[State]:
    """Return the new estimate, with the old values of components whose `frozen` is 1."""
    pairs = zip(flatten(frozen), flatten(estimate), flatten(new_estimate), strict=True)
    return (
        unflatten(new_estimate, iter([where(mask > 0.5, old_leaf, new_leaf) for mask, old_leaf, new_leaf in pairs])),
    )


def estimate_slot(setup: DroneSetup) -> str:
    """Return the name of the slot the controller reads: "state" for the estimator `truth`."""
    return "state" if setup.estimator == TRUTH else "estimate"


def build_estimator(setup: DroneSetup) -> StageSet:
    """Build the stages of one drone's estimator."""
    estimator, rest_state = setup.estimator, state_at_rest(setup.vehicle)
    if estimator == TRUTH:
        return StageSet()
    slots: dict[str, Tree] = {"estimate": lambda state, normals: state}
    target = "new_estimate" if setup.flight.is_frozen else "estimate"
    if isinstance(estimator, Fusion):
        stages = fusion_stages(estimator, target)
        slots["filter"] = lambda state, normals: estimator.initial(
            state, normals("estimator start", estimator.start_normals)
        )
        slots["variances"] = Variances() if estimator.has_variances else ()
    else:
        slots["estimator_state"] = lambda state, normals: estimator.initial(state)
        count = estimator.normals_needed
        reads, writes = ("state", "estimator_state", "dt"), (target, "estimator_state")
        normals = RandomInputs("estimator", count) if count else None
        parameters = (("estimator", estimator),)
        stages = [Stage("estimator", "estimator", add_noise, reads, writes, parameters, normals, initial_dt=0.0)]
    if setup.flight.is_frozen:
        slots |= {"new_estimate": rest_state, "frozen": tuple(0.0 for _ in flatten(rest_state))}
        reads = ("new_estimate", "estimate", "frozen")
        stages.append(Stage("frozen estimate", "estimator", freeze, reads, ("estimate",)))
    return StageSet(tuple(stages), slots)


def fusion_stages(fusion: Fusion, target: str) -> list[Stage]:
    """Build the prediction with the driving sensor, and one correction for each of the others."""
    driver, parameters = fusion.driver.name, (("fusion", fusion),)
    reads: tuple[str, ...]
    reads, writes = (f"{driver}/reading", f"{driver}/fresh", "filter", "dt"), (f"{driver}/fresh", "filter")
    stages = [Stage("prediction", "estimator", predict, reads, writes, parameters, initial_dt=0.0)]
    for aid in fusion.aids:
        reads, writes = (f"{aid.name}/reading", f"{aid.name}/fresh", "filter"), (f"{aid.name}/fresh", "filter")
        sensor_parameters = (*parameters, ("sensor", aid))
        stages.append(
            Stage(
                f"correction by {aid.name}", "estimator", correct, reads, writes, sensor_parameters, skip_when=is_stale
            )
        )
    writes = (target, "variances")
    return [*stages, Stage("estimate", "estimator", read_filter, ("filter", "state"), writes, parameters)]


ESTIMATOR = StageFactory("estimator", "estimator", build_estimator)
