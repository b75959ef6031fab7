"""What a run carries of how it was flown: its scenario, and what its metadata say in tables."""

from collections.abc import Mapping
from typing import Any

from samara.core.atomic_files import parsed
from samara.record.run import Run
from samara.scenario.scenario import Scenario


def scenario_inside(run: Run) -> Scenario | None:
    """The scenario a recording carries; None where there is none, or where it names files that are not here"""
    from samara.scenario.file import parse_scenario

    text, settings = scenario_text(run)
    try:
        effects = tuple({own.name: own for each in run.tracks for own in each.vehicle.structure.options}.values())
        return (
            parse_scenario(text, "scenario.toml", settings, inside=run.attachments, effects=effects) if text else None
        )
    except (ValueError, OSError):
        return None


def scenario_text(run: Run) -> tuple[str, dict[str, Any]]:
    """The scenario as it was read, and the settings that changed it"""
    text = run.attachments.get("scenario.toml", b"").decode("utf-8", "replace")
    return text, table_said(run.metadata, "settings")


def said(metadata: Mapping[str, str], key: str) -> Any:
    """What a recording says under a key; an empty table where that cannot be read"""
    try:
        return parsed(metadata.get(key, "{}"))
    except ValueError:
        return {}


def table_said(metadata: Mapping[str, str], key: str) -> dict[str, Any]:
    """What a recording says in a table; an empty one where it says something else"""
    own = said(metadata, key)
    return own if isinstance(own, dict) else {}
