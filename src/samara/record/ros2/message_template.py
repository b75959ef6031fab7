"""One message that is filled in again and again: for a few at a time, quicker than columns."""

import struct
from collections.abc import Sequence

from samara.record.ros2.cdr import Layout

LETTERS = {
    "b1": "?", "u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f4": "f", "f8": "d",
}  # fmt: skip


class Form:
    """The bytes of a layout, with the places of some of its numbers, which stand in the order of their paths"""

    def __init__(self, layout: Layout, paths: Sequence[str]) -> None:
        """KeyError where the layout has no such number"""
        self._data = bytearray(layout.data.tobytes())
        self._parts: list[tuple[struct.Struct, int, int]] = []
        letters, begin, end = "", 0, 0
        for kind, offset in (place for path in paths for place in layout.below(path)):
            own = LETTERS[kind.base.str[1:]] * (kind.shape[0] if kind.shape else 1)
            if offset != end:  # what stands side by side is written at once
                self._add(letters, begin)
                letters, begin = "", offset
            letters, end = letters + own, offset + kind.itemsize
        self._add(letters, begin)

    def _add(self, letters: str, begin: int) -> None:
        if letters:
            self._parts.append((struct.Struct(f"<{letters}"), begin, len(letters)))

    def filled(self, numbers: Sequence[float]) -> bytes:
        """A message with these numbers, as many as the paths have"""
        at = 0
        for form, offset, count in self._parts:
            form.pack_into(self._data, offset, *numbers[at : at + count])
            at += count
        if at != len(numbers):
            raise ValueError(f"{len(numbers)} numbers for a message that has {at}")
        return bytes(self._data)
