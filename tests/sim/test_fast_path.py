"""What makes a flight leave the fast path: said by the stages, and true of the calls that are made."""

from dataclasses import replace

import pytest

import samara
from samara.scenario import events
from samara.scenario.events import Event, at, when
from samara.sim import simulation as flight
from samara.sim.fast_path import Work, fast_path, python_work
from samara.sim.stage import Stage, insert


def hover(**settings):
    return samara.load_scenario("hover", {"duration": 1.0, **settings})


def idle(state, reference, vehicle, memory):
    return (0.5,) * 4


class ThermalStage(Stage):
    axis = "wind"

    def update(self, fleet):
        pass


def test_arithmetic_alone_is_one_program():
    assert fast_path(hover()) == "one program"
    assert fast_path(samara.load_scenario("wind")) == "one program"


def test_a_timed_event_ends_a_call_and_a_sentence_is_watched_by_the_program():
    own = replace(hover(), events=(Event(at(0.5), events.disarm()), Event(when("time > 0.7"), events.arm())))
    assert python_work(own) == ()


@pytest.mark.parametrize(
    "scenario, line",
    [
        (
            replace(hover(), drones=(replace(hover().drones[0], controller=idle),)),
            "calls of 4 ms: controller that Python calls (250 Hz)",
        ),
        (
            replace(hover(), events=(Event(when(lambda bus: False), events.disarm()),)),
            "calls of 20 ms: conditions of events that Python looks at (50 Hz)",
        ),
        (hover(integrator="rk45"), "calls of 3.33 ms: physics of another integrator or backend (300 Hz)"),
    ],
)
def test_what_python_does_is_named_with_its_rate(scenario, line):
    assert fast_path(scenario) == line


def test_a_stage_of_ones_own_is_called_by_its_name():
    arranged = lambda standard: insert(standard, ThermalStage(), after="wind")  # noqa: E731
    assert python_work(hover(), arranged) == (Work("stage 'thermal'", 50.0),)


def test_an_autopilot_is_not_started_to_be_asked():
    own = samara.load_scenario("hakoniwa_autopilot", {"drones.autopilot": {"kind": "px4", "binary": "/nowhere"}})
    assert python_work(own)[0].what == "controller that Python calls"


@pytest.mark.parametrize("own", [hover(), hover(integrator="rk45")])
def test_as_many_calls_are_made_as_it_says(own, monkeypatch):
    """One program is walked through in few calls a second, and what Python does at 300 Hz takes one each time."""
    calls = []
    walk = flight.walk
    monkeypatch.setattr(flight, "walk", lambda *told: calls.append(told) or walk(*told))
    samara.fly(own)
    rate = sum(work.rate for work in python_work(own))
    assert rate <= len(calls) <= rate + 6
