"""Parts lists and tracks: vehicles to build and courses to race on, with errors in them."""

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
from .mutate import mutate_bytes, mutate_toml, toml
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
    """Return both parts lists."""
    return [Case((toml(document).encode(), APC.encode())) for document in PARTS]


def make_parts(rng: Random) -> Case:
    """Create one with an error in it or in its propeller's file, or with a hostile name."""
    base, propeller = copy.deepcopy(rng.choice(PARTS)), APC.encode()
    kind = rng.random()
    if kind < 0.15:
        key = rng.choice(("name", "apc"))
        base[key] = rng.choice(NAMES)
        return Case((toml(base).encode(), propeller), (f"{key} = {base[key]!r}",))
    if kind < 0.25:
        propeller, changes = mutate_bytes(propeller, rng)
        return Case((toml(PARTS[1]).encode(), propeller), tuple(changes))
    text, changes = mutate_toml(base, rng)
    return Case((text.encode("utf-8", "surrogatepass"), propeller), tuple(changes))


def read_parts(case_input: tuple[bytes, bytes], folder: Path) -> Any:
    """Build the vehicle, and create the file that it would be written to."""
    text, propeller = case_input
    (folder / "parts.toml").write_bytes(text)
    (folder / "prop.dat").write_bytes(propeller)
    if not (folder / "pipe.dat").exists():
        os.mkfifo(folder / "pipe.dat")
    parts_list = read_parts_list(folder / "parts.toml")
    built = assemble(parts_list)
    (folder / f"{file_stem(parts_list.name)}.new").write_text("")
    return built.mass, [rotor.k_thrust for rotor in built.rotors]


PARTS_LISTS = Reader("parts list", parts_seeds, make_parts, read_parts, (ValueError, OSError), lines=True, share=2)


def track_seeds() -> list[Case]:
    """Return the shipped tracks."""
    return [Case(toml(document).encode()) for document in documents("samara.tracks")]


def make_track(rng: Random) -> Case:
    """Create one with an error in it, or with a vehicle from elsewhere."""
    base = copy.deepcopy(rng.choice(documents("samara.tracks")))
    if rng.random() < 0.1:
        base["vehicle"] = rng.choice((*NAMES, "/etc/passwd.toml", "../own.toml/.", "track.toml/"))
        return Case(toml(base).encode(), (f"vehicle = {base['vehicle']!r}",))
    text, changes = mutate_toml(base, rng)
    return Case(text.encode("utf-8", "surrogatepass"), tuple(changes))


def read_track(data: bytes, folder: Path) -> Any:
    """Load the track and its vehicle."""
    (folder / "track.toml").write_bytes(data)
    track = load_track(folder / "track.toml")
    return track, vehicle(track.vehicle).mass


TRACKS = Reader("track", track_seeds, make_track, read_track, (TrackError, VehicleError), lines=True)
