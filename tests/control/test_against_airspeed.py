"""Controllers that know the moment of airspeed oppose it, and fly a vehicle that has it as well as one that has not."""

import numpy as np
import pytest

import samara
from samara.control.geometric import against_airspeed
from samara.control.named import CONTROLLERS
from samara.core.algebra import Vec3, quat_from_euler
from samara.scenario.scenario_file import parse_scenario

TURNED = samara.switch_on(samara.vehicle("crazyflie"), "airspeed_moment", roll=0.12, pitch=0.14)


def test_what_is_opposed_is_the_moment_that_will_act():
    """τ − τ_air at v + τ_m v̇; level, with the lift of hover, v̇ = 0 and what is left on the body is τ"""
    state, command = samara.hover(TURNED)
    moving = state._replace(v_W=Vec3(1.5, -0.5, 0.0))
    weight, wanted_B = TURNED.mass * 9.80665, Vec3(1e-5, 2e-5, 3e-6)
    acting_B = samara.wrench_breakdown(moving, command, TURNED)["airspeed_moment"].tau_B
    assert against_airspeed(weight, wanted_B, moving, TURNED) + acting_B == pytest.approx(wanted_B, rel=1e-12)
    leaning = moving._replace(q_WB=quat_from_euler(0.0, 0.2, 0.0))
    ahead = leaning._replace(v_W=leaning.v_W + Vec3(np.sin(0.2), 0.0, np.cos(0.2) - 1.0) * (9.80665 * 0.072))
    will_act_B = samara.wrench_breakdown(ahead, command, TURNED)["airspeed_moment"].tau_B
    assert against_airspeed(weight, wanted_B, leaning, TURNED) + will_act_B == pytest.approx(wanted_B, rel=1e-12)


def test_without_such_a_moment_nothing_is_added():
    state, _ = samara.hover(samara.vehicle("crazyflie"))
    wanted_B = Vec3(1e-5, 2e-5, 3e-6)
    assert against_airspeed(0.3, wanted_B, state, samara.vehicle("crazyflie")) is wanted_B


@pytest.mark.long
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_controller_arrives_in_calm_air(controller):
    """Two metres at 1 m/s, and back to rest; without knowing it geometric, mellinger and lqr end on the ground"""
    scenario = parse_scenario(
        f"""
        schema = 1
        duration = 15
        [[drones]]
        vehicle = "crazyflie"
        controller = "{controller}"
        effects = {{ airspeed_moment = {{ roll = 0.12, pitch = 0.14 }} }}
        [[drones.tasks]]
        kind = "waypoints"
        points = [[0, 0, 1.0], [2, 1, 1.5]]
        speed = 1.0
        """,
        "mine.toml",
    )
    track = samara.fly(scenario).tracks[0]
    assert np.array(track.position[-1]) == pytest.approx([2.0, 1.0, 1.5], abs=0.02)
    assert np.linalg.norm(track.velocity[-1]) < 0.02
