"""Document 002's three demonstrations, flown: a step response, tumbling without torque, a tilted body against a point mass."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.control.default_gains import Gains
from samara.control.geometric import geometric
from samara.core.algebra import Vec3
from samara.core.optional_dependencies import scipy
from samara.core.types import Array
from samara.documents.rigid_body.quadrotor import RigidBodyQuadrotor
from samara.physics.reference import Reference

TILT = np.radians(30.0)  # document 002's own example
STEPS = (Reference(Vec3(3.0, 0.0, 2.0)), Reference(Vec3(3.0, 3.0, 3.0), yaw=np.pi / 2))
STEP_SECONDS = 3.0
GAINS = Gains(position=2.5, attitude=Vec3(14.0, 14.0, 5.0))  # slow enough to be watched, fast enough to lean
FLAT, UNEQUAL = "Document 002's body", "Three different moments of inertia"


class DemoFlight(NamedTuple):
    """Times [s], and at each of them the state with a quaternion (13, k), the command (4, k), and where it was sent (3, k)."""

    quad: RigidBodyQuadrotor
    time: Array
    x: Array
    u: Array
    target: Array


def step_response() -> DemoFlight:
    """Twice the wanted place jumps, the second time also the yaw, and Lee's controller follows."""
    quad = RigidBodyQuadrotor()
    control = geometric(quad.vehicle, GAINS)
    start = np.zeros(12)
    start[2] = 1.0
    x = quad.quaternion_state(start)
    legs = []
    for reference in STEPS:

        def pilot(x: Array, reference: Reference = reference) -> Array:
            return np.array(control(quad.state(x), reference, quad.vehicle, ())[0])

        legs.append(_fly(quad, x, pilot, STEP_SECONDS, np.array(reference.p_W)))
        x = legs[-1].x[:, -1]
    return DemoFlight(
        quad,
        np.concatenate([leg.time + i * STEP_SECONDS for i, leg in enumerate(legs)]),
        *(np.concatenate([leg[field] for leg in legs], axis=1) for field in (2, 3, 4)),
    )


def tumbling() -> dict[str, DemoFlight]:
    """Turning about all axes at once, weightless and without torque: document 002's flat body, and one of three moments

    The second turns about its middle axis, nearly, and so turns over and over.
    """
    return {
        name: _fly(
            quad,
            quad.quaternion_state([*np.zeros(9), *omega_B]),
            _held(0.0),
            8.0,
            rtol=1e-12,
        )
        for name, quad, omega_B in (
            (FLAT, RigidBodyQuadrotor(g=0, D=0), (0.0, 2.0, 5.0)),
            (UNEQUAL, RigidBodyQuadrotor(inertia=(0.0056, 0.0081, 0.0129), g=0, D=0), (0.3, 6.0, 0.3)),
        )
    }


def tilted() -> dict[str, DemoFlight]:
    """Leaning 30° to the right with the thrust of hover, with enough to keep its height, and a point mass

    A point mass may push straight up whatever its attitude: it flies as the body does that is level.
    """
    quad = RigidBodyQuadrotor()
    hover = quad.hover_thrust()
    return {
        name: _fly(
            quad,
            quad.quaternion_state([0.0, 0.0, 10.0, 0.0, 0.0, 0.0, roll, 0.0, 0.0, 0.0, 0.0, 0.0]),
            _held(thrust),
            2.0,
        )
        for name, roll, thrust in (
            ("point mass, F = m g", 0.0, hover),
            ("rigid body, F = m g", TILT, hover),
            ("rigid body, F = m g / cos φ", TILT, hover / np.cos(TILT)),
        )
    }


def _held(thrust: float) -> Callable[[Array], Array]:
    return lambda x: np.array([thrust, 0.0, 0.0, 0.0])


def _fly(
    quad: RigidBodyQuadrotor,
    start: Array,
    pilot: Callable[[Array], Array],
    seconds: float,
    target: Any = (np.nan, np.nan, np.nan),
    rtol: float = 1e-8,
) -> DemoFlight:
    time = np.linspace(0.0, seconds, round(100 * seconds) + 1)
    flown: Any = scipy("integrate", "document 002's demonstration").solve_ivp(
        lambda t, x: quad.dynamics(t, x, pilot(x)),
        (0.0, seconds),
        start,
        method="DOP853",
        t_eval=time,
        rtol=rtol,
        atol=0.1 * rtol,
    )
    if not flown.success:
        raise FloatingPointError(flown.message)
    commands = np.array([pilot(x) for x in flown.y.T]).T
    return DemoFlight(quad, time, flown.y, commands, np.tile(np.asarray(target)[:, None], len(time)))
