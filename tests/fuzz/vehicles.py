"""Vehicle, part and blade files: the shipped ones, with something wrong in them."""

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
from .mutate import mutated_bytes, mutated_toml, toml


@lru_cache
def documents(package: str, folder: str = "") -> tuple[dict[str, Any], ...]:
    """Every TOML file of a package"""
    where = resources.files(package).joinpath(folder) if folder else resources.files(package)
    files = sorted((own for own in where.iterdir() if own.name.endswith(".toml")), key=lambda own: own.name)
    return tuple(tomllib.loads(own.read_text(encoding="utf-8")) for own in files)


def seeds(package: str, folder: str = "") -> Callable[[], Iterable[Case]]:
    """The shipped files, each written as mutations are"""
    return lambda: [Case(toml(own).encode()) for own in documents(package, folder)]


def almost(package: str, folder: str = "") -> Callable[[Random], Case]:
    """A shipped file with something wrong in it"""

    def make(rng: Random) -> Case:
        text, told = mutated_toml(rng.choice(documents(package, folder)), rng)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.03:
            data, more = mutated_bytes(data, rng)
            told += more
        return Case(data, tuple(told))

    return make


def from_file(load: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    """The file written, and loaded"""

    def read(data: bytes, folder: Path) -> Any:
        path = folder / "own.toml"
        path.write_bytes(data)
        return load(path)

    return read


VEHICLES = Reader(
    "vehicle", seeds("samara.vehicles"), almost("samara.vehicles"), from_file(vehicle), (VehicleError,),
    lines=True, share=4,
)  # fmt: skip
PARTS = Reader(
    "part", seeds("samara.sensors", "parts"), almost("samara.sensors", "parts"),
    from_file(lambda path: (own := part(path), own.sensor().about)), (ValueError,), share=2,
)  # fmt: skip
BLADES = Reader(
    "blade", seeds("samara.propeller"), almost("samara.propeller"),
    from_file(lambda path: (own := blade(path), file_stem(own[0].name))), (ValueError,),
)  # fmt: skip
