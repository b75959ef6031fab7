"""The folder of a campaign: what it is, and its rows as a Parquet dataset, a file for each batch.

    campaign.toml          the campaign as it was given
    campaign.json          schema, fingerprint, versions, blocks of rows
    rows/000000000000-000000004095.parquet

A file appears whole or not at all, so that a process that is killed loses the batch it was at and nothing else.
"""

import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError
from samara.campaigns.parquet import arrow
from samara.campaigns.rows import Block
from samara.campaigns.versions import version_of
from samara.core.files import atomic_write, require_writable, write_text
from samara.core.version import __version__

Array = np.ndarray[Any, Any]

SCHEMA = 1
ROWS = "rows"
ABOUT, TEXT, LOCK = "campaign.json", "campaign.toml", "running"
PACKAGES = ("numpy", "scipy", "llvmlite", "casadi", "pyarrow", "jax")


class Store:
    """A campaign's folder."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self.about = folder, about

    @property
    def blocks(self) -> list[Block]:
        """The blocks of rows that were asked for, in their order"""
        return [Block(*own) for own in self.about["blocks"]]

    @property
    def total(self) -> int:
        return sum(own.length for own in self.blocks)

    @property
    def text(self) -> str:
        """The campaign as it was given"""
        return (self.folder / TEXT).read_text(encoding="utf-8")

    def add(self, count: int) -> None:
        """One more block of rows"""
        blocks = self.blocks
        first = blocks[-1].first + blocks[-1].length if blocks else 0
        self.about["blocks"] = [*blocks, Block(len(blocks), first, count)]
        self._write()

    def note(self, **more: Any) -> None:
        """What is known of the campaign besides, in its `campaign.json`"""
        if any(self.about.get(name) != own for name, own in more.items()):
            self.about |= more
            self._write()

    def _write(self) -> None:
        write_text(self.folder / ABOUT, json.dumps(self.about, indent=1) + "\n")

    # Rows ------------------------------------------------------------------------------------------------------------

    def done(self) -> list[tuple[int, int]]:
        """First and last row of each file, in order"""
        found = []
        for path in sorted((self.folder / ROWS).glob("*.parquet")):
            first, _, last = path.stem.partition("-")
            if first.isdecimal() and last.isdecimal():
                found.append((int(first), int(last)))
        return found

    def missing(self, size: int) -> Iterator[tuple[Block, Array]]:
        """Batches of at most so many rows that no file has, each within a block"""
        have = self.done()
        for block in self.blocks:
            row, end = block.first, block.first + block.length
            for first, last in [*(own for own in have if row <= own[0] < end), (end, end)]:
                for start in range(row, first, size):
                    yield block, np.arange(start, min(start + size, first))
                row = last + 1

    def write(self, numbers: Array, columns: dict[str, Any]) -> None:
        """The rows of a batch, whole or not at all"""
        pa, _, parquet = arrow()
        table = pa.table(
            {"row": pa.array(numbers, type=pa.int64()), **{key: _column(pa, own) for key, own in columns.items()}}
        )
        table = table.replace_schema_metadata(
            {"samara": json.dumps({k: self.about[k] for k in ("schema", "fingerprint")})}
        )
        with atomic_write(self._path(int(numbers[0]), int(numbers[-1]))) as temporary:
            words = [
                own.name for own in table.schema if own.type == pa.string()
            ]  # numbers are hardly ever the same twice
            parquet.write_table(table, temporary, compression="zstd", compression_level=1, use_dictionary=words)

    def row(self, number: int) -> dict[str, Any] | None:
        """One row by its number; None where it has not flown"""
        for first, last in self.done():
            if first <= number <= last:
                return dict(self.file(first, last).slice(number - first, 1).to_pylist()[0])
        return None

    def file(self, first: int, last: int) -> Any:
        """The rows of one file, as an Arrow table"""
        return arrow()[2].read_table(self._path(first, last))

    def _path(self, first: int, last: int) -> Path:
        return self.folder / ROWS / f"{first:012d}-{last:012d}.parquet"

    def table(self, columns: Sequence[str] | None = None) -> Any:
        """All rows that are there, as an Arrow table in their order"""
        pa, _, parquet = arrow()
        files = [self._path(first, last) for first, last in self.done()]  # and not what a killed writer has left
        if not files:
            raise CampaignError(f"{self.folder}: has no rows yet; expected a campaign that has flown")
        return pa.concat_tables([parquet.read_table(own, columns=columns) for own in files])


def _column(pa: Any, values: Any) -> Any:
    own = np.asarray(values)
    return pa.array(own.tolist(), type=pa.string()) if own.dtype == object else pa.array(own)


def open_store(folder: str | Path) -> Store:
    """A campaign's folder that is there already"""
    own = Path(folder)
    path = own / ABOUT
    if not path.is_file():
        raise CampaignError(f"{folder}: holds no {ABOUT}; expected the folder of a campaign")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        schema = about["schema"]
    except (ValueError, KeyError, TypeError) as error:
        raise CampaignError(f"{path}: cannot be read ({error}); expected what samara sweep wrote") from None
    if schema != SCHEMA:
        raise CampaignError(f"{path}: schema = {schema!r}: expected {SCHEMA}")
    return Store(own, about)


def store_for(campaign: Campaign, text: str, folder: str | Path) -> Store:
    """The folder of this campaign, made where it is not there; refused where it is that of another"""
    own = Path(folder)
    if not (own / ABOUT).exists():
        if own.exists() and not _just_begun(own, text):
            raise CampaignError(f"{folder}: is not empty and holds no campaign; expected an empty folder or a new one")
        (own / ROWS).mkdir(parents=True, exist_ok=True)
        require_writable(own)
        with alone(own):
            if not (own / ABOUT).exists():  # nor made by another meanwhile
                return _made(campaign, text, own)
    store = open_store(own)
    if store.about["fingerprint"] != campaign.fingerprint():
        raise CampaignError(
            f"{folder}: holds another campaign, {store.about['name']!r}, or this one before it was changed; "
            "expected another folder, or the file as it was"
        )
    return store


def _just_begun(folder: Path, text: str) -> bool:
    """Whether a folder is empty, or has no more than what a process left that was killed while it made it for this campaign"""
    left = {own.name for own in folder.iterdir() if not own.name.startswith((f".{ABOUT}.", f".{TEXT}."))}
    return (
        left <= {ROWS, TEXT, LOCK}
        and (ROWS not in left or not any((folder / ROWS).iterdir()))
        and (TEXT not in left or (folder / TEXT).read_text(encoding="utf-8") == text)
    )


def _made(campaign: Campaign, text: str, folder: Path) -> Store:
    write_text(folder / TEXT, text)
    about = {
        "schema": SCHEMA,
        "name": campaign.name,
        "fingerprint": campaign.fingerprint(),
        "folder": campaign.folder,
        "samara": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: found for name in PACKAGES if (found := version_of(name))},
        "blocks": [],
    }
    store = Store(folder, about)
    store.add(campaign.flights)
    return store


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile; a lock that its owner's death frees"""
    import fcntl

    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CampaignError(f"{folder}: another samara sweep is writing into it; expected one at a time") from None
        yield
