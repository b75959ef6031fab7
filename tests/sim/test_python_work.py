"""The work of Python in a flight: reported by the simulation, and consistent with the calls made."""

from dataclasses import replace

import pytest

import samara
from samara.scenario import events
from samara.scenario.events import Event, at, when
from samara.sim import simulation as flight
from samara.sim.simulation import PythonWork, Simulation, replace_autopilots
from samara.sim.stage import PythonStage, insert


def hover(**settings):
    return samara.load_scenario("hover", {"duration": 1.0, **settings})


def python_work(scenario, *stages):
    simulation = Simulation(replace_autopilots(scenario), stages=stages[0] if stages else lambda standard: standard)
    try:
        return simulation.python_work()
    finally:
        simulation.close()


def idle(state, reference, vehicle, controller_state):
    return (0.5,) * 4


class ThermalStage(PythonStage):
    rate = "wind"

    def update(self, fleet):
        pass


def test_arithmetic_alone_is_one_program():
    assert python_work(hover()) == ()
    assert python_work(samara.load_scenario("wind")) == ()


def test_timed_events_and_text_conditions_are_compiled():
    scenario = replace(hover(), events=(Event(at(0.5), events.disarm()), Event(when("time > 0.7"), events.arm())))
    assert python_work(scenario) == ()


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
def test_python_work_is_listed_with_its_rate(scenario, work):
    assert python_work(scenario) == (work,)


def test_a_custom_stage_is_listed_by_its_name():
    arrange = lambda standard: insert(standard, ThermalStage(), after="wind")  # noqa: E731
    assert python_work(hover(), arrange) == (PythonWork("thermal", "a stage in Python", 50.0),)


def test_an_autopilot_is_not_started_for_the_report():
    scenario = samara.load_scenario("hakoniwa_autopilot", {"drones.autopilot": {"type": "px4", "binary": "/nowhere"}})
    assert python_work(scenario)[0].name == "controller"


@pytest.mark.parametrize("scenario", [hover(), hover(integrator="rk45")])
def test_the_reported_rate_is_the_rate_of_calls(scenario, monkeypatch):
    """One program needs few calls per second, and work of Python at 300 Hz needs one call each time."""
    calls = []
    walk = flight.run_programs
    monkeypatch.setattr(flight, "run_programs", lambda *arguments: calls.append(arguments) or walk(*arguments))
    samara.fly(scenario)
    rate = sum(work.rate for work in python_work(scenario))
    assert rate <= len(calls) <= rate + 6
