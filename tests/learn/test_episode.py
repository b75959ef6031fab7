"""The step of an episode: its physics is that of flights, its stages run when they are due, teams pay for their actions too."""

import numpy as np
import pytest

from samara.control.action_space import ACTION_SPACES
from samara.core.integrate import rk4
from samara.learn.env_config import EnvironmentSetting, configure_environment
from samara.learn.envs.gym import VectorEnv
from samara.learn.episode import StepFunctions, reset, run_stages, step
from samara.learn.observation_noise import L2F_NOISE, noisy_sensing
from samara.learn.task import Draw, trim_drone
from samara.learn.tasks import load_task
from samara.sensors.sensor import Sensor
from samara.sim.plant import Plant
from samara.sim.stage import Stage
from samara.sim.stages.sensors import receive, sample


def test_the_physics_between_two_actions_is_that_of_a_flight():
    """Bit for bit the states of a flight's plant under the same commands, four steps of 2.5 ms to an action."""
    env = VectorEnv("hover", 3, "hexarotor_x", substeps=4)
    env.reset(seed=0)
    drone, plant = env.setting.drone, Plant(env.setting.drone.vehicle, n=3, physics_us=2500)
    plant.state[:] = env._episodes[: len(plant.state)]
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 3, 6))
    for k, action in enumerate(actions):
        command_from_action = ACTION_SPACES["rotors"].command
        commands = [
            command_from_action(tuple(row), drone.trim, drone.nominal, drone.command) for row in action.tolist()
        ]
        plant.command[:] = np.array(commands).T
        plant.advance(10_000 * k, 10_000 * (k + 1))
        env.step(action)
        np.testing.assert_array_equal(env._episodes[: len(plant.state)], plant.state)


def test_a_stage_runs_at_its_ticks():
    """Every third tick from tick 2 on: 2, 5, 8 and 11 of twelve, with dt three periods"""
    count = Stage("count", "sensor", lambda n, dt: (n + dt,), ("n", "dt"), ("n",), every=3, delay=2)
    slots, counts = {"n": 0.0}, []
    for tick in range(12):
        slots = run_stages((count,), slots, 0.5, tick=float(tick))
        counts.append(slots["n"])
    assert counts == [0.0, 0.0, 1.5, 1.5, 1.5, 3.0, 3.0, 3.0, 4.5, 4.5, 4.5, 6.0]


def test_a_reading_arrives_when_its_delay_has_passed():
    """Sampled at ticks 0, 2, 4, …, each reading, the index of its tick, arrives three ticks later."""
    sensor = Sensor("counter", ("value",), ("1",), lambda state, command, vehicle, environment, normals: (state,))
    reads, sensor_parameter = ("state", "command", "environment", "memory", "queue", "dt"), (("sensor", sensor),)
    arrival = ("queue", "reading", "fresh", "silent")
    stages = (
        Stage("sample", "sensor", sample, reads, ("memory", "queue"), (*sensor_parameter, ("vehicle", None)), every=2),
        Stage("receive", "sensor", receive, arrival, ("reading", "fresh"), sensor_parameter, every=2, delay=3),
    )
    slots = {"queue": ((-1.0,),) * 2, "reading": (-1.0,), "memory": (), "command": (), "environment": (), "silent": 0.0}
    arrivals = {}
    for tick in range(10):
        slots = run_stages(stages, slots | {"state": float(tick), "fresh": 0.0}, 0.01, tick=float(tick))
        if slots["fresh"]:
            arrivals[tick] = slots["reading"][0]
    assert arrivals == {3: 0.0, 5: 2.0, 7: 4.0, 9: 6.0}


def test_a_team_pays_for_changes_of_its_actions():
    """The mean of c Σ(aₖ − aₖ₋₁)²: 0.5 · 4 · 0.3² for each of three drones, from actions of 0 at the start"""
    rewards = []
    for cost in (0.0, 0.5):
        setting = configure_environment(load_task("formation")._replace(action_change_cost=cost), "crazyflie")
        episode, _ = reset(Draw(), setting)
        rewards.append(step(episode, (0.3,) * 12, Draw(), setting)[1].reward)
    assert rewards[0] - rewards[1] == pytest.approx(0.18, rel=1e-12)


def test_the_functions_of_a_trainer_compose_to_the_step():
    """conclude(z', x, a) with z' by RK4 of derivative(z, u, x), u = command(x, a), as `step` has it"""
    setting = EnvironmentSetting(load_task("hover"), trim_drone("crazyflie"), delay=(0, 1))
    functions = StepFunctions(setting)
    uniforms = np.random.default_rng(1).uniform(0.2, 0.8, len(functions.draws)).tolist()
    episode, action = functions.reset(uniforms), (0.3, -0.2, 0.1, 1.7)
    command = functions.command(episode, action)
    state = rk4(lambda z: functions.derivative(z, command, episode), episode.situation.state, 0.01)
    assert functions.complete_step(state, episode, action) == functions.step(episode, action, "rk4")
    with pytest.raises(ValueError, match="a setting with sensors draws random numbers at every step"):
        StepFunctions(setting._replace(sensing=noisy_sensing(L2F_NOISE)))
