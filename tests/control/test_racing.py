"""Racing policies: their observations of gates and poles in training and in flight, and their folder."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.comparison.race import race
from samara.control.gate_observation import CourseKnowledge, RaceProgress, RacerState, course_knowledge, observe_gates
from samara.control.observation import observe_state
from samara.control.policy import policy_controller, update_race
from samara.control.policy_file import dense_tensors, mlp_layers, save_policy
from samara.control.registry import controller_spec
from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten
from samara.learn.task import Situation, trim_drone
from samara.learn.tasks.race import RaceGoal, race_task
from samara.scenario.scenario import ScenarioError
from samara.world.gates import Course, Gate
from samara.world.track import load_track

HALL = load_track("hall")
CRAFT = trim_drone("crazyflie")
SCENARIO = """
duration = 0.5
[[drones]]
name = "drone"
vehicle = "crazyflie"
airborne = true
start = [-1.5, 0.75, 0.3]
controller = { type = "policy", file = "policy/", track = "hall" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario, and an untrained policy beside it"""
    directory, rng = tmp_path_factory.mktemp("raced"), np.random.default_rng(0)
    layers = [(0.1 * rng.normal(size=(8, 32)), np.zeros(8)), (0.1 * rng.normal(size=(4, 8)), np.zeros(4))]
    description = {"task": "race_level_2", "observation": "race", "action": "thrust_and_rates", "period": 0.02}
    save_policy(directory / "policy", CRAFT.nominal, mlp_layers((8,), 4), dense_tensors(layers), **description)
    (directory / "mine.toml").write_text(SCENARIO)
    return directory


def test_observation_of_gates_and_poles() -> None:
    """The next gate faces north, the one after it west, 2 m farther north and 1 m higher; and the nearest two poles"""
    gates = (Gate(Vec3(1.0, 1.0, 1.0), math.pi / 2.0), Gate(Vec3(1.0, 3.0, 2.0), math.pi))
    poles = (Vec3(9.0, 1.0, 2.0), Vec3(1.0, 0.5, 2.0), Vec3(0.0, 0.0, 2.0))
    observation = observe_gates(Vec3(1.0, 0.0, 1.0), Course(gates, poles), RaceProgress(0.0, (1.0, 0.0, 0.0, 0.0, 0.0)))
    expected = (2.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5, 0.0, 0.0, 1.0)  # ahead is north, left is west
    np.testing.assert_allclose(observation, expected, atol=1e-15)
    last = observe_gates(Vec3(1.0, 0.0, 1.0), Course(gates), RaceProgress(1.0, (1.0, 0.0)))
    np.testing.assert_allclose(last, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0), atol=1e-15)


def test_gates_count_in_their_order() -> None:
    knowledge = course_knowledge(HALL, (), CRAFT.nominal)
    progress = knowledge.initial_progress
    for i in (1, 0, 0, 1, 2, 3):  # the second too early, the first twice
        gate = HALL.gates[i]
        direction = Vec3(math.cos(gate.yaw), math.sin(gate.yaw), 0.0)
        progress = knowledge.advance(progress, gate.p_W - direction * 0.1, gate.p_W + direction * 0.1)
    assert progress.gates_passed == 4.0 and progress.is_observed[:4] == (1.0,) * 4


def test_observations_in_flight_are_those_of_training() -> None:
    """At level 2, with displaced gates, one passed and some observed"""
    rng = np.random.default_rng(1)
    poses = [x + 0.1 * rng.normal() for x in flatten(HALL.course)]
    knowledge: CourseKnowledge = course_knowledge(HALL, poses, CRAFT.nominal)
    progress = RaceProgress(1.0, (1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    q_WB = Quat(0.9, 0.1, -0.2, math.sqrt(1.0 - 0.86))
    state = CRAFT.trim._replace(p_W=Vec3(0.8, 0.1, 0.9), v_W=Vec3(1.0, 0.2, 0.1), q_WB=q_WB)
    racer, reference, ahead = update_race(knowledge, RacerState(state.p_W, progress), state.p_W)
    observed_state = observe_state(state, reference, (0.0,) * 4, CRAFT.trim.rotor_speed)._replace(ahead=ahead)
    goal = RaceGoal(knowledge.true.gates, knowledge.true.poles, racer.progress.is_observed, 1.0)
    training_observation = race_task(2).observation(Situation(state, goal, 0.0, (0.0,) * 4), CRAFT)
    from samara.control.observation import OBSERVATIONS

    np.testing.assert_allclose(OBSERVATIONS["race"].compute(observed_state), training_observation, atol=1e-14)


def test_its_folder_flies_a_scenario_and_a_race(folder: Path) -> None:
    scenario_file = folder / "mine.toml"
    run = samara.fly(scenario_file)
    assert '"track": "hall"' in run.metadata["drones"] and np.isfinite(run.position).all()
    track = replace(HALL, time_limit=0.5)
    controller = controller_spec("policy", file=folder / "policy")
    calm = race(track, level=0, controller=controller, seeds=(0,))
    np.testing.assert_allclose(np.stack([x[-1, 0] for x in calm.p_W]), run.position[-1], atol=1e-12)
    three_flights, single_flight = (
        race(track, level=2, controller=controller, seeds=seeds) for seeds in ((0, 1, 2), (2,))
    )
    for a, b in zip(three_flights.p_W, single_flight.p_W, strict=True):
        np.testing.assert_array_equal(a[:, 2], b[:, 0])
    assert three_flights.controller == "policy" and three_flights.score.success_rate == 0.0


def test_a_policy_and_its_track_belong_together(folder: Path) -> None:
    policy = controller_spec("policy", file=folder / "policy").option_values["file"]
    with pytest.raises(ValueError, match="the policy observes 'race' and needs a track; expected a track only"):
        policy_controller(policy, CRAFT.nominal, 0.004)
    with pytest.raises(ValueError, match="course has 3 numbers; expected 28 for the gates and poles of 'hall'"):
        policy_controller(policy, CRAFT.nominal, 0.004, HALL, (1.0, 2.0, 3.0))
    for track_value, message in (
        ('"halls"', "drones[0].controller.track: no track 'halls'; expected a .toml file or one of hall, meadow"),
        ('"no.toml"', "drones[0].controller.track = 'no.toml': expected a file beside the scenario"),
        ('"../x.toml"', "drones[0].controller.track = '../x.toml': expected a file beside the scenario or below it"),
    ):
        (folder / "wrong.toml").write_text(SCENARIO.replace('"hall"', track_value))
        with pytest.raises(ScenarioError, match=re.escape(message)):
            samara.fly(folder / "wrong.toml")
