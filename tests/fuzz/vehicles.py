"""Vehicle, part and blade files: the shipped ones, with errors in them."""

import tomllib
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

from samara import VehicleError, vehicle
from samara.core.coerce import file_stem
from samara.propeller.blade import blade
from samara.sensors.registry import part

from .law import Case, Reader
from .mutate import mutate_bytes, mutate_toml, toml


@lru_cache
def documents(package: str, folder: str = "") -> tuple[dict[str, Any], ...]:
    """Return every TOML file of a package."""
    package_folder = resources.files(package).joinpath(folder) if folder else resources.files(package)
    files = sorted(
        (entry for entry in package_folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name
    )
    return tuple(tomllib.loads(entry.read_text(encoding="utf-8")) for entry in files)


def seeds(package: str, folder: str = "") -> Callable[[], Iterable[Case]]:
    """Return the shipped files, each formatted as mutations are."""
    return lambda: [Case(toml(document).encode()) for document in documents(package, folder)]


def mutate_shipped(package: str, folder: str = "") -> Callable[[Random], Case]:
    """Return a function that creates a shipped file with an error in it."""

    def make(rng: Random) -> Case:
        text, changes = mutate_toml(rng.choice(documents(package, folder)), rng)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.03:
            data, further_changes = mutate_bytes(data, rng)
            changes += further_changes
        return Case(data, tuple(changes))

    return make


def write_and_load(load: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    """Return a function that writes the file, and loads it."""

    def read(data: bytes, folder: Path) -> Any:
        path = folder / "own.toml"
        path.write_bytes(data)
        return load(path)

    return read


VEHICLES = Reader(
    "vehicle", seeds("samara.vehicles"), mutate_shipped("samara.vehicles"), write_and_load(vehicle), (VehicleError,),
    lines=True, share=4,
)  # fmt: skip
PARTS = Reader(
    "part", seeds("samara.sensors", "parts"), mutate_shipped("samara.sensors", "parts"),
    write_and_load(lambda path: (sensor_part := part(path), sensor_part.sensor().model)), (ValueError,), share=2,
)  # fmt: skip
BLADES = Reader(
    "blade", seeds("samara.propeller"), mutate_shipped("samara.propeller"),
    write_and_load(lambda path: (parsed := blade(path), file_stem(parsed[0].name))), (ValueError,),
)  # fmt: skip
