"""One who races: what it sees of gates and poles, in training as in flight, and its folder."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.compare.race import race
from samara.control.gate_observation import Knowledge, Racer, Standing, knowledge_of, sight
from samara.control.observation import seen
from samara.control.policy import policy_controller, raced
from samara.control.policy_file import dense_tensors, mlp, save_policy
from samara.control.registry import tuned
from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten
from samara.learn.task import Situation, craft_for
from samara.learn.tasks.race import Goal, racing
from samara.scenario.scenario import ScenarioError
from samara.world.gates import Course, Gate
from samara.world.track import load_track

HALL = load_track("hall")
CRAFT = craft_for("crazyflie")
SCENARIO = """
duration = 0.5
[[drones]]
name = "drone"
vehicle = "crazyflie"
airborne = true
start = [-1.5, 0.75, 0.3]
controller = { kind = "policy", file = "policy/", track = "hall" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario, and beside it an untrained policy"""
    own, draw = tmp_path_factory.mktemp("raced"), np.random.default_rng(0)
    layers = [(0.1 * draw.normal(size=(8, 32)), np.zeros(8)), (0.1 * draw.normal(size=(4, 8)), np.zeros(4))]
    about = {"task": "race_level_2", "observation": "race", "action": "thrust_and_rates", "period": 0.02}
    save_policy(own / "policy", CRAFT.nominal, mlp((8,), 4), dense_tensors(layers), **about)
    (own / "mine.toml").write_text(SCENARIO)
    return own


def test_what_is_seen_ahead() -> None:
    """The next gate faces north and the one after it west, 2 m farther north and 1 m higher; poles, the nearest two"""
    gates = (Gate(Vec3(1.0, 1.0, 1.0), math.pi / 2.0), Gate(Vec3(1.0, 3.0, 2.0), math.pi))
    poles = (Vec3(9.0, 1.0, 2.0), Vec3(1.0, 0.5, 2.0), Vec3(0.0, 0.0, 2.0))
    numbers = sight(Vec3(1.0, 0.0, 1.0), Course(gates, poles), Standing(0.0, (1.0, 0.0, 0.0, 0.0, 0.0)))
    wanted = (2.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5, 0.0, 0.0, 1.0)  # ahead is north, left is west
    np.testing.assert_allclose(numbers, wanted, atol=1e-15)
    last = sight(Vec3(1.0, 0.0, 1.0), Course(gates), Standing(1.0, (1.0, 0.0)))
    np.testing.assert_allclose(last, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0), atol=1e-15)


def test_gates_count_in_their_order() -> None:
    knows = knowledge_of(HALL, (), CRAFT.nominal)
    standing = knows.at_start
    for k in (1, 0, 0, 1, 2, 3):  # the second too early, the first twice
        gate = HALL.gates[k]
        ahead = Vec3(math.cos(gate.yaw), math.sin(gate.yaw), 0.0)
        standing = knows.onward(standing, gate.p_W - ahead * 0.1, gate.p_W + ahead * 0.1)
    assert standing.passed == 4.0 and standing.seen[:4] == (1.0,) * 4


def test_a_policy_sees_in_flight_what_it_saw_in_training() -> None:
    """At level 2, with gates moved, one passed and some seen"""
    draw = np.random.default_rng(1)
    numbers = [x + 0.1 * draw.normal() for x in flatten(HALL.course)]
    knows: Knowledge = knowledge_of(HALL, numbers, CRAFT.nominal)
    standing = Standing(1.0, (1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    q_WB = Quat(0.9, 0.1, -0.2, math.sqrt(1.0 - 0.86))
    state = CRAFT.trim._replace(p_W=Vec3(0.8, 0.1, 0.9), v_W=Vec3(1.0, 0.2, 0.1), q_WB=q_WB)
    racer, reference, ahead = raced(knows, Racer(state.p_W, standing), state.p_W)
    own = seen(state, reference, (0.0,) * 4, CRAFT.trim.rotor_speed)._replace(ahead=ahead)
    goal = Goal(knows.true.gates, knows.true.poles, racer.standing.seen, 1.0)
    trained = racing(2).observation(Situation(state, goal, 0.0, (0.0,) * 4), CRAFT)
    from samara.control.observation import OBSERVATIONS

    np.testing.assert_allclose(OBSERVATIONS["race"].of(own), trained, atol=1e-14)


def test_its_folder_flies_a_scenario_and_a_race(folder: Path) -> None:
    own = folder / "mine.toml"
    run = samara.fly(own)
    assert '"track": "hall"' in run.metadata["drones"] and np.isfinite(run.position).all()
    track = replace(HALL, seconds=0.5)
    controller = tuned("policy", file=folder / "policy")
    calm = race(track, level=0, controller=controller, seeds=(0,))
    np.testing.assert_allclose(np.stack([x[-1, 0] for x in calm.p_W]), run.position[-1], atol=1e-12)
    one, other = (race(track, level=2, controller=controller, seeds=seeds) for seeds in ((0, 1, 2), (2,)))
    for a, b in zip(one.p_W, other.p_W, strict=True):
        np.testing.assert_array_equal(a[:, 2], b[:, 0])
    assert one.controller == "policy" and one.score.success == 0.0


def test_a_policy_and_its_track_belong_together(folder: Path) -> None:
    policy = tuned("policy", file=folder / "policy").chosen["file"]
    with pytest.raises(ValueError, match="the policy observes 'race' and needs a track; expected a track only"):
        policy_controller(policy, CRAFT.nominal, 0.004)
    with pytest.raises(ValueError, match="course has 3 numbers; expected 28 for the gates and poles of 'hall'"):
        policy_controller(policy, CRAFT.nominal, 0.004, HALL, (1.0, 2.0, 3.0))
    for wrong, sentence in (
        ('"halls"', "drones[0].controller.track: no track 'halls'; expected a .toml file or one of hall, meadow"),
        ('"no.toml"', "drones[0].controller.track = 'no.toml': expected a file beside the scenario"),
        ('"../x.toml"', "drones[0].controller.track = '../x.toml': expected a file beside the scenario or below it"),
    ):
        (folder / "wrong.toml").write_text(SCENARIO.replace('"hall"', wrong))
        with pytest.raises(ScenarioError, match=re.escape(sentence)):
            samara.fly(folder / "wrong.toml")
