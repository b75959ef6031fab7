"""Campaigns: their files, and their folders with damaged files, links that lead out, and pipes without a writer."""

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

from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import (
    CampaignError,
    campaign_toml,
    load_campaign,
    parse_campaign,
    read_campaign,
)
from samara.campaigns.rerun import recording_path, stored_campaign
from samara.campaigns.samples import RowRange
from samara.campaigns.store import Store, exclusive_lock, open_or_create_store, open_store, rows_to_record, worst_rows
from samara.campaigns.sweep import outcome_counts
from samara.record.metrics import FLIGHT_METRICS
from samara.scenario.scenario import ScenarioError

from .law import Case, Reader
from .mutate import json_text, mutate_bytes, mutate_document, mutate_table, mutate_text, mutate_toml, toml

SCENARIO = 'duration = 0.5\n[[drones]]\nvehicle = "own.toml"\nstart = [0, 0, 1]\nairborne = true\n'
TABLE = "yaw,wind.wind_W.x\n" + "".join(f"{0.1 * k},{k}\n" for k in range(6))
ROWS = "rows/000000000000-000000000003.parquet"
CAMPAIGN_DOCUMENTS: tuple[dict[str, Any], ...] = (
    {
        "schema": 1, "name": "gusty", "scenario": "hover", "flights": 4, "seed": 7, "sampler": "latin",
        "rank_by": "max_tilt_deg",
        "settings": {"duration": 0.5, "expect": {"landed": False}, "drones.vehicle": "crazyflie_documented"},
        "vary": {
            "mass": {"normal": [1.0, 0.05], "relative": True},
            "start_W.x": {"uniform": [-0.1, 0.1]},
            "scenario.duration": {"choice": [0.5, 0.6]},
        },
        "degraded": {"max_error": 0.05}, "record": {"worst": 1, "failures": 1, "every": 2},
        "stop": {"half_width": 0.1, "confidence": 0.9},
    },
    {
        "schema": 1, "scenario": "mine.toml", "flights": 4, "samples": {"file": "cases.csv"},
        "settings": {"wind": {"model": "constant", "speed": 2.0}},
        "vary": {"drag.linear.x": {"log_uniform": [1e-3, 2e-2]}},
        "correlated": [{"names": ["start_W.x", "start_W.y"], "mean": [0, 0], "covariance": [[0.01, 0.0], [0.0, 0.01]]}],
    },
    {
        "schema": 1, "scenario": "hover", "sampler": "grid",
        "settings": {"drones.autopilot": {"type": "px4", "host": "127.0.0.1", "binary": ""}},
        "vary": {"yaw": {"grid": [0, 1, 2]}, "start_W.y": {"grid": [0, 0.1]}},
    },
)  # fmt: skip
FORBIDDEN = (
    ("drones.autopilot", {"type": "px4", "binary": "/bin/true"}),
    ("drones.autopilot", {"type": "betaflight", "host": "0.0.0.0"}),
    ("drones.vehicle", "../outside.toml/."),
    ("wind", {"model": "replay", "file": "/etc/passwd"}),
    ("drones.controller", {"type": "policy", "file": "/etc"}),
    ("drones.controller", {"type": "racer", "track": "../outside.toml/"}),
    ("drones.sensors", [{"part": "/etc/passwd.toml"}]),
    ("drones.effects", {"rotor_air": {"blade": "../b.toml/"}}),
)
"""Settings that name resources which only the user may name."""


@lru_cache
def _files() -> dict[str, bytes]:
    """Return the files beside a campaign's file."""
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
    """Return one of each type."""
    _folder()
    return [Case((toml(document).encode(), {})) for document in CAMPAIGN_DOCUMENTS]


def make(rng: Random) -> Case:
    """Create one with an error in it, in its table, or with a forbidden setting."""
    _folder()  # pyarrow reads its time zones on first use
    base = copy.deepcopy(rng.choice(CAMPAIGN_DOCUMENTS))
    files: dict[str, bytes] = {}
    kind = rng.random()
    if kind < 0.1:
        key, value = rng.choice(FORBIDDEN)
        base["settings"] = {**base.get("settings", {}), key: value}
        text, changes = toml(base), [f"{key} = {value!r}"]
    elif kind < 0.25:
        base = copy.deepcopy(CAMPAIGN_DOCUMENTS[1])
        table, changes = mutate_table(TABLE, rng)
        files["cases.csv"], text = table.encode("utf-8", "surrogatepass"), toml(base)
    else:
        text, changes = mutate_toml(base, rng)
    return Case((text.encode("utf-8", "surrogatepass"), files), tuple(changes))


def read(case_input: tuple[bytes, dict[str, bytes]], folder: Path) -> Any:
    """Load the campaign, its scenario and its first rows; writing it gives the same campaign."""
    data, files = case_input
    _write(folder, {**_files(), **files, "campaign.toml": data})
    campaign = load_campaign(folder / "campaign.toml")
    again = parse_campaign(campaign_toml(campaign), campaign.origin, folder.resolve())
    assert again == campaign or "nan" in campaign_toml(campaign), "it is read back as another"
    flying = CampaignFlights.prepare(campaign)
    rows = flying.rows(np.arange(min(2, campaign.flights)), RowRange(0, 0, campaign.flights))
    return campaign.fingerprint(), rows.values, read_campaign(folder / "campaign.toml")


CAMPAIGNS = Reader("campaign", seeds, make, read, (CampaignError, ScenarioError), share=3)

# Folders ---------------------------------------------------------------------------------------------------------------

FolderInput = tuple[dict[str, bytes], dict[str, str], tuple[str, ...]]  # files, links with their targets, pipes
LINKED = ("running", "campaign.json", "campaign.toml", "rows", "files", "flown", ROWS, "files/mine.toml", "report.html")


@lru_cache
def _folder() -> dict[str, bytes]:
    """Return the files of a campaign's folder, with four rows that were not flown."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        _write(home, {**_files(), "campaign.toml": toml(CAMPAIGN_DOCUMENTS[1]).encode()})
        campaign = load_campaign(home / "campaign.toml")
        store = open_or_create_store(campaign, read_campaign(home / "campaign.toml"), home / "out")
        words = {"outcome": ["pass", "fail", "degraded", "invalid"], "reason": ["", "crashed", "", "error"]}
        columns: dict[str, Any] = {"seed": np.arange(4)}
        columns |= {key: np.array(values, dtype=object) for key, values in {**words, "error": [""] * 4}.items()}
        columns |= {
            key: np.linspace(0.0, 1.0, 4) for key in ("margin", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
        }
        store.write(np.arange(4), columns)
        CampaignFlights.prepare(campaign)
        paths = (path for path in (home / "out").rglob("*") if path.is_file())
        return {path.relative_to(home / "out").as_posix(): path.read_bytes() for path in paths}


def folder_seeds() -> list[Case]:
    """Return an intact folder."""
    return [Case((_folder(), {}, ()))]


def make_folder(rng: Random) -> Case:
    """Create one with a damaged file, with links instead of files and directories, or with pipes."""
    files = dict(_folder())
    kind = rng.random()
    if kind < 0.6:
        header, changes = mutate_document(json.loads(files["campaign.json"]), rng)
        text = json_text(header)
        if rng.random() < 0.15:
            text, changes = mutate_text(text, rng)
        files["campaign.json"] = text.encode("utf-8", "surrogatepass")
        return Case((files, {}, ()), tuple(changes))
    if kind < 0.7:
        name = rng.choice(sorted(files))
        files[name], changes = mutate_bytes(files[name], rng)
        return Case((files, {}, ()), (name, *changes))
    if kind < 0.8:
        text, changes = mutate_toml(CAMPAIGN_DOCUMENTS[1], rng)
        files["campaign.toml"] = text.encode("utf-8", "surrogatepass")
        return Case((files, {}, ()), tuple(changes))
    if kind < 0.9:
        names = tuple(name for name in rng.sample(LINKED, rng.randrange(1, 3)) if name in files)
        return Case((files, {}, names), ("pipes", *names))
    targets = ("file", "directory", "nothing", "copy", "..", ".")
    links = {name: rng.choice(targets) for name in rng.sample(LINKED, rng.randrange(1, 4))}
    return Case((files, links, ()), tuple(f"{name} -> {target}" for name, target in links.items()))


def _write_folder(folder: Path, case_input: FolderInput) -> Path:
    """Write the folder; the targets of its links are beside it."""
    files, links, pipes = case_input
    target_folder, outside = folder / "theirs", folder / "outside"
    for directory in (target_folder, outside):
        shutil.rmtree(directory, ignore_errors=True)
    _write(target_folder, files)
    _write(outside, {"file": b"precious", "directory/file": b"precious"})
    shutil.copytree(target_folder, outside / "copy")
    for name, target in links.items():
        entry = target_folder / name
        if entry.parent.is_symlink():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.unlink(missing_ok=True)
        leads = outside / "copy" / name if target == "copy" else outside / target
        entry.symlink_to({"..": folder, ".": target_folder}.get(target, leads))
    for name in pipes:
        (target_folder / name).unlink()
        os.mkfifo(target_folder / name)
    return target_folder


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_folder(case_input: FolderInput, folder: Path) -> Any:
    """Use a folder for everything except flying; the targets of its links stay unchanged."""
    target_folder = _write_folder(folder, case_input)
    before = _contents(folder / "outside")
    try:
        return _use_folder(target_folder)
    finally:
        assert _contents(folder / "outside") == before, "something outside the folder was changed"


def _use_folder(folder: Path) -> Any:
    store = open_store(folder)
    campaign = stored_campaign(store)
    CampaignFlights.prepare(campaign)
    with exclusive_lock(folder):
        store.update_metadata(backend="llvm")
        _rewrite_rows(store)
    store.files.writable_path(recording_path(0))
    store.files.write_text("report.html", "page")
    missing_numbers = [
        numbers.tolist()
        for _, numbers in zip(range(3), (block[1] for block in store.missing_batches(1000)), strict=False)
    ]
    results = (
        outcome_counts(store),
        worst_rows(store, campaign, 2).tolist(),
        rows_to_record(store, campaign),
        len(store.row(0) or {}),
    )
    return results, store.total, missing_numbers


def _rewrite_rows(store: Store) -> None:
    """Write the rows of each file again, as confirmed rows of a GPU are."""
    for first, last in store.row_ranges():
        table = store.file(first, last)
        store.write(np.arange(first, last + 1), {name: table[name].to_pylist() for name in table.column_names[1:]})


FOLDERS = Reader(
    "campaign folder", folder_seeds, make_folder, read_folder, (CampaignError, ScenarioError, OSError), share=3
)
