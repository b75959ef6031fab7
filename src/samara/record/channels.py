"""The channels of a recording and their protobuf schemas, so that other tools plot every field by its name."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from google.protobuf.descriptor import FileDescriptor  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]
from mcap.records import Channel, Schema
from mcap.well_known import MessageEncoding, SchemaEncoding

from samara.record.foxglove import Posed, pose_layout, posed, transform_layout
from samara.record.layout import Layout, raster_layout, stream_layout
from samara.record.streams import (
    LOG_TOPIC,
    MOST_CHANNELS,
    SCENE_TOPIC,
    TRANSFORM_TOPIC,
    RecordingError,
    Stream,
    require_stream,
    stream_metadata,
)


def identifiers(fields: Sequence[str]) -> list[str]:
    """Names that protobuf and a plotting tool accept, one of its own for each field: 'rotor_speed[2]' → 'rotor_speed_2'."""
    taken = {"time_us"}
    names = []
    for field in fields:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", field).strip("_") or "value"
        plain = plain if not plain[0].isdigit() else f"value_{plain}"
        name, again = plain, 2
        while name in taken:
            name, again = f"{plain}_{again}", again + 1
        taken.add(name)
        names.append(name)
    return names


@lru_cache(maxsize=64)
def stream_schema(fields: tuple[str, ...], name: str, *, repeated: bool = False) -> bytes:
    """A FileDescriptorSet with one message: time_us as sfixed64, then a double for each field, or one for each drone."""
    package, _, message = name.rpartition(".")
    file = FileDescriptorProto(name=f"{name.replace('.', '/')}.proto", package=package, syntax="proto3")
    record = file.message_type.add(name=message)
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    record.field.add(name="time_us", number=1, type=FieldDescriptorProto.TYPE_SFIXED64, label=optional)
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else optional
    for number, field in enumerate(identifiers(fields), start=2):
        record.field.add(name=field, number=number, type=FieldDescriptorProto.TYPE_DOUBLE, label=label, json_name=field)
    return FileDescriptorSet(file=[file]).SerializeToString(deterministic=True)


@lru_cache(maxsize=64)  # a thousand drones of one kind have one schema
def message_type(schema: bytes, name: str) -> type[Message]:
    """The protobuf class of a message from the schema in the file."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def published_schema(message: Message | type[Message]) -> bytes:
    """The FileDescriptorSet of a generated class, with the files it builds on before it."""
    files: dict[str, FileDescriptorProto] = {}

    def collect(descriptor: FileDescriptor) -> None:
        for dependency in descriptor.dependencies:
            collect(dependency)
        if descriptor.name not in files:
            files[descriptor.name] = FileDescriptorProto()
            descriptor.CopyToProto(files[descriptor.name])

    collect(message.DESCRIPTOR.file)
    return FileDescriptorSet(file=list(files.values())).SerializeToString(deterministic=True)


class StreamLayouts(NamedTuple):
    """A stream on its way into the file: its own layout, and those of the pose and the transform drawn from it.

    Streams of one family have their numbers in the same places, and those of the pose in the same columns.
    """

    stream: Stream
    layout: Layout
    posed: Posed | None
    drawn: tuple[Layout, ...]
    family: int


class Contents(NamedTuple):
    """The streams by topic, the numbers of the log's channel and the scene's (0: none), and the records of all channels."""

    tracks: dict[str, StreamLayouts]
    log: int
    scene: int
    schemas: list[Schema]
    channels: list[Channel]


def contents_of(streams: Sequence[Stream], scene: bool = False) -> Contents:
    """Schemas and channels numbered from 1 as they come; streams of one kind with the same fields share a schema."""
    tracks: dict[str, StreamLayouts] = {}
    schemas: dict[tuple[str, tuple[str, ...]], Schema] = {}
    channels: dict[str, Channel] = {}

    def add_schema(kind: str, fields: tuple[str, ...] = (), published: type[Message] | None = None) -> Schema:
        if (kind, fields) not in schemas:
            # Tools keep one definition for each name, so a second set of fields under one kind needs a name of its own.
            name, again = kind, 2
            while name in (schema.name for schema in schemas.values()):
                name, again = f"{kind}_{again}", again + 1
            data = published_schema(published) if published else stream_schema(fields, name)
            schemas[kind, fields] = Schema(len(schemas) + 1, data, SchemaEncoding.Protobuf, name)
        return schemas[kind, fields]

    def add_channel(topic: str, schema: Schema, metadata: dict[str, str]) -> int:
        if topic in channels:
            raise RecordingError(f"topic {topic!r} is there twice; expected one stream for each")
        if len(channels) == MOST_CHANNELS:
            raise RecordingError(f"topic {topic!r} is one too many; expected at most {MOST_CHANNELS}")
        channels[topic] = Channel(len(channels) + 1, topic, MessageEncoding.Protobuf, metadata, schema.id)
        return channels[topic].id

    for stream in streams:
        require_stream(stream)
        if stream.raster:
            schema = add_schema("foxglove.RawImage", published=RawImage)
            channel = add_channel(stream.topic, schema, stream_metadata(stream))
            layout = raster_layout(stream.raster, stream.topic.strip("/")).on(channel)
        else:
            schema = add_schema(stream.kind, tuple(stream.fields))
            channel = add_channel(stream.topic, schema, stream_metadata(stream))
            layout = stream_layout(message_type(schema.data, schema.name)).on(channel)  # type: ignore[arg-type]
        tracks[stream.topic] = StreamLayouts(stream, layout, posed(stream), (), 0)
    log = add_channel(LOG_TOPIC, add_schema("foxglove.Log", published=Log), {})
    if any(track.posed for track in tracks.values()):
        poses = add_schema("foxglove.PoseInFrame", published=PoseInFrame)
        transforms = add_schema("foxglove.FrameTransform", published=FrameTransform)
        shared = add_channel(TRANSFORM_TOPIC, transforms, {})
        for topic, track in tracks.items():
            if track.posed:
                own = add_channel(track.posed.topic, poses, {})
                tracks[topic] = track._replace(drawn=(pose_layout(own), transform_layout(shared, track.posed.frame)))
    drawn = add_channel(SCENE_TOPIC, add_schema("foxglove.SceneUpdate", published=SceneUpdate), {}) if scene else 0
    families: dict[tuple[object, ...], int] = {}
    for topic, track in tracks.items():
        columns = tuple(track.posed.columns.tolist()) if track.posed else ()
        alike = (track.layout.places, columns, *(layout.places for layout in track.drawn))
        tracks[topic] = track._replace(family=families.setdefault(alike, len(families)))
    return Contents(tracks, log, drawn, list(schemas.values()), list(channels.values()))
