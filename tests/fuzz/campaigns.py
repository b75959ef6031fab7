"""Campaigns: their files, and their folders with damaged files, links that lead out, and pipes nobody writes into."""

import copy
import json
import os
import shutil
import tempfile
from functools import lru_cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from samara.campaigns.batch import Flying
from samara.campaigns.campaign import (
    CampaignError,
    campaign_toml,
    load_campaign,
    parse_campaign,
    read_campaign,
)
from samara.campaigns.rerun import campaign_of, recording_of
from samara.campaigns.samples import Block
from samara.campaigns.store import Store, alone, kept_rows, open_store, store_for, worst_rows
from samara.campaigns.sweep import counted
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.scenario import ScenarioError

from .law import Case, Reader
from .mutate import json_text, mutated, mutated_bytes, mutated_table, mutated_text, mutated_toml, toml

SCENARIO = 'duration = 0.5\n[[drones]]\nvehicle = "own.toml"\nstart = [0, 0, 1]\nairborne = true\n'
TABLE = "yaw,wind.wind_W.x\n" + "".join(f"{0.1 * k},{k}\n" for k in range(6))
ROWS = "rows/000000000000-000000000003.parquet"
CAMPAIGNS_OF_EACH_KIND: tuple[dict[str, Any], ...] = (
    {
        "schema": 1, "name": "gusty", "scenario": "hover", "flights": 4, "seed": 7, "sampler": "latin",
        "worst_by": "tilt_deg",
        "settings": {"duration": 0.5, "expect": {"landed": False}, "drones.vehicle": "crazyflie_documented"},
        "vary": {
            "mass": {"normal": [1.0, 0.05], "relative": True},
            "start_W.x": {"uniform": [-0.1, 0.1]},
            "scenario.duration": {"choice": [0.5, 0.6]},
        },
        "degraded": {"worst_error": 0.05}, "keep": {"worst": 1, "failures": 1, "every": 2},
        "stop": {"half_width": 0.1, "confidence": 0.9},
    },
    {
        "schema": 1, "scenario": "mine.toml", "flights": 4, "table": {"file": "cases.csv"},
        "settings": {"wind": {"kind": "constant", "speed": 2.0}},
        "vary": {"drag.linear.x": {"log_uniform": [1e-3, 2e-2]}},
        "correlated": [{"names": ["start_W.x", "start_W.y"], "mean": [0, 0], "covariance": [[0.01, 0.0], [0.0, 0.01]]}],
    },
    {
        "schema": 1, "scenario": "hover", "sampler": "grid",
        "settings": {"drones.autopilot": {"kind": "px4", "host": "127.0.0.1", "binary": ""}},
        "vary": {"yaw": {"grid": [0, 1, 2]}, "start_W.y": {"grid": [0, 0.1]}},
    },
)  # fmt: skip
FORBIDDEN = (
    ("drones.autopilot", {"kind": "px4", "binary": "/bin/true"}),
    ("drones.autopilot", {"kind": "betaflight", "host": "0.0.0.0"}),
    ("drones.vehicle", "../outside.toml/."),
    ("wind", {"kind": "replay", "file": "/etc/passwd"}),
    ("drones.controller", {"kind": "policy", "file": "/etc"}),
    ("drones.controller", {"kind": "racer", "track": "../outside.toml/"}),
    ("drones.sensors", [{"part": "/etc/passwd.toml"}]),
    ("drones.effects", {"rotor_air": {"blade": "../b.toml/"}}),
)
"""Settings that name what only the user may name"""


@lru_cache
def _files() -> dict[str, bytes]:
    """What lies beside a campaign's file"""
    return {
        "mine.toml": SCENARIO.encode(),
        "cases.csv": TABLE.encode(),
        "own.toml": resources.files("samara.vehicles").joinpath("crazyflie_documented.toml").read_bytes(),
    }


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


# Files -----------------------------------------------------------------------------------------------------------------


def seeds() -> list[Case]:
    """One of each kind"""
    _folder()
    return [Case((toml(own).encode(), {})) for own in CAMPAIGNS_OF_EACH_KIND]


def make(rng: Random) -> Case:
    """One with something wrong in it, in its table, or with a setting that it may not have"""
    _folder()  # pyarrow reads its time zones at first
    base = copy.deepcopy(rng.choice(CAMPAIGNS_OF_EACH_KIND))
    files: dict[str, bytes] = {}
    kind = rng.random()
    if kind < 0.1:
        key, value = rng.choice(FORBIDDEN)
        base["settings"] = {**base.get("settings", {}), key: value}
        text, told = toml(base), [f"{key} = {value!r}"]
    elif kind < 0.25:
        base = copy.deepcopy(CAMPAIGNS_OF_EACH_KIND[1])
        table, told = mutated_table(TABLE, rng)
        files["cases.csv"], text = table.encode("utf-8", "surrogatepass"), toml(base)
    else:
        text, told = mutated_toml(base, rng)
    return Case((text.encode("utf-8", "surrogatepass"), files), tuple(told))


def read(given: tuple[bytes, dict[str, bytes]], folder: Path) -> Any:
    """The campaign, its scenario and its first rows; what is written of it is the same campaign"""
    data, files = given
    _write(folder, {**_files(), **files, "campaign.toml": data})
    campaign = load_campaign(folder / "campaign.toml")
    again = parse_campaign(campaign_toml(campaign), campaign.origin, folder.resolve())
    assert again == campaign or "nan" in campaign_toml(campaign), "it is read back as another"
    flying = Flying.of(campaign)
    rows = flying.rows(np.arange(min(2, campaign.flights)), Block(0, 0, campaign.flights))
    return campaign.fingerprint(), rows.values, read_campaign(folder / "campaign.toml")


CAMPAIGNS = Reader("campaign", seeds, make, read, (CampaignError, ScenarioError), share=3)

# Folders ---------------------------------------------------------------------------------------------------------------

Given = tuple[dict[str, bytes], dict[str, str], tuple[str, ...]]  # files, links by what they lead to, pipes
LINKED = ("running", "campaign.json", "campaign.toml", "rows", "files", "flown", ROWS, "files/mine.toml", "report.html")


@lru_cache
def _folder() -> dict[str, bytes]:
    """The files of a campaign's folder, with four rows that nobody flew"""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        _write(home, {**_files(), "campaign.toml": toml(CAMPAIGNS_OF_EACH_KIND[1]).encode()})
        own = load_campaign(home / "campaign.toml")
        store = store_for(own, read_campaign(home / "campaign.toml"), home / "out")
        words = {"outcome": ["pass", "fail", "degraded", "invalid"], "reason": ["", "crashed", "", "error"]}
        columns: dict[str, Any] = {"seed": np.arange(4)}
        columns |= {key: np.array(each, dtype=object) for key, each in {**words, "error": [""] * 4}.items()}
        columns |= {
            key: np.linspace(0.0, 1.0, 4) for key in ("margin", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
        }
        store.write(np.arange(4), columns)
        Flying.of(own)
        paths = (path for path in (home / "out").rglob("*") if path.is_file())
        return {path.relative_to(home / "out").as_posix(): path.read_bytes() for path in paths}


def folder_seeds() -> list[Case]:
    """A folder that is in order"""
    return [Case((_folder(), {}, ()))]


def make_folder(rng: Random) -> Case:
    """With a damaged file, with links in the place of files and directories, or with pipes"""
    files = dict(_folder())
    kind = rng.random()
    if kind < 0.6:
        about, told = mutated(json.loads(files["campaign.json"]), rng)
        text = json_text(about)
        if rng.random() < 0.15:
            text, told = mutated_text(text, rng)
        files["campaign.json"] = text.encode("utf-8", "surrogatepass")
        return Case((files, {}, ()), tuple(told))
    if kind < 0.7:
        name = rng.choice(sorted(files))
        files[name], told = mutated_bytes(files[name], rng)
        return Case((files, {}, ()), (name, *told))
    if kind < 0.8:
        text, told = mutated_toml(CAMPAIGNS_OF_EACH_KIND[1], rng)
        files["campaign.toml"] = text.encode("utf-8", "surrogatepass")
        return Case((files, {}, ()), tuple(told))
    if kind < 0.9:
        names = tuple(name for name in rng.sample(LINKED, rng.randrange(1, 3)) if name in files)
        return Case((files, {}, names), ("pipes", *names))
    targets = ("file", "directory", "nothing", "copy", "..", ".")
    links = {name: rng.choice(targets) for name in rng.sample(LINKED, rng.randrange(1, 4))}
    return Case((files, links, ()), tuple(f"{name} -> {target}" for name, target in links.items()))


def _place(folder: Path, given: Given) -> Path:
    """The folder as it was given; what its links lead to lies beside it"""
    files, links, pipes = given
    own, outside = folder / "theirs", folder / "outside"
    for each in (own, outside):
        shutil.rmtree(each, ignore_errors=True)
    _write(own, files)
    _write(outside, {"file": b"precious", "directory/file": b"precious"})
    shutil.copytree(own, outside / "copy")
    for name, target in links.items():
        place = own / name
        if place.parent.is_symlink():
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        leads = outside / "copy" / name if target == "copy" else outside / target
        place.symlink_to({"..": folder, ".": own}.get(target, leads))
    for name in pipes:
        (own / name).unlink()
        os.mkfifo(own / name)
    return own


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_folder(given: Given, folder: Path) -> Any:
    """All that is done with a folder but flying; nothing of what its links lead to is changed"""
    own = _place(folder, given)
    before = _contents(folder / "outside")
    try:
        return _used(own)
    finally:
        assert _contents(folder / "outside") == before, "something outside the folder was changed"


def _used(folder: Path) -> Any:
    store = open_store(folder)
    campaign = campaign_of(store)
    Flying.of(campaign)
    with alone(folder):
        store.note(backend="llvm")
        _rewritten(store)
    store.files.place_for(recording_of(0))
    store.files.write_text("report.html", "page")
    left = [numbers.tolist() for _, numbers in zip(range(3), (each[1] for each in store.missing(1000)), strict=False)]
    told = counted(store), worst_rows(store, campaign, 2).tolist(), kept_rows(store, campaign), len(store.row(0) or {})
    return told, store.total, left


def _rewritten(store: Store) -> None:
    """The rows of each file once more, as a GPU's are when they were confirmed"""
    for first, last in store.done():
        table = store.file(first, last)
        store.write(np.arange(first, last + 1), {name: table[name].to_pylist() for name in table.column_names[1:]})


FOLDERS = Reader(
    "campaign folder", folder_seeds, make_folder, read_folder, (CampaignError, ScenarioError, OSError), share=3
)
