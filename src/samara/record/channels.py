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

from samara.record.foxglove import PoseColumns, pose_columns, pose_layout, transform_layout
from samara.record.layout import RecordLayout, raster_layout, stream_layout
from samara.record.streams import (
    LOG_TOPIC,
    MAX_CHANNELS,
    SCENE_TOPIC,
    TRANSFORM_TOPIC,
    RecordingError,
    Stream,
    require_stream,
    stream_metadata,
)


def field_identifiers(fields: Sequence[str]) -> list[str]:
    """Return unique names that protobuf and plotting tools accept: 'rotor_speed[2]' → 'rotor_speed_2'."""
    used = {"time_us"}
    names = []
    for field in fields:
        base = re.sub(r"[^A-Za-z0-9_]+", "_", field).strip("_") or "value"
        base = base if not base[0].isdigit() else f"value_{base}"
        name, suffix = base, 2
        while name in used:
            name, suffix = f"{base}_{suffix}", suffix + 1
        used.add(name)
        names.append(name)
    return names


@lru_cache(maxsize=64)
def stream_schema(fields: tuple[str, ...], name: str, *, repeated: bool = False) -> bytes:
    """Return a FileDescriptorSet with one message: time_us as sfixed64, then a double per field; a list if `repeated`."""
    package, _, message = name.rpartition(".")
    file = FileDescriptorProto(name=f"{name.replace('.', '/')}.proto", package=package, syntax="proto3")
    record = file.message_type.add(name=message)
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    record.field.add(name="time_us", number=1, type=FieldDescriptorProto.TYPE_SFIXED64, label=optional)
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else optional
    for number, field in enumerate(field_identifiers(fields), start=2):
        record.field.add(name=field, number=number, type=FieldDescriptorProto.TYPE_DOUBLE, label=label, json_name=field)
    return FileDescriptorSet(file=[file]).SerializeToString(deterministic=True)


@lru_cache(maxsize=64)  # a thousand drones of one vehicle have one schema
def message_type(schema: bytes, name: str) -> type[Message]:
    """Return the protobuf class of a message from a schema in the file."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def published_schema(message: Message | type[Message]) -> bytes:
    """Return the FileDescriptorSet of a generated class, with its dependencies before it."""
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
    """The record layouts of a stream, and of the pose and the transform derived from it.

    Streams of one family have their numbers at the same offsets and their pose in the same columns.
    """

    stream: Stream
    layout: RecordLayout
    pose: PoseColumns | None
    pose_layouts: tuple[RecordLayout, ...]
    family: int


class ChannelTable(NamedTuple):
    """The layouts by topic, the channel ids of the log and of the scene (0: none), and the records of all channels."""

    layouts: dict[str, StreamLayouts]
    log: int
    scene: int
    schemas: list[Schema]
    channels: list[Channel]


def build_channels(streams: Sequence[Stream], scene: bool = False) -> ChannelTable:
    """Number schemas and channels from 1, in order; streams with the same schema name and fields share a schema."""
    layouts_by_topic: dict[str, StreamLayouts] = {}
    schemas: dict[tuple[str, tuple[str, ...]], Schema] = {}
    channels: dict[str, Channel] = {}

    def add_schema(base_name: str, fields: tuple[str, ...] = (), published: type[Message] | None = None) -> Schema:
        if (base_name, fields) not in schemas:
            # Tools store one definition per name, so a second set of fields under one name needs another name.
            name, suffix = base_name, 2
            while name in (schema.name for schema in schemas.values()):
                name, suffix = f"{base_name}_{suffix}", suffix + 1
            data = published_schema(published) if published else stream_schema(fields, name)
            schemas[base_name, fields] = Schema(len(schemas) + 1, data, SchemaEncoding.Protobuf, name)
        return schemas[base_name, fields]

    def add_channel(topic: str, schema: Schema, metadata: dict[str, str]) -> int:
        if topic in channels:
            raise RecordingError(f"topic {topic!r} occurs twice; expected one stream for each topic")
        if len(channels) == MAX_CHANNELS:
            raise RecordingError(f"topic {topic!r} is one too many; expected at most {MAX_CHANNELS}")
        channels[topic] = Channel(len(channels) + 1, topic, MessageEncoding.Protobuf, metadata, schema.id)
        return channels[topic].id

    for stream in streams:
        require_stream(stream)
        if stream.raster:
            schema = add_schema("foxglove.RawImage", published=RawImage)
            channel = add_channel(stream.topic, schema, stream_metadata(stream))
            layout = raster_layout(stream.raster, stream.topic.strip("/")).copy_to_channel(channel)
        else:
            schema = add_schema(stream.schema_name, tuple(stream.fields))
            channel = add_channel(stream.topic, schema, stream_metadata(stream))
            layout = stream_layout(message_type(schema.data, schema.name)).copy_to_channel(channel)  # type: ignore[arg-type]
        layouts_by_topic[stream.topic] = StreamLayouts(stream, layout, pose_columns(stream), (), 0)
    log = add_channel(LOG_TOPIC, add_schema("foxglove.Log", published=Log), {})
    if any(layouts.pose for layouts in layouts_by_topic.values()):
        poses = add_schema("foxglove.PoseInFrame", published=PoseInFrame)
        transforms = add_schema("foxglove.FrameTransform", published=FrameTransform)
        transform_channel = add_channel(TRANSFORM_TOPIC, transforms, {})
        for topic, layouts in layouts_by_topic.items():
            if layouts.pose:
                pose_channel = add_channel(layouts.pose.topic, poses, {})
                layouts_by_topic[topic] = layouts._replace(
                    pose_layouts=(pose_layout(pose_channel), transform_layout(transform_channel, layouts.pose.frame))
                )
    scene_channel = (
        add_channel(SCENE_TOPIC, add_schema("foxglove.SceneUpdate", published=SceneUpdate), {}) if scene else 0
    )
    families: dict[tuple[object, ...], int] = {}
    for topic, layouts in layouts_by_topic.items():
        columns = tuple(layouts.pose.columns.tolist()) if layouts.pose else ()
        family_key = (layouts.layout.offsets, columns, *(layout.offsets for layout in layouts.pose_layouts))
        layouts_by_topic[topic] = layouts._replace(family=families.setdefault(family_key, len(families)))
    return ChannelTable(layouts_by_topic, log, scene_channel, list(schemas.values()), list(channels.values()))
