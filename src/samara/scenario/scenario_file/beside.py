"""The files that a scenario names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from samara.core.named_files import path_beside, read_bytes
from samara.core.toml import Table
from samara.vehicles.effects import EffectOption


class Beside:
    """The files that a scenario names, and what was read of them; and the effects that its vehicles may have.

    A file names those in its own folder, a recording those inside it. What came as a setting a person has typed: that may be
    anywhere, and may be a program.
    """

    def __init__(
        self,
        folder: Path | None,
        inside: Mapping[str, bytes] | None,
        settings: Mapping[str, Any],
        effects: Sequence[EffectOption],
    ) -> None:
        self.folder, self.inside, self.effects = folder or Path(), inside, effects
        self._typed = set(_texts(settings)) if inside is None else set()
        self.read: dict[str, bytes] = {}

    def trusts(self, text: Any) -> bool:
        return isinstance(text, str) and text in self._typed

    def path(self, table: Table, key: str, name: str) -> Path:
        """Where the file is that a key names"""
        if self.inside is not None:
            raise table.error(key, name, "a file inside the recording")
        try:
            return self.folder / name if self.trusts(name) else path_beside(self.folder, name)
        except ValueError:
            expected = "a file beside the scenario or below it; --vehicle and --set may name any other"
            raise table.error(key, name, expected) from None

    def bytes_of(self, table: Table, key: str, name: str) -> bytes:
        """What the file that a key names holds"""
        if self.inside is not None and name in self.inside:
            self.read[name] = self.inside[name]
        else:
            path = self.path(table, key, name)
            try:
                self.read[name] = read_bytes(path)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise table.error(key, name, f"a file beside the scenario ({why})") from None
        return self.read[name]


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested tables and lists"""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
