"""The protobuf schema of a stream, so that tools which know nothing of Samara can plot its fields by name."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]


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
def message_type(schema: bytes, name: str) -> Any:
    """The protobuf class of a message from the schema in the file."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def published_schema(message: Any) -> bytes:
    """The FileDescriptorSet of a generated class, with the files it builds on before it."""
    files: dict[str, FileDescriptorProto] = {}

    def collect(descriptor: Any) -> None:
        for dependency in descriptor.dependencies:
            collect(dependency)
        if descriptor.name not in files:
            files[descriptor.name] = FileDescriptorProto()
            descriptor.CopyToProto(files[descriptor.name])

    collect(message.DESCRIPTOR.file)
    return FileDescriptorSet(file=list(files.values())).SerializeToString(deterministic=True)
