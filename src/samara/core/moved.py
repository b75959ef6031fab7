"""Where modules went: the paths that programs and documents were written with still work.

A public path (`samara.algebra`) is another name for a module, for good. A path that only changed (`samara.sim.wind`) still
leads to its module, with a DeprecationWarning that says the new one. This table is all there is to it.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

PUBLIC = {
    "samara.algebra": "samara.core.algebra",
    "samara.arrays": "samara.physics.state_arrays",
    "samara.conventions": "samara.documents.conventions",
    "samara.drone_physics": "samara.documents.drone_physics",
    "samara.engine": "samara.documents.engine",
    "samara.frames": "samara.physics.frames",
    "samara.gym": "samara.learn.gym",
    "samara.integrate": "samara.core.integrate",
    "samara.neighbours": "samara.backends.neighbours",
    "samara.numbering": "samara.vehicles.numbering",
    "samara.obstacles": "samara.world.obstacles",
    "samara.ops": "samara.core.ops",
    "samara.quantity": "samara.core.quantity",
    "samara.random": "samara.core.random",
    "samara.rigid_body": "samara.documents.rigid_body",
    "samara.trim": "samara.vehicles.trim",
}

MOVED = {
    "samara.control.ilqr_backward": "samara.control.ilqr.backward",
    "samara.control.ilqr_model": "samara.control.ilqr.model",
    "samara.identify.nanobench": "samara.identify.readers.nanobench",
    "samara.link.prepare": "samara.scenario.prepare",
    "samara.matrices": "samara.core.matrices",
    "samara.physics.actuator": "samara.physics.rotors.actuator",
    "samara.physics.atmosphere": "samara.physics.air.atmosphere",
    "samara.physics.body": "samara.physics.motion.body",
    "samara.physics.contact": "samara.physics.ground.contact",
    "samara.physics.downwash": "samara.physics.air.downwash",
    "samara.physics.drag": "samara.physics.air.drag",
    "samara.physics.flapping": "samara.physics.rotors.flapping",
    "samara.physics.gravity": "samara.physics.motion.gravity",
    "samara.physics.ground_effect": "samara.physics.air.ground_effect",
    "samara.physics.impact": "samara.physics.ground.impact",
    "samara.physics.inflow": "samara.physics.rotors.inflow",
    "samara.physics.motor": "samara.physics.rotors.motor",
    "samara.physics.propulsion": "samara.physics.rotors.propulsion",
    "samara.physics.propwash": "samara.physics.air.propwash",
    "samara.physics.rotor": "samara.physics.rotors.rotor",
    "samara.physics.rotor_air": "samara.physics.rotors.rotor_air",
    "samara.physics.rotor_effects": "samara.physics.rotors.rotor_effects",
    "samara.physics.solids": "samara.physics.ground.solids",
    "samara.physics.turbulence": "samara.physics.air.turbulence",
    "samara.sim.bus": "samara.scenario.bus",
    "samara.sim.compare": "samara.record.diff",
    "samara.sim.contest": "samara.compare.contest",
    "samara.sim.events": "samara.scenario.events",
    "samara.sim.export": "samara.record.export",
    "samara.sim.impacts": "samara.sim.collide.impacts",
    "samara.sim.recorder": "samara.record.recorder",
    "samara.sim.recording": "samara.record.recording",
    "samara.sim.scenario": "samara.scenario.scenario",
    "samara.sim.wind": "samara.wind.sources",
    "samara.sim.wind_shear": "samara.wind.shear",
    "samara.sim.wind_table": "samara.wind.table",
    "samara.sim.wind_turbulence": "samara.wind.turbulence",
    "samara.sim.world": "samara.scenario.world",
    "samara.view.plan": "samara.view.plot.plan",
    "samara.view.render": "samara.view.film.render",
    "samara.view.rigid_body": "samara.documents.rigid_body.picture",
    "samara.view.shape": "samara.vehicles.shape",
    "samara.view.style": "samara.view.plot.style",
}


def new_path(name: str) -> str | None:
    """Where a module of this name is now, itself or inside a package that moved; None where it did not move"""
    own, below = name, ""
    while own.startswith("samara."):
        found = PUBLIC.get(own) or MOVED.get(own)
        if found is not None:
            return found + below
        own, _, last = own.rpartition(".")
        below = f".{last}{below}"
    return None


class _Alias(Loader):
    """Puts the module of another name where the old one is asked for: they are one and the same."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        target = new_path(name) or name
        if not any(name == own or name.startswith(f"{own}.") for own in PUBLIC):
            warnings.warn(f"{name} is now {target}", DeprecationWarning, stacklevel=2)
        sys.modules[name] = import_module(target)

    def get_code(self, name: str) -> CodeType | None:
        """For `python -m` of an old path"""
        spec = find_spec(new_path(name) or name)
        loader: Any = spec.loader if spec is not None else None
        return loader.get_code(spec.name) if spec is not None and loader is not None else None


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("samara."):
            return None
        new = new_path(fullname)
        if new is None or find_spec(new) is None:
            return None
        return ModuleSpec(fullname, _Alias(), is_package=find_spec(new).submodule_search_locations is not None)  # type: ignore[union-attr]


def install() -> None:
    """Old paths can be imported from now on"""
    if not any(isinstance(own, _Finder) for own in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
