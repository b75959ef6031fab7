"""MCAP recordings: damaged bytes, and forged records with checksums in order."""

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

from samara.record.mcap_writer import COMPRESS, MAGIC, RECORD, decompressed
from samara.record.recording import describe, read_recording
from samara.record.run import run_from, scenario_inside
from samara.record.streams import ABOUT, OWN, RecordingError, checksum
from samara.scenario.world import world_inside
from samara.sim.replay import replay, timeline_from

from .law import Case, Reader
from .mutate import json_text, mutated, mutated_bytes, mutated_text
from .nasty import nasty_value

FOLDER = Path(__file__).resolve().parent.parent / "recordings"
Record = tuple[int, bytes]


@lru_cache
def originals() -> tuple[bytes, ...]:
    """The recordings that are kept as they were made, the long one cut"""
    return tuple(path.read_bytes() for path in sorted(FOLDER.glob("*.mcap")) if path.stat().st_size < 90_000)


def records(data: bytes) -> list[Record]:
    """(opcode, body) of every record of a file, or of a chunk"""
    found, at = [], len(MAGIC) if data.startswith(MAGIC) else 0
    end = len(data) - len(MAGIC) if data.endswith(MAGIC) else len(data)
    while at + RECORD.size <= end:
        opcode, length = RECORD.unpack_from(data, at)
        found.append((opcode, data[at + RECORD.size : at + RECORD.size + length]))
        at += RECORD.size + length
    return found


def joined(own: list[Record]) -> bytes:
    """The records one after the other"""
    return b"".join(RECORD.pack(opcode, len(body)) + body for opcode, body in own)


def seeds() -> list[Case]:
    """Recordings as they were made, and taken apart and put together again"""
    return [Case(own) for data in originals() for own in (data, MAGIC + joined(records(data)) + MAGIC)]


def make(rng: Random) -> Case:
    """Damaged, or forged"""
    data = rng.choice(originals())
    if rng.random() < 0.25:
        return Case(*_case(mutated_bytes(data, rng)))
    own, told = records(data), []
    for _ in range(rng.choice((1, 1, 2))):
        told.append(
            rng.choice((_metadata, _metadata, _attachment, _attachment, _chunk, _chunk, _chunk, _order))(own, rng)
        )
    return Case(MAGIC + joined(own) + MAGIC, tuple(told))


def _case(changed: tuple[bytes, list[str]]) -> tuple[bytes, tuple[str, ...]]:
    return changed[0], tuple(changed[1])


def _places(own: list[Record], opcode: int) -> list[int]:
    return [k for k, (found, _) in enumerate(own) if found == opcode]


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(body))


def _written(record: Any) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())[RECORD.size :]


def _value(text: str, rng: Random) -> str:
    """Another text; where it is JSON, other JSON"""
    if rng.random() < 0.15:
        return str(nasty_value(rng))
    try:
        document = loads(text)
    except (JSONDecodeError, RecursionError):  # what an earlier change left may be nested without end
        return mutated_text(text, rng)[0]
    if rng.random() < 0.1:
        return "[" * 100_000
    if not isinstance(document, (dict, list)) or not document:
        return json_text(nasty_value(rng))
    return json_text(mutated(document, rng)[0])


def _metadata(own: list[Record], rng: Random) -> str:
    """Other metadata, and the checksum that fits them"""
    read = {k: Metadata.read(_stream(own[k][1])) for k in _places(own, Opcode.METADATA)}
    named = {record.name: k for k, record in read.items()}
    if ABOUT not in named or OWN not in named:
        return "no metadata"
    about, entries = read[named[ABOUT]], read[named[OWN]].metadata
    target = entries if rng.random() < 0.85 else about.metadata
    key = rng.choice(sorted(target))
    if rng.random() < 0.1:
        del target[key]
    else:
        target[key] = _value(target[key], rng).encode("utf-8", "replace").decode()
    if target is entries:
        about.metadata["metadata_crc32"] = checksum(entries)
    for name, record in ((ABOUT, about), (OWN, read[named[OWN]])):
        own[named[name]] = (Opcode.METADATA, _written(record))
    return f"metadata {key} is {target.get(key, 'missing')!r:.80}"


def _attachment(own: list[Record], rng: Random) -> str:
    """Other files inside, each with its checksum"""
    found = _places(own, Opcode.ATTACHMENT)
    if not found:
        return "no attachment"
    k = rng.choice(found)
    record = Attachment.read(_stream(own[k][1]))
    if rng.random() < 0.15:
        record.name = rng.choice(
            ("../../x", "/etc/passwd", "", "scenario.toml", "world.json", "vehicle/x.toml", "\x1b[0m")
        )
    elif rng.random() < 0.2:
        record.data = mutated_bytes(record.data, rng)[0]
    else:
        record.data = _value(record.data.decode("utf-8", "replace"), rng).encode("utf-8", "replace")
    own[k] = (Opcode.ATTACHMENT, _written(record))
    return f"attachment {record.name!r} is {record.data[:60]!r}"


def _chunk(own: list[Record], rng: Random) -> str:
    """Other records in a chunk, compressed and checksummed as they should be"""
    found = _places(own, Opcode.CHUNK)
    if not found:
        return "no chunk"
    k = found[0] if rng.random() < 0.6 else rng.choice(found)
    chunk = Chunk.read(_stream(own[k][1]))
    if chunk.uncompressed_size > 1 << 22:
        return "nothing: it is a bomb already"
    inside = records(decompressed(chunk.data, chunk.compression, chunk.uncompressed_size))
    told = "nothing"
    if inside:
        at = rng.randrange(min(len(inside), 40))
        opcode, body = inside[at]
        told = f"record {opcode:#04x} in the chunk"
        if opcode == Opcode.CHANNEL and rng.random() < 0.8:
            channel = Channel.read(_stream(body))
            key = rng.choice([*channel.metadata, "kind"])
            if rng.random() < 0.2:
                channel.topic = str(nasty_value(rng))[:1000].encode("utf-8", "replace").decode()
            else:
                channel.metadata[key] = _value(channel.metadata.get(key, ""), rng).encode("utf-8", "replace").decode()
            inside[at] = (opcode, _written(channel))
        elif opcode == Opcode.SCHEMA and rng.random() < 0.8:
            schema = Schema.read(_stream(body))
            schema.data = mutated_bytes(schema.data, rng)[0]
            inside[at] = (opcode, _written(schema))
        elif rng.random() < 0.5:
            inside[at] = (opcode, mutated_bytes(body, rng)[0])
        elif opcode == Opcode.MESSAGE and rng.random() < 0.7:
            told += f", {_numbers(inside, at, rng)}"
        else:
            told += f", {_order(inside, rng)}"
    data = joined(inside)
    chunk.compression = rng.choice(("", "lz4", "zstd"))
    chunk.data = COMPRESS[chunk.compression](data)
    chunk.uncompressed_size, chunk.uncompressed_crc = len(data), zlib.crc32(data)
    if rng.random() < 0.1:
        chunk.uncompressed_size = rng.choice((0, 1, 2**24, 2**32, 2**40, 2**63))
        told += f", said to be {chunk.uncompressed_size} bytes"
    if rng.random() < 0.05:
        chunk.data = COMPRESS["zstd"](bytes(1 << 27))
        chunk.compression, chunk.uncompressed_size, chunk.uncompressed_crc = "zstd", 1 << 27, 0
        told += ", a bomb"
    body = struct.pack(
        f"<QQQII{len(chunk.compression)}sQ", chunk.message_start_time, chunk.message_end_time, chunk.uncompressed_size,
        chunk.uncompressed_crc, len(chunk.compression), chunk.compression.encode(), len(chunk.data),
    )  # fmt: skip
    own[k] = (Opcode.CHUNK, body + chunk.data)
    return told


def _numbers(inside: list[Record], at: int, rng: Random) -> str:
    """Other numbers or times in a message, of the same length"""
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


def _order(own: list[Record], rng: Random) -> str:
    """Records away, twice, or in another order"""
    a, b = rng.randrange(len(own)), rng.randrange(len(own))
    change = rng.choice(("away", "twice", "swapped"))
    if change == "away":
        del own[a]
    elif change == "twice":
        own.insert(b, own[a])
    else:
        own[a], own[b] = own[b], own[a]
    return f"record {a} {change}"


def read(data: bytes, folder: Path) -> Any:
    """All that is made of a recording before it is drawn or flown again; its rows may hold any number that was recorded"""
    path = folder / "own.mcap"
    path.write_bytes(data)
    recording = read_recording(path)
    describe(recording)
    run = run_from(recording)
    timeline_from(run.metadata)
    return [track.vehicle for track in run.tracks], world_inside(run.attachments), scenario_inside(run)


def read_replay(data: bytes, folder: Path) -> None:
    """Replay it: one run, or one sentence."""
    path = folder / "own.mcap"
    path.write_bytes(data)
    with patch.dict(os.environ, {"SAMARA_CACHE": str(folder / "cache")}):
        replay(path)


RECORDINGS = Reader("recording", seeds, make, read, (RecordingError, ValueError), lines=True, share=4)
REPLAYS = Reader("replay", seeds, make, read_replay, (RecordingError, ValueError), lines=True, share=1)
