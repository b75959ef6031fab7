"""Settings of a scenario as options of the command line: `--set drones.vehicle=iris`."""

from collections.abc import Iterable
from typing import Any

from samara.core.typed import typed


def typed_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Parse `--set` options; the user typed them, so they may name programs, hosts and any file."""
    from samara.scenario.file.overrides import parse_override

    return {key: typed(value) for key, value in map(parse_override, texts)}
