"""The files that a scenario refers to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samara.core.budget import read_bytes, resolve_sibling_path
from samara.core.sanitise import UserText
from samara.core.toml import TomlTable
from samara.physics.types import Vehicle
from samara.vehicles.effects import EffectOption


@dataclass
class ReferencedFiles:
    """The files that a scenario names with their contents, and the effects that its vehicles may have.

    A scenario file may name files in its folder, a recording those inside it. A name that the user typed may refer to any
    file; without a folder only such names are read, from the working directory.
    """

    folder: Path | None
    recorded_files: Mapping[str, bytes] | None
    effects: Sequence[EffectOption]
    contents: dict[str, bytes] = field(default_factory=dict)
    vehicles: dict[str | Path, Vehicle] = field(default_factory=dict)  # parsed, by file or text: drones may share one

    def path(self, table: TomlTable, key: str, name: str) -> Path:
        """Return the path of the file that a key names."""
        if self.recorded_files is not None:
            raise table.error(key, name, "a file inside the recording")
        if isinstance(name, UserText):
            return (self.folder or Path()) / name
        try:
            if self.folder is not None:
                return resolve_sibling_path(self.folder, name)
        except ValueError:
            pass
        raise table.error(key, name, "a file beside the scenario or below it; --vehicle and --set may name any other")

    def read_file(self, table: TomlTable, key: str, name: str) -> bytes:
        """Read the file that a key names."""
        if self.recorded_files is not None and name in self.recorded_files:
            self.contents[name] = self.recorded_files[name]
        else:
            path = self.path(table, key, name)
            try:
                self.contents[name] = read_bytes(path)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise table.error(key, name, f"a file beside the scenario ({reason})") from None
        return self.contents[name]
