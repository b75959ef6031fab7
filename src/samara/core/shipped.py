"""The TOML files that come with Samara, by name, and people's own, by path: vehicles, scenarios, sensor parts, blades."""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

from samara.core.named_files import read_text
from samara.core.printable import shown


def is_file(name: str | Path) -> bool:
    """Whether a name is that of a file and not of something shipped; "x.toml/" and "x.toml/." are files as well."""
    return Path(name).suffix == ".toml"


class Found(NamedTuple):
    """The text of a file, what errors call it, and its folder, in which it may name others; a shipped one has none."""

    text: str
    origin: str
    folder: Path | None = None


class Shipped(NamedTuple):
    """All files of one kind: what it is called, the folder they lie in as a package, the class of its errors."""

    kind: str
    package: str
    error: type[ValueError]

    def names(self) -> list[str]:
        entries = resources.files(self.package).iterdir()
        return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".toml"))

    def find(self, name_or_path: str | Path) -> Found:
        """A shipped file by its name, or any other by its path"""
        path, name = Path(name_or_path), str(name_or_path)
        if is_file(name_or_path):
            try:
                return Found(read_text(path), path.name, path.parent)
            except (OSError, UnicodeDecodeError) as error:
                raise self.error(f"{path}: cannot be read ({error}); expected a {self.kind} file") from None
        if name not in self.names():
            known = ", ".join(self.names())
            raise self.error(f"no {self.kind} {shown(name)}; expected a .toml file or one of {known}")
        entry = resources.files(self.package).joinpath(f"{name}.toml")
        return Found(entry.read_text(encoding="utf-8"), f"{name}.toml")
