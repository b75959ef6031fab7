"""`samara.load_scenario`: load a scenario with the settings of a Python call, which are trusted like typed input."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from samara.core.sanitise import mark_user_text
from samara.scenario import file as scenario_file
from samara.scenario.scenario import Scenario
from samara.vehicles.effects import EffectOption


def load_scenario(
    name_or_path: str | Path, settings: Mapping[str, object] | None = None, *, effects: Sequence[EffectOption] = ()
) -> Scenario:
    """Load a scenario by its shipped name or from a file.

    Args:
        name_or_path: name of a shipped scenario, or path of a TOML file.
        settings: changes of the file by key, such as {"duration": 5.0, "drones.vehicle": "iris"}. They are trusted: they may
            name programs, hosts and files anywhere. Never pass settings that come from a file; those belong to
            `samara.scenario.file.load_scenario`.
        effects: custom effects that vehicles may have, as in `samara.vehicle`.

    Raises:
        ScenarioError: the scenario does not exist, or its file has an error.
    """
    return scenario_file.load_scenario(name_or_path, mark_user_text(settings) if settings else None, effects=effects)
