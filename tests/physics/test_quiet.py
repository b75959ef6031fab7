"""An idle effect does exactly nothing, and a step without it gives the same bits."""

import numpy as np
import pytest
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara import Environment
from samara.core.algebra import Quat, Vec3
from samara.core.integrate import FIXED_STEP_INTEGRATORS, find_integrator
from samara.core.tree import flatten
from samara.physics.ground.contact import CLEARANCE, MAX_QUATERNION_NORM_SQUARED, Ground
from samara.physics.idle_effects import is_idle, resume_effect_states, suspend_effect_states, suspend_idle_effects
from samara.physics.multirotor import derivative, state_at_rest

GRIPS = (
    0.0,
    0.0,
    1e-21,
    3e-20,
    1e-19,
    1e-170,
    1e-3,
)  # [m]: none, negligible, active, and so small that its square is 0
N = 4000


def around_the_threshold(contact, dtype, seed):
    """States from below the ground to twice the clear height, in any attitude, also between stages; planes of any slope."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(3, N))
    normal *= np.where(rng.random(N) < 0.8, 1.0, rng.uniform(0.5, 1.5, N)) / np.linalg.norm(normal, axis=0)
    q = rng.normal(size=(4, N))
    q *= np.sqrt(np.where(rng.random(N) < 0.5, 1.0, rng.uniform(0.9, 1.2, N))) / np.linalg.norm(q, axis=0)
    point = rng.normal(0.0, 10.0, size=(3, N))
    height = rng.uniform(-0.2, 2.0, N) * contact.bounding_radius / np.linalg.norm(normal, axis=0)
    p = point + normal * height

    def vec(x):
        return Vec3(*x.astype(dtype))

    sizes = rng.choice(GRIPS, size=(len(contact.points_B), 1, N), p=(0.4, 0.4, 0.1, 0.04, 0.02, 0.02, 0.02))
    grips = sizes * rng.choice([-1.0, 0.0, 1.0], size=(len(contact.points_B), 3, N))
    grips *= rng.random(N) < 0.5
    return (
        vec(p),
        Quat(*q.astype(dtype)),
        vec(rng.normal(0.0, 5.0, (3, N))),
        vec(rng.normal(0.0, 20.0, (3, N))),
        tuple(vec(grip) for grip in grips),
        Environment(ground=Ground(vec(point), vec(normal))),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_idle_contact_is_exactly_nothing(name, dtype):
    """f = 0, τ = 0, ṡ = 0 to the last bit wherever `idle` is true, and it is true wherever contact is impossible"""
    vehicle = samara.vehicle(name)
    contact, at = vehicle["contact"], vehicle.index("contact")
    effect = vehicle.structure.effects[at]
    p_W, q_WB, v_W, omega_B, grips, around = around_the_threshold(contact, dtype, 17)
    initial = state_at_rest(vehicle)
    effects = (*initial.effects[:at], grips, *initial.effects[at + 1 :])
    state = initial._replace(p_W=p_W, q_WB=q_WB, v_W=v_W, omega_B=omega_B, effects=effects)
    idle = effect.idle(grips, state, vehicle, around)
    command = (0.0,) * vehicle.command_size
    parts = flatten((effect.wrench(grips, state, command, vehicle, around),))
    parts += flatten((effect.derivative(grips, state, command, vehicle, around),))
    does = np.any([np.broadcast_to(part, N) != 0.0 for part in parts], axis=0)
    assert 0.1 * N < idle.sum() < 0.9 * N
    assert 0.1 * N < does.sum() < 0.9 * N
    assert not (idle & does).any()

    normal, square = np.array(around.ground.normal_W), sum(x * x for x in q_WB)
    height = ((np.array(p_W) - np.array(around.ground.point_W)) * normal).sum(axis=0)
    free = height > 1.001 * (contact.bounding_radius + 1.1 * CLEARANCE) * (1.0 + (normal * normal).sum(axis=0)) / 2.0
    still = np.all([[(x == 0.0) for x in grip] for grip in grips], axis=(0, 1))
    assert idle[free & still & (square < 0.999 * MAX_QUATERNION_NORM_SQUARED)].all()


@pytest.mark.parametrize("integrator", FIXED_STEP_INTEGRATORS)
def test_a_quiet_step_is_the_step(integrator):
    """If nothing was active in any stage the bits are the same; one foot in contact range in the last stage counts"""
    vehicle = samara.vehicle("crazyflie")
    advance, around, dt = find_integrator(integrator).advance, Environment(wind_W=Vec3(1.0, 2.0, 0.5)), 0.01
    state, command = samara.hover(vehicle)
    low = vehicle["contact"].bounding_radius + CLEARANCE
    states = [
        state._replace(p_W=Vec3(0.3, 0.2, low + above), v_W=Vec3(1.0, -2.0, speed), omega_B=Vec3(3.0, -2.0, 4.0))
        for above, speed in ((1.0, -3.0), (1e-4, 0.1), (0.02, -1.0), (0.02, -4.0), (-0.01, 0.0))
    ]
    idle_flags = []
    for start in states:
        complete = advance(lambda x: derivative(x, command, vehicle, around), start, dt)
        after, idle = resume_effect_states(
            advance(
                lambda x: derivative(x, command, suspend_idle_effects(vehicle), around),
                suspend_effect_states(start, vehicle),
                dt,
            )
        )
        assert not idle or flatten(after) == flatten(complete)
        idle_flags.append((bool(is_idle(start, vehicle, around)), bool(idle)))
    assert idle_flags[:3] == [(True, True)] * 3
    assert idle_flags[3] == (True, integrator in ("euler", "semi_implicit"))  # they evaluate only the start
    assert idle_flags[4] == (False, False)
