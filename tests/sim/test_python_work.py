"""What Python does in a flight: reported by the simulation, and true of the calls that are made."""

from dataclasses import replace

import pytest

import samara
from samara.scenario import events
from samara.scenario.events import Event, at, when
from samara.sim import simulation as flight
from samara.sim.simulation import PythonWork, Simulation, without_autopilots
from samara.sim.stage import PythonStage, insert


def hover(**settings):
    return samara.load_scenario("hover", {"duration": 1.0, **settings})


def python_work(scenario, *stages):
    simulation = Simulation(without_autopilots(scenario), stages=stages[0] if stages else lambda standard: standard)
    try:
        return simulation.python_work()
    finally:
        simulation.close()


def idle(state, reference, vehicle, memory):
    return (0.5,) * 4


class ThermalStage(PythonStage):
    rate = "wind"

    def update(self, fleet):
        pass


def test_arithmetic_alone_is_one_program():
    assert python_work(hover()) == ()
    assert python_work(samara.load_scenario("wind")) == ()


def test_a_timed_event_ends_a_call_and_a_sentence_is_watched_by_the_program():
    own = replace(hover(), events=(Event(at(0.5), events.disarm()), Event(when("time > 0.7"), events.arm())))
    assert python_work(own) == ()


@pytest.mark.parametrize(
    "scenario, work",
    [
        (
            replace(hover(), drones=(replace(hover().drones[0], controller=idle),)),
            PythonWork("controller", "controller in Python", 250.0),
        ),
        (
            replace(hover(), events=(Event(when(lambda bus: False), events.disarm()),)),
            PythonWork("events", "conditions of events", 50.0),
        ),
        (hover(integrator="rk45"), PythonWork("physics", "physics of another integrator or backend", 300.0)),
    ],
)
def test_what_python_does_is_named_with_its_rate(scenario, work):
    assert python_work(scenario) == (work,)


def test_a_stage_of_ones_own_is_called_by_its_name():
    arranged = lambda standard: insert(standard, ThermalStage(), after="wind")  # noqa: E731
    assert python_work(hover(), arranged) == (PythonWork("thermal", "a stage in Python", 50.0),)


def test_an_autopilot_is_not_started_to_be_asked():
    own = samara.load_scenario("hakoniwa_autopilot", {"drones.autopilot": {"kind": "px4", "binary": "/nowhere"}})
    assert python_work(own)[0].name == "controller"


@pytest.mark.parametrize("own", [hover(), hover(integrator="rk45")])
def test_as_many_calls_are_made_as_it_says(own, monkeypatch):
    """One program is walked through in few calls a second, and what Python does at 300 Hz takes one each time."""
    calls = []
    walk = flight.walk
    monkeypatch.setattr(flight, "walk", lambda *told: calls.append(told) or walk(*told))
    samara.fly(own)
    rate = sum(work.rate for work in python_work(own))
    assert rate <= len(calls) <= rate + 6
