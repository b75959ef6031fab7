"""Parts lists and tracks: vehicles to build and courses to race on, with something wrong in them."""

import copy
import os
from pathlib import Path
from random import Random
from typing import Any

from samara import VehicleError, vehicle
from samara.core.coerce import file_stem
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import read_parts_list
from samara.world.track import TrackError, load_track

from .law import Case, Reader
from .mutate import mutated_bytes, mutated_toml, toml
from .vehicles import documents

APC = "PROP RPM = 2000\n V J Pe Ct Cp\n" + "".join(f" {k} {0.1 * k} 0.1 {0.11 - 0.01 * k} 0.05\n" for k in range(5))
PARTS: tuple[dict[str, Any], ...] = (
    {
        "name": "racer", "mass": 0.65, "diagonal": 0.22, "motors": "2207 1950KV", "props": "5.1x4.3x3",
        "battery": "6S1300", "layout": "quad_x", "inertia": [0.002, 0.002, 0.003], "payload": 0.05,
    },
    {
        "name": "own", "mass": 1.2, "motors": "2212 920KV", "props": "10x4.7", "battery": "3S2200", "apc": "prop.dat",
        "rotors": [[0.2, 0.2, 0.0, "ccw"], [-0.2, 0.2, 0.0, "cw"], [-0.2, -0.2, 0.0, "ccw"], [0.2, -0.2, 0.0, "cw"]],
    },
)  # fmt: skip
NAMES = (
    "../x",
    "/tmp/x",
    "a/b",
    "a\0b",
    "..",
    ".x",
    "a\nb",
    "prop.dat/.",
    "pipe.dat",
    "/etc/passwd",
    "x" * 300,
    "own.toml",
)


def parts_seeds() -> list[Case]:
    """Both"""
    return [Case((toml(own).encode(), APC.encode())) for own in PARTS]


def make_parts(rng: Random) -> Case:
    """One with something wrong in it or in its propeller's file, or with a hostile name"""
    base, propeller = copy.deepcopy(rng.choice(PARTS)), APC.encode()
    kind = rng.random()
    if kind < 0.15:
        key = rng.choice(("name", "apc"))
        base[key] = rng.choice(NAMES)
        return Case((toml(base).encode(), propeller), (f"{key} = {base[key]!r}",))
    if kind < 0.25:
        propeller, told = mutated_bytes(propeller, rng)
        return Case((toml(PARTS[1]).encode(), propeller), tuple(told))
    text, told = mutated_toml(base, rng)
    return Case((text.encode("utf-8", "surrogatepass"), propeller), tuple(told))


def read_parts(given: tuple[bytes, bytes], folder: Path) -> Any:
    """The vehicle, and the file that it would be written to"""
    text, propeller = given
    (folder / "parts.toml").write_bytes(text)
    (folder / "prop.dat").write_bytes(propeller)
    if not (folder / "pipe.dat").exists():
        os.mkfifo(folder / "pipe.dat")
    own = read_parts_list(folder / "parts.toml")
    made = assemble(own)
    (folder / f"{file_stem(own.name)}.new").write_text("")
    return made.mass, [rotor.k_thrust for rotor in made.rotors]


PARTS_LISTS = Reader("parts list", parts_seeds, make_parts, read_parts, (ValueError, OSError), lines=True, share=2)


def track_seeds() -> list[Case]:
    """The shipped ones"""
    return [Case(toml(own).encode()) for own in documents("samara.tracks")]


def make_track(rng: Random) -> Case:
    """One with something wrong in it, or with a vehicle from elsewhere"""
    base = copy.deepcopy(rng.choice(documents("samara.tracks")))
    if rng.random() < 0.1:
        base["vehicle"] = rng.choice((*NAMES, "/etc/passwd.toml", "../own.toml/.", "track.toml/"))
        return Case(toml(base).encode(), (f"vehicle = {base['vehicle']!r}",))
    text, told = mutated_toml(base, rng)
    return Case(text.encode("utf-8", "surrogatepass"), tuple(told))


def read_track(data: bytes, folder: Path) -> Any:
    """The track and its vehicle"""
    (folder / "track.toml").write_bytes(data)
    own = load_track(folder / "track.toml")
    return own, vehicle(own.vehicle).mass


TRACKS = Reader("track", track_seeds, make_track, read_track, (TrackError, VehicleError), lines=True)
