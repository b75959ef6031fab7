"""MCAP recordings: damaged bytes, and forged records with correct checksums."""

import math
import os
import struct
import zlib
from functools import lru_cache
from io import BytesIO
from json import JSONDecodeError, loads
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Metadata, Schema

from samara.record.mcap_writer import COMPRESS, MAGIC, RECORD, decompress
from samara.record.recording import describe, read_recording
from samara.record.run import embedded_scenario, run_from_recording
from samara.record.streams import FORMAT_METADATA, USER_METADATA, RecordingError, checksum
from samara.scenario.world import recorded_world
from samara.sim.replay import recorded_timeline, replay

from .law import Case, Reader
from .mutate import json_text, mutate_bytes, mutate_document, mutate_text
from .nasty import nasty_value

FOLDER = Path(__file__).resolve().parent.parent / "recordings"
Record = tuple[int, bytes]


@lru_cache
def stored_recordings() -> tuple[bytes, ...]:
    """Return the stored recordings, the long one truncated."""
    return tuple(path.read_bytes() for path in sorted(FOLDER.glob("*.mcap")) if path.stat().st_size < 90_000)


def records(data: bytes) -> list[Record]:
    """Return (opcode, body) of every record of a file, or of a chunk."""
    parsed, offset = [], len(MAGIC) if data.startswith(MAGIC) else 0
    end = len(data) - len(MAGIC) if data.endswith(MAGIC) else len(data)
    while offset + RECORD.size <= end:
        opcode, length = RECORD.unpack_from(data, offset)
        parsed.append((opcode, data[offset + RECORD.size : offset + RECORD.size + length]))
        offset += RECORD.size + length
    return parsed


def serialise_records(items: list[Record]) -> bytes:
    """Serialise the records."""
    return b"".join(RECORD.pack(opcode, len(body)) + body for opcode, body in items)


def seeds() -> list[Case]:
    """Return the recordings unchanged, and parsed and serialised again."""
    return [
        Case(recording)
        for data in stored_recordings()
        for recording in (data, MAGIC + serialise_records(records(data)) + MAGIC)
    ]


def make(rng: Random) -> Case:
    """Create a damaged or a forged recording."""
    data = rng.choice(stored_recordings())
    if rng.random() < 0.25:
        return Case(*_case(mutate_bytes(data, rng)))
    file_records, changes = records(data), []
    for _ in range(rng.choice((1, 1, 2))):
        changes.append(
            rng.choice((_metadata, _metadata, _attachment, _attachment, _chunk, _chunk, _chunk, _order))(
                file_records, rng
            )
        )
    return Case(MAGIC + serialise_records(file_records) + MAGIC, tuple(changes))


def _case(changed: tuple[bytes, list[str]]) -> tuple[bytes, tuple[str, ...]]:
    return changed[0], tuple(changed[1])


def _record_indices(file_records: list[Record], opcode: int) -> list[int]:
    return [k for k, (record_opcode, _) in enumerate(file_records) if record_opcode == opcode]


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(body))


def _serialise_record(record: Any) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())[RECORD.size :]


def _value(text: str, rng: Random) -> str:
    """Replace a text, JSON by other JSON."""
    if rng.random() < 0.15:
        return str(nasty_value(rng))
    try:
        document = loads(text)
    except (JSONDecodeError, RecursionError):  # an earlier change may have nested it without end
        return mutate_text(text, rng)[0]
    if rng.random() < 0.1:
        return "[" * 100_000
    if not isinstance(document, (dict, list)) or not document:
        return json_text(nasty_value(rng))
    return json_text(mutate_document(document, rng)[0])


def _metadata(file_records: list[Record], rng: Random) -> str:
    """Change the metadata, and update their checksum."""
    read = {k: Metadata.read(_stream(file_records[k][1])) for k in _record_indices(file_records, Opcode.METADATA)}
    named = {record.name: k for k, record in read.items()}
    if FORMAT_METADATA not in named or USER_METADATA not in named:
        return "no metadata"
    header, entries = read[named[FORMAT_METADATA]], read[named[USER_METADATA]].metadata
    target = entries if rng.random() < 0.85 else header.metadata
    key = rng.choice(sorted(target))
    if rng.random() < 0.1:
        del target[key]
    else:
        target[key] = _value(target[key], rng).encode("utf-8", "replace").decode()
    if target is entries:
        header.metadata["metadata_crc32"] = checksum(entries)
    for name, record in ((FORMAT_METADATA, header), (USER_METADATA, read[named[USER_METADATA]])):
        file_records[named[name]] = (Opcode.METADATA, _serialise_record(record))
    return f"metadata {key} is {target.get(key, 'missing')!r:.80}"


def _attachment(file_records: list[Record], rng: Random) -> str:
    """Change embedded files, each with a correct checksum."""
    indices = _record_indices(file_records, Opcode.ATTACHMENT)
    if not indices:
        return "no attachment"
    k = rng.choice(indices)
    record = Attachment.read(_stream(file_records[k][1]))
    if rng.random() < 0.15:
        record.name = rng.choice(
            ("../../x", "/etc/passwd", "", "scenario.toml", "world.json", "vehicle/x.toml", "\x1b[0m")
        )
    elif rng.random() < 0.2:
        record.data = mutate_bytes(record.data, rng)[0]
    else:
        record.data = _value(record.data.decode("utf-8", "replace"), rng).encode("utf-8", "replace")
    file_records[k] = (Opcode.ATTACHMENT, _serialise_record(record))
    return f"attachment {record.name!r} is {record.data[:60]!r}"


def _chunk(file_records: list[Record], rng: Random) -> str:
    """Change records in a chunk, with correct compression and checksum."""
    indices = _record_indices(file_records, Opcode.CHUNK)
    if not indices:
        return "no chunk"
    k = indices[0] if rng.random() < 0.6 else rng.choice(indices)
    chunk = Chunk.read(_stream(file_records[k][1]))
    if chunk.uncompressed_size > 1 << 22:
        return "nothing: it is a bomb already"
    inside = records(decompress(chunk.data, chunk.compression, chunk.uncompressed_size))
    change = "nothing"
    if inside:
        at = rng.randrange(min(len(inside), 40))
        opcode, body = inside[at]
        change = f"record {opcode:#04x} in the chunk"
        if opcode == Opcode.CHANNEL and rng.random() < 0.8:
            channel = Channel.read(_stream(body))
            key = rng.choice([*channel.metadata, "schema_name"])
            if rng.random() < 0.2:
                channel.topic = str(nasty_value(rng))[:1000].encode("utf-8", "replace").decode()
            else:
                channel.metadata[key] = _value(channel.metadata.get(key, ""), rng).encode("utf-8", "replace").decode()
            inside[at] = (opcode, _serialise_record(channel))
        elif opcode == Opcode.SCHEMA and rng.random() < 0.8:
            schema = Schema.read(_stream(body))
            schema.data = mutate_bytes(schema.data, rng)[0]
            inside[at] = (opcode, _serialise_record(schema))
        elif rng.random() < 0.5:
            inside[at] = (opcode, mutate_bytes(body, rng)[0])
        elif opcode == Opcode.MESSAGE and rng.random() < 0.7:
            change += f", {_numbers(inside, at, rng)}"
        else:
            change += f", {_order(inside, rng)}"
    data = serialise_records(inside)
    chunk.compression = rng.choice(("", "lz4", "zstd"))
    chunk.data = COMPRESS[chunk.compression](data)
    chunk.uncompressed_size, chunk.uncompressed_crc = len(data), zlib.crc32(data)
    if rng.random() < 0.1:
        chunk.uncompressed_size = rng.choice((0, 1, 2**24, 2**32, 2**40, 2**63))
        change += f", said to be {chunk.uncompressed_size} bytes"
    if rng.random() < 0.05:
        chunk.data = COMPRESS["zstd"](bytes(1 << 27))
        chunk.compression, chunk.uncompressed_size, chunk.uncompressed_crc = "zstd", 1 << 27, 0
        change += ", a bomb"
    body = struct.pack(
        f"<QQQII{len(chunk.compression)}sQ", chunk.message_start_time, chunk.message_end_time, chunk.uncompressed_size,
        chunk.uncompressed_crc, len(chunk.compression), chunk.compression.encode(), len(chunk.data),
    )  # fmt: skip
    file_records[k] = (Opcode.CHUNK, body + chunk.data)
    return change


def _numbers(inside: list[Record], at: int, rng: Random) -> str:
    """Change numbers or times in a message of the same length."""
    opcode, body = inside[at]
    changed = bytearray(body)
    if rng.random() < 0.3:
        time_ns = rng.choice((0, 1, 10**9, 10**15, 2**63 - 1, 2**64 - 1, rng.getrandbits(40)))
        struct.pack_into("<QQ", changed, 6, time_ns, time_ns)
        inside[at] = (opcode, bytes(changed))
        return f"at {time_ns} ns"
    number = rng.choice((math.nan, math.inf, -math.inf, 0.0, -1.0, 1e300, 1e-300, 5e-324, 1e9, rng.gauss(0.0, 10.0)))
    for _ in range(rng.choice((1, 1, 4))):
        struct.pack_into(
            "<d", changed, rng.randrange(22, max(23, len(changed) - 8)) if len(changed) > 30 else 0, number
        )
    inside[at] = (opcode, bytes(changed))
    return f"with {number} in it"


def _order(file_records: list[Record], rng: Random) -> str:
    """Remove, duplicate or swap records."""
    a, b = rng.randrange(len(file_records)), rng.randrange(len(file_records))
    change = rng.choice(("away", "twice", "swapped"))
    if change == "away":
        del file_records[a]
    elif change == "twice":
        file_records.insert(b, file_records[a])
    else:
        file_records[a], file_records[b] = file_records[b], file_records[a]
    return f"record {a} {change}"


def read(data: bytes, folder: Path) -> Any:
    """Load everything that precedes plotting or replaying a recording; its rows may contain any recorded number."""
    path = folder / "own.mcap"
    path.write_bytes(data)
    recording = read_recording(path)
    describe(recording)
    run = run_from_recording(recording)
    recorded_timeline(run.metadata)
    return [track.vehicle for track in run.drone_records], recorded_world(run.attachments), embedded_scenario(run)


def read_replay(data: bytes, folder: Path) -> None:
    """Replay it: one run, or one sentence."""
    path = folder / "own.mcap"
    path.write_bytes(data)
    with patch.dict(os.environ, {"SAMARA_CACHE": str(folder / "cache")}):
        replay(path)


RECORDINGS = Reader("recording", seeds, make, read, (RecordingError, ValueError), lines=True, share=4)
REPLAYS = Reader("replay", seeds, make, read_replay, (RecordingError, ValueError), lines=True, share=1)
