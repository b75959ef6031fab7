"""The folder of a campaign: its definition, and its rows as a Parquet dataset with one file per batch.

    campaign.toml          the campaign's original file
    campaign.json          schema, fingerprint, versions, blocks of rows
    files/...              copies of the scenario, vehicles and tables that it names
    rows/000000000000-000000004095.parquet

Files are written atomically, so that a killed process loses only its current batch. The folder may be untrusted: it is accessed
through `ConfinedFolder`, and names no file outside itself.
"""

import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from os.path import lexists
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from samara.campaigns.campaign import MAX_FLIGHTS, Campaign, CampaignError
from samara.campaigns.outcome import DEGRADED, ERROR, FAIL, INVALID, OUTCOMES, PASS, badness
from samara.campaigns.samples import RowRange, arrow
from samara.control.registry import controller_name
from samara.core.atomic_files import parse_json, require_writable
from samara.core.budget import MAX_TEXT_BYTES, read_bytes
from samara.core.confined_folder import ConfinedFolder, lock_exclusively
from samara.core.extras import import_extra
from samara.core.quantity import Scalar
from samara.core.sanitise import escape_control_characters
from samara.core.toml import TomlFile, TomlTable
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.metrics import FLIGHT_METRICS

SCHEMA = 1
ROWS, FILES = "rows", "files"
ROWS_FILE = re.compile(r"([0-9]{12})-([0-9]{12})\.parquet")
REQUIRED_COLUMNS = ("row", "seed", "outcome", "reason", "error", *FLIGHT_METRICS, "final_x", "final_y", "final_z")
BACKENDS = ("llvm", "jax", "pallas")
CONFIRMATION_KEYS = ("failures", "failures_again", "flown_again", "disagree")
METADATA_FILE, CAMPAIGN_FILE, LOCK_FILE = "campaign.json", "campaign.toml", "running"
PACKAGES = ("numpy", "scipy", "llvmlite", "pyarrow", "jax")
BIT_RELEVANT_PACKAGES = ("numpy", "llvmlite")  # the packages that, with Samara, determine the bits of a flight


class Store:
    """The folder of a campaign."""

    def __init__(self, folder: Path, metadata: dict[str, Scalar]) -> None:
        self.folder, self.metadata, self.files = folder, metadata, ConfinedFolder(folder)

    @property
    def blocks(self) -> list[RowRange]:
        """The requested blocks of rows, in order."""
        return [RowRange(*block) for block in self.metadata["blocks"]]

    @property
    def total(self) -> int:
        return sum(block.length for block in self.blocks)

    @property
    def text(self) -> str:
        """The text of the campaign's original file."""
        return read_confined_text(self.files, CAMPAIGN_FILE)

    def add(self, count: int) -> None:
        """Append a block of `count` rows to the request."""
        blocks = self.blocks
        first = blocks[-1].first + blocks[-1].length if blocks else 0
        self.metadata["blocks"] = [*blocks, RowRange(len(blocks), first, count)]
        self._write()

    def update_metadata(self, **entries: object) -> None:
        """Add entries to `campaign.json`."""
        if any(self.metadata.get(name) != value for name, value in entries.items()):
            self.metadata |= entries
            self._write()

    def _write(self) -> None:
        self.files.write_text(METADATA_FILE, json.dumps(self.metadata, indent=1) + "\n")

    # Rows ------------------------------------------------------------------------------------------------------------

    def row_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last row of each file, in order."""
        matches = (ROWS_FILE.fullmatch(name) for name in self.files.names(ROWS))
        ranges = [(int(match[1]), int(match[2])) for match in matches if match]
        return [(first, last) for first, last in ranges if first <= last]

    def missing_batches(self, size: int) -> Iterator[tuple[RowRange, Array]]:
        """Yield batches of at most `size` rows that no file has, each within one block."""
        ranges = self.row_ranges()
        for block in self.blocks:
            row, end = block.first, block.first + block.length
            for first, last in [*(file for file in ranges if row <= file[0] < end), (end, end)]:
                for start in range(row, first, size):
                    yield block, np.arange(start, min(start + size, first))
                row = last + 1

    def write(self, numbers: Array, columns: Mapping[str, ArrayLike]) -> None:
        """Write the rows of a batch atomically."""
        pa, _, parquet = arrow()
        table = pa.table({"row": pa.array(numbers, type=pa.int64()), **{k: _column(pa, v) for k, v in columns.items()}})
        metadata = {key: self.metadata[key] for key in ("schema", "fingerprint")}
        table = table.replace_schema_metadata({"samara": json.dumps(metadata)})
        texts = [field.name for field in table.schema if field.type == pa.string()]  # numbers rarely repeat
        with self.files.write(_rows_file(int(numbers[0]), int(numbers[-1]))) as file:
            parquet.write_table(table, file, compression="zstd", compression_level=1, use_dictionary=texts)

    def row(self, number: int) -> dict[str, Scalar] | None:
        """Return one row by its number; None if it has not flown."""
        for first, last in self.row_ranges():
            if first <= number <= last:
                return dict(self.file(first, last).slice(number - first, 1).to_pylist()[0])
        return None

    def file(self, first: int, last: int, columns: Sequence[str] | None = None) -> Scalar:
        """Return the rows of one file as an Arrow table."""
        pa, _, parquet = arrow()
        name = _rows_file(first, last)
        try:
            with self.files.open(name) as file:
                # use_threads=False: an Arrow thread may hold a Python buffer when the process ends, which aborts it
                rows = parquet.ParquetFile(file, pre_buffer=False)
                table = rows.read(list(columns) if columns else None, use_threads=False)
        except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise _read_error(self.folder / name, error) from None
        except OSError as error:  # pyarrow's errors about damage have no file name
            raise (error if error.filename else _read_error(self.folder / name, error)) from None
        missing = [column for column in columns or REQUIRED_COLUMNS if column not in table.column_names]
        if missing or table.num_rows != last - first + 1:
            problem = f"has no column {missing[0]}" if missing else f"has {table.num_rows} rows"
            raise CampaignError(f"{self.folder / name}: {problem}; expected the rows {first} to {last} of samara sweep")
        for key, allowed in (("row", range(first, last + 1)), ("outcome", OUTCOMES)):
            if key in table.column_names and not _has_allowed_values(table[key].to_pylist(), allowed):
                raise CampaignError(f"{self.folder / name}: column {key}: expected values written by samara sweep")
        return table

    def table(self, columns: Sequence[str] | None = None) -> Scalar:
        """Return all completed rows as an Arrow table, in order."""
        pa, _, _ = arrow()
        tables = [
            self.file(first, last, columns) for first, last in self.row_ranges()
        ]  # ignores files of a killed writer
        if not tables:
            raise CampaignError(f"{self.folder}: has no rows yet; expected a campaign that has flown")
        try:
            return pa.concat_tables(tables)
        except pa.ArrowException as error:
            raise _read_error(self.folder / ROWS, error) from None


def _rows_file(first: int, last: int) -> str:
    return f"{ROWS}/{first:012d}-{last:012d}.parquet"


def _read_error(path: Path, error: Exception) -> CampaignError:
    """The error about a damaged file of rows."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return CampaignError(
        f"{path}: cannot be read ({escape_control_characters(reason)[:200]}); expected a file of samara sweep"
    )


def _has_allowed_values(values: list[object], allowed: range | Sequence[str]) -> bool:
    return values == list(allowed) if isinstance(allowed, range) else set(values) <= set(allowed)


def read_confined_text(files: ConfinedFolder, name: str) -> str:
    """Return the text of a file in a campaign's folder."""
    try:
        return files.read(name, MAX_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _read_error(files.path / name, error) from None


def _column(pa: Scalar, values: ArrayLike) -> Scalar:
    column = np.asarray(values)
    return pa.array(column.tolist(), type=pa.string()) if column.dtype == object else pa.array(column)


def open_store(folder: str | Path) -> Store:
    """Open the existing folder of a campaign."""
    files = ConfinedFolder(Path(folder))
    if not lexists(files.path / METADATA_FILE):
        raise CampaignError(f"{folder}: holds no {METADATA_FILE}; expected the folder of a campaign")
    origin = str(files.path / METADATA_FILE)
    try:
        entries = parse_json(read_confined_text(files, METADATA_FILE))
    except CampaignError:
        raise
    except (ValueError, RecursionError) as error:
        raise CampaignError(f"{origin}: cannot be read ({error}); expected a file of samara sweep") from None
    return Store(files.path, _read_metadata(entries, origin))


def _read_metadata(entries: Scalar, origin: str) -> dict[str, Scalar]:
    """Check every value of a campaign.json; raise CampaignError for one that samara sweep did not write."""
    table = TomlTable(entries, TomlFile(origin, CampaignError))
    table.schema(SCHEMA)
    metadata: dict[str, Scalar] = {"schema": SCHEMA}
    metadata |= {key: table.text(key) for key in ("name", "fingerprint", "samara", "python", "machine")}
    packages = table.table("packages")
    metadata["packages"] = {name: packages.text(name) for name in list(packages.entries)}
    blocks = table.take("blocks", "a list of blocks of rows")
    expected = "blocks of rows as [number, first row, row count], consecutive"
    total = 0
    if not isinstance(blocks, list) or not blocks:
        raise table.error("blocks", blocks, expected)
    for number, block in enumerate(blocks):
        is_block = isinstance(block, list) and len(block) == 3 and all(type(number) is int for number in block)
        if not is_block or block[:2] != [number, total] or not 1 <= block[2] <= MAX_FLIGHTS - total:
            raise table.error("blocks", blocks, expected)
        total += block[2]
    metadata["blocks"] = blocks
    if "controller" in table:
        metadata["controller"] = table.text("controller")
    if "backend" in table:
        metadata["backend"] = table.text("backend", choices=BACKENDS)
    if (confirmation := table.optional_table("confirmed")) is not None:
        metadata["confirmed"] = {
            key: confirmation.integer(key, 0, low=0, high=MAX_FLIGHTS) for key in CONFIRMATION_KEYS
        }
        confirmation.finish()
    table.finish()
    return metadata


def open_or_create_store(campaign: Campaign, text: str, folder: str | Path) -> Store:
    """Open or create the folder of this campaign; raise CampaignError if it holds another."""
    path = Path(folder)
    if not lexists(path / METADATA_FILE):
        if path.exists() and not _is_new_folder(ConfinedFolder(path), text):
            raise CampaignError(f"{folder}: is not empty and holds no campaign; expected an empty folder or a new one")
        ConfinedFolder(path).directory(ROWS, make=True)
        require_writable(path)
        with exclusive_lock(path):
            if not lexists(path / METADATA_FILE):  # nor created by another process in between
                return _create(campaign, text, path)
    store = open_store(path)
    if store.metadata["fingerprint"] != campaign.fingerprint():
        raise CampaignError(
            f"{folder}: holds another campaign, {store.metadata['name']!r}, or this one before it was changed; "
            "expected another folder, or the file as it was"
        )
    return store


def _is_new_folder(folder: ConfinedFolder, text: str) -> bool:
    """Return whether a folder is empty, or holds only the files of an interrupted `_create` for this campaign."""
    names = {name for name in folder.names() if not name.startswith((f".{METADATA_FILE}.", f".{CAMPAIGN_FILE}."))}
    return (
        names <= {ROWS, FILES, CAMPAIGN_FILE, LOCK_FILE}
        and (ROWS not in names or not folder.names(ROWS))
        and (CAMPAIGN_FILE not in names or read_confined_text(folder, CAMPAIGN_FILE) == text)
    )


def _create(campaign: Campaign, text: str, folder: Path) -> Store:
    files = ConfinedFolder(folder)
    for name, path in campaign.named_files().items():
        with files.write(f"{FILES}/{name}") as copied:
            copied.write(read_bytes(path))
    files.write_text(CAMPAIGN_FILE, text)
    metadata = {
        "schema": SCHEMA,
        "name": campaign.name,
        "fingerprint": campaign.fingerprint(),
        "samara": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: package_version for name in PACKAGES if (package_version := _version(name))},
        "blocks": [],
    }
    if campaign.controller is not None:
        metadata["controller"] = controller_name(campaign.controller)
    store = Store(folder, metadata)
    store.add(campaign.flights)
    return store


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock the folder against other writers; the lock is released if its owner dies."""
    with ConfinedFolder(folder).lock_file(LOCK_FILE) as file:
        try:
            lock_exclusively(file)
        except OSError:
            raise CampaignError(f"{folder}: another samara sweep is writing into it; expected one at a time") from None
        yield


# Queries -------------------------------------------------------------------------------------------------------------

RANK = {INVALID: 0, FAIL: 1, DEGRADED: 2, PASS: 3}  # a lower rank is worse


def worst_rows(store: Store, campaign: Campaign, count: int) -> Array:
    """Return the worst rows, the worst first: by outcome, then by `rank_by`; without rows that could not be flown."""
    row, outcome, value = _flown_columns(store, "outcome", campaign.rank_by)
    rank = np.array([RANK[name] for name in outcome], dtype=int)
    return np.asarray(row[np.lexsort((row, -badness(value, campaign.rank_by), rank))][:count])


def rows_to_record(store: Store, campaign: Campaign) -> list[int]:
    """Return the rows that the campaign records, each once and in order."""
    row, outcome = _flown_columns(store, "outcome")
    failed_rows = row[np.isin(outcome, (FAIL, INVALID))][: campaign.record.failures]
    regular_rows = row[row % campaign.record.every == 0] if campaign.record.every else row[:0]
    return sorted(
        {*worst_rows(store, campaign, campaign.record.worst).tolist(), *failed_rows.tolist(), *regular_rows.tolist()}
    )


def _flown_columns(store: Store, *columns: str) -> list[Array]:
    """Return the row numbers and the given columns of all rows that could be flown."""
    table = store.table(["row", "reason", *columns])
    flown = table["reason"].to_numpy(zero_copy_only=False) != ERROR
    return [table[name].to_numpy(zero_copy_only=False)[flown] for name in ("row", *columns)]


def query(folder: str | Path, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Run a DuckDB query on the campaign's rows, the table `rows`; the query has no access to files.

    Returns:
        The column names and the rows of the result.
    """
    duckdb = import_extra("duckdb", "a query", "DuckDB", "sweep")
    rows = open_store(folder).table()
    with duckdb.connect(":memory:") as database:
        database.register("rows", rows)
        database.execute("set enable_external_access = false")
        try:
            result = database.execute(sql)
            return [column[0] for column in result.description], result.fetchall()
        except duckdb.Error as error:
            raise CampaignError(f"{sql!r}: {str(error).splitlines()[0]}") from None


def versions() -> dict[str, str]:
    """Return the versions of the packages that determine the bits of a flight; "" if one is not installed."""
    return {"samara": __version__, **{name: _version(name) for name in BIT_RELEVANT_PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
