"""What a recording holds: streams of numbers with names and units, and lines of log."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from samara.core.atomic_files import parsed
from samara.record.image_stream import Raster, raster_from, raster_metadata

FORMAT = 1  # raised when readers of the previous number cannot read a new file
ABOUT = "samara.recording"  # the metadata record that makes an MCAP file a recording of ours
OWN = "samara"  # the metadata record with what the caller gave
LOG_TOPIC = "/log"
TRANSFORM_TOPIC = "/tf"
SCENE_TOPIC = "/scene"
LEVELS = ("debug", "info", "warning", "error", "fatal")  # numbered from 1 in foxglove.Log
MOST_CHANNELS = 0xFFFF  # MCAP numbers them with 16 bits
MOST_FIELDS = 18_000  # protobuf keeps field numbers from 19 000 for itself

TOPIC = re.compile(r"(/[A-Za-z0-9_-]+)+")
KIND = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class RecordingError(ValueError):
    """A file that is no recording, or a recording that cannot be made. The text is one sentence."""


class Stream(NamedTuple):
    """Rows of numbers under one topic: '/drone0/state', the names 'p_W.x', their units 'm', and the kind 'samara.State'.

    Those of a `raster` are written as pictures.
    """

    topic: str
    fields: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    raster: Raster | None = None


class LogLine(NamedTuple):
    """One line of log: who says what, when, and how loud (debug, info, warning, error, fatal)."""

    time_us: int
    level: str
    name: str
    message: str


def require_stream(stream: Stream) -> None:
    """RecordingError naming what a stream lacks: a topic, a kind, names once each, and as many units."""
    if not TOPIC.fullmatch(stream.topic):
        raise RecordingError(f"topic {stream.topic!r}: expected parts of letters and digits, as in '/drone0/state'")
    if stream.topic in (LOG_TOPIC, TRANSFORM_TOPIC, SCENE_TOPIC):
        raise RecordingError(f"topic {stream.topic!r}: expected another name; the recorder writes this one itself")
    if not KIND.fullmatch(stream.kind):
        raise RecordingError(f"{stream.topic}: kind {stream.kind!r}: expected a dotted name, as in 'samara.State'")
    if len(stream.units) != len(stream.fields):
        raise RecordingError(
            f"{stream.topic}: {len(stream.units)} units; expected {len(stream.fields)}, one for each field"
        )
    if stream.raster and (stream.raster.fields != stream.fields or len(set(stream.units)) > 1):
        raise RecordingError(
            f"{stream.topic}: a picture of {stream.raster.rows} × {stream.raster.columns}; expected a field for each pixel, "
            "in the same unit"
        )
    if len(stream.fields) > MOST_FIELDS:
        raise RecordingError(f"{stream.topic}: {len(stream.fields)} fields; expected at most {MOST_FIELDS}")
    for name, times in Counter(stream.fields).items():
        if name in ("time", "time_us"):
            raise RecordingError(
                f"{stream.topic}: field {name!r}: expected another name; every row has its time already"
            )
        if not name or times > 1:
            raise RecordingError(f"{stream.topic}: field {name!r}: expected every field to have a name of its own")


def stream_metadata(stream: Stream) -> dict[str, str]:
    """What protobuf has no place for, as the metadata of a channel."""
    if stream.raster:
        return raster_metadata(stream.raster, stream.kind, stream.units)
    return {"kind": stream.kind, "fields": _written(stream.fields), "units": _written(stream.units)}


def stream_from_metadata(topic: str, metadata: Mapping[str, str]) -> Stream:
    """The inverse of `stream_metadata`."""
    if "raster" in metadata:
        raster = raster_from(metadata, MOST_FIELDS)
        return Stream(topic, raster.fields, (metadata["unit"],) * len(raster.fields), metadata["kind"], raster)
    return Stream(topic, _names(metadata["fields"]), _names(metadata["units"]), metadata["kind"])


@lru_cache(maxsize=256)  # a thousand drones of one kind share them
def _written(names: tuple[str, ...]) -> str:
    return json.dumps(names)


@lru_cache(maxsize=256)
def _names(text: str) -> tuple[str, ...]:
    return tuple(map(str, parsed(text)))


def checksum(metadata: Mapping[str, str]) -> str:
    """MCAP protects chunks and attachments by a CRC-32, but not metadata: this one does."""
    return f"{zlib.crc32(json.dumps(sorted(metadata.items())).encode()):08x}"
