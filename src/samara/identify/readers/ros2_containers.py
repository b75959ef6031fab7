"""What a ROS 2 bag holds, from its `.mcap` or `.db3` files: topics with their types, and messages as bytes.

No file is opened that a `metadata.yaml` names: a folder's are those that lie in it.
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

LARGEST = 2 << 30  # [bytes] of all files of a folder, and of what is packed in one


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(own for own in path.iterdir() if own.suffix in (".mcap", ".db3") and own.is_file())
    if not files:
        raise ValueError(f"{path}: is a folder without .mcap or .db3; expected a ROS 2 bag")
    size = sum(own.stat().st_size for own in files)
    if size > LARGEST:
        raise ValueError(f"{path}: has {size / 1e9:.1f} GB; expected a log of at most {LARGEST / 1e9:.1f} GB")
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
        size = sum(own.uncompressed_size for own in summary.chunk_indexes)
        if size > LARGEST:
            raise ValueError(f"{file}: unpacks to {size / 1e9:.1f} GB; expected at most {LARGEST / 1e9:.1f} GB")
        counts = summary.statistics.channel_message_counts
        return [
            (own.topic, summary.schemas[own.schema_id].name, counts.get(own.id, 0))
            for own in summary.channels.values()
            if own.message_encoding == "cdr" and own.schema_id in summary.schemas
        ]


def _mcap_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    from mcap.reader import make_reader

    with file.open("rb") as opened, _whole_bag(file):
        for _, channel, message in make_reader(opened).iter_messages(topics=list(wanted)):
            yield channel.topic, message.log_time, message.data


def _sqlite(file: Path) -> sqlite3.Connection:
    """Read only; what the file says of functions and views is not trusted"""
    opened = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    opened.execute("PRAGMA trusted_schema = OFF")
    return opened


def _sqlite_topics(file: Path) -> list[tuple[str, str, int]]:
    count = "(SELECT count(*) FROM messages WHERE topic_id = topics.id)"
    counted = f"SELECT name, type, {count} FROM topics WHERE serialization_format = 'cdr'"
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        return [(str(name), str(kind), int(count)) for name, kind, count in opened.execute(counted)]


def _sqlite_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        names = {number: name for number, name in opened.execute("SELECT id, name FROM topics") if name in wanted}
        marks = ",".join("?" * len(names))
        asked = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp"
        for number, time, data in opened.execute(asked, list(names)):
            yield names[number], int(time), bytes(data)


@contextmanager
def _whole_bag(file: Path) -> Iterator[None]:
    """What the libraries raise on bytes they did not write is one sentence"""
    from mcap.exceptions import McapError

    try:
        yield
    except (sqlite3.Error, McapError, struct.error, EOFError, ArithmeticError, LookupError) as error:
        raise ValueError(f"{file}: cannot be read ({error}); expected a whole ROS 2 bag") from None
