"""Export a recording as tables: one CSV or Parquet file for each stream."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.core.extras import import_extra, missing_extra
from samara.record.streams import RecordedStream, Recording, RecordingError

ROWS_PER_BATCH = 10_000  # rows formatted at once


def export_csv(recording: Recording, folder: str | Path) -> list[Path]:
    """Write one file for each stream, '/drone0/state' as drone0.state.csv, and log.csv; return the paths.

    The first row has names and units. Numbers have the digits that restore the same double. Images are left out.
    """
    paths = []
    for topic, table in _tables(recording):
        path = Path(folder) / f"{_file_stem(topic)}.csv"
        write_csv({topic: table}, path)
        paths.append(path)
    path = Path(folder) / "log.csv"
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["time [s]", "time_us", "level", "name", "message"])
        writer.writerows([line.time_us / 1e6, *line] for line in recording.logs)
    return [*paths, path]


def write_csv(tables: Mapping[str, RecordedStream], path: Path) -> None:
    """Write one stream, or that of several drones below each other, with the drone's name in the first column."""
    for table in tables.values():
        _require_columns(table)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        headings = _headings(next(iter(tables.values())))
        csv.writer(file, lineterminator="\n").writerow(["drone", *headings] if len(tables) > 1 else headings)
        for name, table in tables.items():
            prefix = f"{name}," if len(tables) > 1 else ""
            file.writelines(prefix + line for line in _csv_lines(table))


def export_parquet(recording: Recording, folder: str | Path) -> list[Path]:
    """Write one file per stream, '/drone0/state' as drone0.state.parquet; return the paths. Field metadata hold the units.

    Images are left out.
    """
    paths = []
    for topic, table in _tables(recording):
        path = Path(folder) / f"{_file_stem(topic)}.parquet"
        write_parquet({topic: table}, path, {**recording.metadata, "topic": topic})
        paths.append(path)
    return paths


def write_parquet(tables: Mapping[str, RecordedStream], path: Path, metadata: Mapping[str, str]) -> None:
    """Write one stream, or that of several drones below each other, with the drone's name in the first column."""
    for table in tables.values():
        _require_columns(table)
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_extra("Parquet", "pyarrow", "parquet") from error
    table = next(iter(tables.values()))
    columns = [
        np.concatenate(column)
        for column in zip(*([table.time, table.times_us, *table.rows.T] for table in tables.values()), strict=True)
    ]
    types = [pyarrow.float64(), pyarrow.int64(), *[pyarrow.float64()] * len(table.fields)]
    names, units = ("time", "time_us", *table.fields), ("s", "us", *table.units)
    fields = [
        pyarrow.field(name, field_type, metadata={"unit": unit})
        for name, field_type, unit in zip(names, types, units, strict=True)
    ]
    if len(tables) > 1:
        fields.insert(0, pyarrow.field("drone", pyarrow.string()))
        columns.insert(0, np.repeat(list(tables), [len(table.rows) for table in tables.values()]))
    schema = pyarrow.schema(fields, metadata={**metadata, "schema_name": table.schema_name})
    with atomic_write(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), temporary)


def data_frame(table: RecordedStream) -> Any:
    """Convert a table to a pandas DataFrame with the time [s] as its index; `attrs["units"]` holds the units."""
    _require_columns(table)
    pandas = import_extra("pandas", "a DataFrame", "pandas", "pandas")
    frame = pandas.DataFrame(table.rows, index=pandas.Index(table.time, name="time [s]"), columns=list(table.fields))
    frame.attrs["units"] = dict(zip(table.fields, table.units, strict=True))
    return frame


def _tables(recording: Recording) -> list[tuple[str, RecordedStream]]:
    """Return the streams with named columns, by topic."""
    return [(topic, table) for topic, table in recording.streams.items() if table.has_columns]


def _require_columns(table: RecordedStream) -> None:
    """Raise RecordingError for images, which are no table."""
    if not table.has_columns:
        raise RecordingError(f"{table.schema_name} holds images; expected a stream of numbers, or its `images`")


def _file_stem(topic: str) -> str:
    """Return a file name for a topic; no part of a topic has a dot, so two topics never share a name."""
    return topic.strip("/").replace("/", ".")


def _headings(table: RecordedStream) -> list[str]:
    headings = [f"{name} [{unit}]" if unit else name for name, unit in zip(table.fields, table.units, strict=True)]
    return ["time [s]", "time_us", *headings]


def _csv_lines(table: RecordedStream) -> Iterator[str]:
    for start in range(0, len(table.rows), ROWS_PER_BATCH):
        times_us, rows = (
            table.times_us[start : start + ROWS_PER_BATCH].tolist(),
            table.rows[start : start + ROWS_PER_BATCH].tolist(),
        )
        for time_us, row in zip(times_us, rows, strict=True):
            yield ",".join([repr(time_us / 1e6), str(time_us), *map(repr, row)]) + "\n"
