"""The types of ROS 2 messages, from the list of their fields in messages.txt."""

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SIZES = {
    "bool": "?", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
    "uint64": "<u8", "int64": "<i8", "float32": "<f4", "float64": "<f8",
}  # fmt: skip
FIELD = re.compile(r"(?P<kind>[\w/]+)(<=(?P<capacity>\d+))?(?P<many>\[(?P<length>\d*)\])? (?P<name>\w+)")
BORDER = "=" * 80  # between the definitions of a schema


class Field(NamedTuple):
    """A field: its name, what it is or has many of, and how many: one, a fixed number, or None for a sequence

    `capacity` is the maximum length of a bounded string, 0 without a bound.
    """

    name: str
    kind: str
    is_array: bool = False
    length: int | None = None
    capacity: int = 0

    @property
    def text(self) -> str:
        """As a .msg file has it"""
        many = f"[{'' if self.length is None else self.length}]" if self.is_array else ""
        bound = f"<={self.capacity}" if self.capacity else ""
        return f"{self.kind}{bound}{many} {self.name}"


@cache
def definitions() -> dict[str, tuple[Field, ...]]:
    """The fields of every type, by its name 'sensor_msgs/Imu'"""
    found: dict[str, tuple[Field, ...]] = {}
    name = ""
    for line in (files(__package__) / "messages.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = FIELD.fullmatch(line.strip()) if line.startswith(" ") else None
        if match is None:
            name = line.strip()
            found[name] = ()
            continue
        length = int(match["length"]) if match["length"] else None
        capacity = int(match["capacity"] or 0)
        found[name] += (Field(match["name"], match["kind"], match["many"] is not None, length, capacity),)
    return found


def schema_name(kind: str) -> str:
    """'sensor_msgs/Imu' as 'sensor_msgs/msg/Imu'"""
    package, _, name = kind.partition("/")
    return f"{package}/msg/{name}"


def schema_text(kind: str) -> str:
    """Its definition and those of all types within, as MCAP's encoding 'ros2msg' has them"""
    own, *within = with_parts(kind)
    parts = [_text(own), *(f"{BORDER}\nMSG: {part}\n{_text(part)}" for part in within)]
    return "".join(parts)


def _text(kind: str) -> str:
    return "".join(f"{field.text}\n" for field in definitions()[kind])


def with_parts(kind: str) -> list[str]:
    """Return the type, then the types it refers to, each once."""
    found = [kind]
    for field in definitions()[kind]:
        if field.kind in definitions():
            found += with_parts(field.kind)
    return list(dict.fromkeys(found))
