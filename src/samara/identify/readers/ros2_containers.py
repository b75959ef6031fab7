"""What a ROS 2 bag holds, from its `.mcap` or `.db3` files: topics with their types, and messages as bytes.

No file is opened that a `metadata.yaml` names: a folder's are those that lie in it.
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from samara.core.budget import Budget, decompressed_limit, size_text
from samara.record.mcap_writer import decompressed

MAX_BAG_BYTES = 2 << 30  # of all files of a folder
MAX_MESSAGES = 2_000_000  # of a small file; a large one may have one for every four bytes
MAX_CHUNK_BYTES = 1 << 25
MAX_RECORD_BYTES = 1 << 28
INSTRUCTIONS_PER_CHECK = 100_000  # of SQLite's virtual machine
MAX_INSTRUCTIONS = 10_000_000  # for a small file; a query of a whole bag takes some ten for each message


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(own for own in path.iterdir() if own.suffix in (".mcap", ".db3") and own.is_file())
    if not files:
        raise ValueError(f"{path}: is a folder without .mcap or .db3; expected a ROS 2 bag")
    Budget(path, max_bytes=MAX_BAG_BYTES).spend_bytes(sum(own.stat().st_size for own in files))
    return files


def topics_of(path: Path) -> dict[tuple[str, str], int]:
    """(topic, type) and how many messages"""
    found: dict[tuple[str, str], int] = {}
    for file in _files(path):
        for topic, kind, count in _mcap_topics(file) if _is_mcap(file) else _sqlite_topics(file):
            found[topic, kind] = found.get((topic, kind), 0) + count
    return found


def messages_of(path: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """(topic, time of reception [ns], bytes)"""
    for file in _files(path):
        yield from _mcap_messages(file, wanted) if _is_mcap(file) else _sqlite_messages(file, wanted)


def _is_mcap(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(5) == b"\x89MCAP"


def _mcap_topics(file: Path) -> list[tuple[str, str, int]]:
    from mcap.reader import make_reader

    with file.open("rb") as opened, _whole_bag(file):
        summary = make_reader(opened).get_summary()
        if summary is None or summary.statistics is None:
            raise ValueError(f"{file}: is not closed; expected a whole ROS 2 bag")
        counts = summary.statistics.channel_message_counts
        return [
            (own.topic, summary.schemas[own.schema_id].name, counts.get(own.id, 0))
            for own in summary.channels.values()
            if own.message_encoding == "cdr" and own.schema_id in summary.schemas
        ]


def _mcap_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """In the order of their times; chunks are decompressed here, as far as they say, for `mcap` knows no limit."""
    from mcap.records import Channel, Message

    channels: dict[int, str] = {}
    found: list[tuple[int, str, bytes]] = []
    with file.open("rb") as opened, _whole_bag(file):
        for record in _mcap_records(file, opened):
            if isinstance(record, Channel):
                channels[record.id] = record.topic
            elif isinstance(record, Message) and channels.get(record.channel_id) in wanted:
                found.append((record.log_time, channels[record.channel_id], record.data))
    found.sort(key=lambda message: message[0])
    for time_ns, topic, data in found:
        yield topic, time_ns, data


def _mcap_records(file: Path, opened: Any) -> Iterator[Any]:
    """The records of the data section, those of chunks in their place"""
    from mcap.records import Chunk, DataEnd, Message
    from mcap.stream_reader import StreamReader, breakup_chunk

    size = file.stat().st_size
    budget = Budget(file, max_bytes=decompressed_limit(size), max_nodes=MAX_MESSAGES + size // 4)
    for record in StreamReader(opened, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES).records:
        if isinstance(record, DataEnd):
            return
        if not isinstance(record, Chunk):
            yield record
            continue
        budget.spend_bytes(record.uncompressed_size, "bytes after decompression")
        if record.uncompressed_size > MAX_CHUNK_BYTES:
            raise budget.overrun(f"has a chunk of {size_text(record.uncompressed_size)}", size_text(MAX_CHUNK_BYTES))
        data = decompressed(record.data, record.compression, record.uncompressed_size)
        if len(data) != record.uncompressed_size:
            raise ValueError(f"{file}: has a chunk of another size than it says; expected a whole ROS 2 bag")
        for inner in breakup_chunk(replace(record, compression="", data=data), validate_crc=True):
            budget.spend_nodes(1 if isinstance(inner, Message) else 100, "messages")
            yield inner


def _sqlite(file: Path) -> sqlite3.Connection:
    """Read only; what the file says of functions and views is not trusted, and queries end with the budget"""
    size = file.stat().st_size
    opened = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(size, 1 << 16))  # no value is longer than the file
    left = (MAX_INSTRUCTIONS + 50 * size) // INSTRUCTIONS_PER_CHECK

    def is_spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    opened.set_progress_handler(is_spent, INSTRUCTIONS_PER_CHECK)
    opened.execute("PRAGMA trusted_schema = OFF")
    try:
        tables = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
        missing = {"topics", "messages"} - {name for (name,) in tables}
        if missing:
            raise ValueError(f"{file}: has no table {max(missing)!r}; expected a whole ROS 2 bag")
    except BaseException:
        opened.close()
        raise
    return opened


def _sqlite_topics(file: Path) -> list[tuple[str, str, int]]:
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        counts = dict(opened.execute("SELECT topic_id, count(*) FROM messages GROUP BY topic_id"))
        asked = "SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'"
        return [(str(name), str(kind), int(counts.get(number, 0))) for number, name, kind in opened.execute(asked)]


def _sqlite_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    size = file.stat().st_size
    budget = Budget(file, max_bytes=size, max_nodes=MAX_MESSAGES + size // 4)
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        names = {number: name for number, name in opened.execute("SELECT id, name FROM topics") if name in wanted}
        marks = ",".join("?" * len(names))
        asked = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp"
        for number, time, data in opened.execute(asked, list(names)):
            budget.spend_bytes(len(data), "bytes in messages")
            budget.spend_nodes(1, "messages")
            yield names[number], int(time), bytes(data)


@contextmanager
def _whole_bag(file: Path) -> Iterator[None]:
    """What the libraries raise on bytes they did not write is one sentence"""
    from mcap.exceptions import McapError

    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise ValueError(f"{file}: cannot be read ({error}); expected a whole ROS 2 bag") from None
        limit = MAX_INSTRUCTIONS + 50 * file.stat().st_size
        raise Budget(file).overrun("takes too many steps of SQLite", f"{limit:,}") from None
    except (sqlite3.Error, McapError, struct.error, EOFError, ArithmeticError, LookupError) as error:
        raise ValueError(f"{file}: cannot be read ({error}); expected a whole ROS 2 bag") from None
