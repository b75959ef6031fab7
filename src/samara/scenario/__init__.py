"""Scenarios: drones, tasks, events, world, and the TOML file that describes them."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.estimate import Delay, Estimate, EstimateNoise, Estimator, Fusion, Latency
    from samara.scenario.autopilot import Autopilot
    from samara.scenario.autopilot_sensors import assign_autopilot
    from samara.scenario.autopilot_types import AUTOPILOTS, AutopilotType, register
    from samara.scenario.events import (
        Event,
        add_payload,
        arm,
        at,
        at_step,
        connect_battery,
        degrade_motor,
        disarm,
        disconnect_battery,
        fail_cell,
        fail_motor,
        fail_sensor,
        follow,
        freeze_estimator,
        go_to,
        gust,
        land,
        release_load,
        restore_motor,
        restore_sensor,
        return_home,
        take_off,
        unfreeze_estimator,
        when,
        when_charge_below,
        wind_step,
    )
    from samara.scenario.file import parse_scenario, scenario_document, scenario_names
    from samara.scenario.flight_events import Occurrence, OccurrenceType
    from samara.scenario.load import load_scenario
    from samara.scenario.scenario import Drone, Expectations, Scenario, ScenarioError
    from samara.scenario.timeline import Rates
    from samara.scenario.world import Obstacle, World, box, capsule, height_map, plane, sphere
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "AUTOPILOTS",
    "Autopilot",
    "AutopilotType",
    "Delay",
    "Drone",
    "Estimate",
    "EstimateNoise",
    "Estimator",
    "Event",
    "Expectations",
    "Fusion",
    "Latency",
    "Obstacle",
    "Occurrence",
    "OccurrenceType",
    "Rates",
    "Scenario",
    "ScenarioError",
    "World",
    "add_payload",
    "arm",
    "assign_autopilot",
    "at",
    "at_step",
    "box",
    "capsule",
    "connect_battery",
    "degrade_motor",
    "disarm",
    "disconnect_battery",
    "fail_cell",
    "fail_motor",
    "fail_sensor",
    "follow",
    "freeze_estimator",
    "go_to",
    "gust",
    "height_map",
    "land",
    "load_scenario",
    "parse_scenario",
    "plane",
    "register",
    "release_load",
    "restore_motor",
    "restore_sensor",
    "return_home",
    "scenario_document",
    "scenario_names",
    "sphere",
    "take_off",
    "unfreeze_estimator",
    "when",
    "when_charge_below",
    "wind_step",
]
