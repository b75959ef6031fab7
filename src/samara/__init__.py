"""Samara: multirotor physics, simulation and control; every equation written once, for every backend."""

from typing import TYPE_CHECKING

from samara.compiler.scan import scan
from samara.compiler.simulator import compile
from samara.core import extras as _extras
from samara.core import lazy_import as _lazy_import
from samara.core.algebra import Quat, Vec3
from samara.core.version import __version__ as __version__
from samara.physics.effect import Effect, Role, Wrench
from samara.physics.multirotor import derivative, step, wrench, wrench_breakdown
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.build import build_vehicle, switch_on
from samara.vehicles.check import VehicleError
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import vehicle, vehicle_names
from samara.vehicles.trim import hover, thrust_to_weight
from samara.vehicles.writer import save_vehicle

if TYPE_CHECKING:  # imported on first access: each needs a backend or a file format
    from samara import (
        campaigns,
        control,
        core,
        documents,
        identify,
        learn,
        physics,
        plan,
        scenario,
        sensors,
        sim,
        vehicles,
        view,
        wind,
    )
    from samara.campaigns.sweep import sweep
    from samara.comparison.controllers import compare
    from samara.compiler.derivatives.linearize import linearize
    from samara.record.load import load_run
    from samara.record.run import Run
    from samara.scenario.file import scenario_names
    from samara.scenario.load import load_scenario
    from samara.scenario.scenario import Scenario
    from samara.sim.fly import fly
    from samara.sim.fly_many import fly_many
    from samara.sim.replay import replay
else:
    __getattr__, __dir__ = _lazy_import.lazy_exports(__name__)

__all__ = [
    "CALM",
    "Command",
    "Effect",
    "EffectOption",
    "Environment",
    "Quat",
    "Role",
    "Run",
    "Scenario",
    "State",
    "Vec3",
    "Vehicle",
    "VehicleError",
    "Wrench",
    "build_vehicle",
    "campaigns",
    "compare",
    "compile",
    "control",
    "core",
    "derivative",
    "documents",
    "fly",
    "fly_many",
    "hover",
    "identify",
    "learn",
    "linearize",
    "load_run",
    "load_scenario",
    "physics",
    "plan",
    "replay",
    "save_vehicle",
    "scan",
    "scenario",
    "scenario_names",
    "sensors",
    "sim",
    "step",
    "sweep",
    "switch_on",
    "thrust_to_weight",
    "vehicle",
    "vehicle_names",
    "vehicles",
    "view",
    "wind",
    "wrench",
    "wrench_breakdown",
]

_lazy_import.register_presenters(
    {
        "Comparison.plot": "samara.view.plot.controllers:draw_comparison",
        "Run.html": "samara.view.report.html_repr:run_html",
        "Run.plot": "samara.view.plot.plots:plot_run",
        "State.in_ned": "samara.physics.frames:state_ned_frd_from_enu_flu",
        "Summary.html": "samara.view.report.html_repr:summary_html",
        "Trajectory.html": "samara.view.report.html_repr:trajectory_html",
        "Vehicle.check": "samara.physics.inputs:check_mass",
        "Vehicle.html": "samara.view.report.html_repr:vehicle_html",
        "Vehicle.text": "samara.vehicles.description:vehicle_text",
    }
)

_extras.warn_of_other_distribution()
