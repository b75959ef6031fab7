"""`samara.load_scenario`: a scenario with the settings of a Python call, which count as typed by the user."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from samara.core.sanitise import typed
from samara.scenario import file as scenario_file
from samara.scenario.scenario import Scenario
from samara.vehicles.effects import EffectOption


def load_scenario(
    name_or_path: str | Path, settings: Mapping[str, object] | None = None, *, effects: Sequence[EffectOption] = ()
) -> Scenario:
    """Load a scenario by its shipped name or from a file, with settings such as {"duration": 5.0} put into the file first.

    The settings are trusted: they may name programs, hosts and files anywhere. Never pass settings that come from a file; those
    belong to `samara.scenario.file.load_scenario`. Vehicles may have `effects` from outside the package, as in
    `samara.vehicle`.
    """
    return scenario_file.load_scenario(name_or_path, typed(settings) if settings else None, effects=effects)
