"""RIHS01 type hashes of ROS 2 messages (REP 2016)."""

import hashlib
import json
from functools import cache
from typing import Any

from samara.record.ros2.definitions import Field, definitions, schema_name, with_parts

FIELD_TYPE_IDS = {
    "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
    "float32": 10, "float64": 11, "bool": 15, "string": 17,
}  # fmt: skip
"""The constants of `type_description_interfaces/msg/FieldType`."""
NESTED_TYPE_ID, BOUNDED_STRING_ID = 1, 21
ARRAY_OFFSET, SEQUENCE_OFFSET = 48, 144


@cache
def type_hash(kind: str) -> str:
    """Return 'RIHS01_' and the SHA-256 of the JSON type description: the type, then the types it refers to by name."""
    top, *parts = with_parts(kind)
    description = {
        "type_description": _individual_description(top),
        "referenced_type_descriptions": [_individual_description(part) for part in sorted(parts, key=schema_name)],
    }
    return f"RIHS01_{hashlib.sha256(json.dumps(description).encode()).hexdigest()}"


def _individual_description(kind: str) -> dict[str, Any]:
    """Return the name and the fields of one type; defaults and constants are no part of the hash."""
    fields = [{"name": field.name, "type": _field_type(field)} for field in definitions()[kind]]
    return {"type_name": schema_name(kind), "fields": fields}


def _field_type(field: Field) -> dict[str, Any]:
    number = BOUNDED_STRING_ID if field.capacity else FIELD_TYPE_IDS.get(field.kind, NESTED_TYPE_ID)
    if field.is_array:
        number += SEQUENCE_OFFSET if field.length is None else ARRAY_OFFSET
    return {
        "type_id": number,
        "capacity": field.length or 0,
        "string_capacity": field.capacity,
        "nested_type_name": schema_name(field.kind) if field.kind in definitions() else "",
    }
