"""Log blocks: variables that a client has put together, sent to it every so many milliseconds."""

import errno
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.link.crazyflie.crtp import MOST_DATA
from samara.link.crazyflie.number import LOGGED, Kind, packed
from samara.link.crazyflie.toc import Contents, Entry

DELETE, START, STOP, RESET, CREATE, APPEND = 2, 3, 4, 5, 6, 7
MOST_BLOCKS, MOST_VARIABLES, MOST_BYTES = 16, 128, 26
TEN_MS = 10_000  # [µs]: the unit of a period
ITEM = struct.Struct("<BH")


class Variable(NamedTuple):
    """What can be logged: its type, its name in two parts, and how it is read from what is known at an instant."""

    kind: Kind
    group: str
    name: str
    read: Callable[[Any], float]


@dataclass
class Block:
    """Variables, each with the type it is sent as; every `period_us`, next at `due_us`, where it has been started."""

    items: list[tuple[Variable, Kind]] = field(default_factory=list)
    period_us: int = 0
    due_us: int = 0

    @property
    def size(self) -> int:
        """How many bytes it sends"""
        return sum(kind.layout.size for _, kind in self.items)


class Logs:
    """The table of variables, and the blocks that a client has made."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = tuple(variables)
        entries = [Entry(own.kind.log, own.group, own.name) for own in variables]
        self.contents = Contents(entries, bytes([MOST_BLOCKS, MOST_VARIABLES]))
        self.blocks: dict[int, Block] = {}

    def control(self, data: bytes, now_us: int) -> bytes | None:
        """The answer to an order about blocks: it, the block, and 0 or what is wrong"""
        if not data:
            return None
        command = data[0]
        if command == RESET:
            self.blocks.clear()
            return bytes([RESET, 0, 0])
        if len(data) < 2:
            return None
        number = data[1]
        if command in (CREATE, APPEND):
            problem = self._fill(number, data[2:], new=command == CREATE, full=len(data) == MOST_DATA)
        elif number not in self.blocks:
            problem = errno.ENOENT
        else:
            problem = self._change(command, number, data[2:], now_us)
        return bytes([command, number, problem])

    def _fill(self, number: int, data: bytes, *, new: bool, full: bool) -> int:
        if new and number in self.blocks:
            return errno.EEXIST
        if not new and number not in self.blocks:
            return errno.ENOENT
        if new and len(self.blocks) >= MOST_BLOCKS:
            return errno.ENOMEM
        left = len(data) % ITEM.size
        if left and not full:  # a client fills a packet to its last byte, and begins that item again in the next
            return errno.EINVAL
        items = []
        for code, variable in ITEM.iter_unpack(data[: len(data) - left]):
            kind = LOGGED.get(code & 0x0F)
            if kind is None or variable >= len(self._variables):
                return errno.ENOENT
            items.append((self._variables[variable], kind))
        if sum(len(own.items) for own in self.blocks.values()) + len(items) > MOST_VARIABLES:
            return errno.ENOMEM
        block = Block() if new else self.blocks[number]
        if block.size + sum(kind.layout.size for _, kind in items) > MOST_BYTES:
            return errno.E2BIG
        block.items += items
        self.blocks[number] = block
        return 0

    def _change(self, command: int, number: int, data: bytes, now_us: int) -> int:
        block = self.blocks[number]
        if command == DELETE:
            del self.blocks[number]
        elif command == STOP:
            block.period_us = 0
        elif command == START and len(data) == 1 and data[0]:
            block.period_us = data[0] * TEN_MS
            block.due_us = now_us + block.period_us
        else:
            return errno.ENOEXEC
        return 0

    def due(self, known: Any, now_us: int) -> Iterator[bytes]:
        """The data of every block whose time has come: number, milliseconds, values"""
        for number, block in self.blocks.items():
            if not block.period_us or now_us < block.due_us:
                continue
            # after a halt it goes on from now: it does not make up for what nobody has waited for
            block.due_us = max(block.due_us + block.period_us, now_us)
            values = b"".join(packed(own.read(known), kind) for own, kind in block.items)
            yield bytes([number]) + (now_us // 1000 & 0xFFFFFF).to_bytes(3, "little") + values
