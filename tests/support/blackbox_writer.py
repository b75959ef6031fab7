"""A writer of blackbox logs, after the format's own description: what the reader must turn back into the same numbers.

log = Log([Field("time", False, (0, 1), (2, 0)), ...], {"minthrottle": "1070"})
log.main({"time": 1000, ...}); log.event(15, 4); log.end()
bytes(log)
"""

from dataclasses import dataclass, field
from typing import NamedTuple

PRODUCT = b"H Product:Blackbox flight data recorder by Nicholas Sherlock\n"
GROUPS = {6: 8, 7: 3, 8: 4, 10: 3}


class Field(NamedTuple):
    """(predictor, encoding) in I frames, or in the only kind there is; the same of P frames"""

    name: str
    signed: bool
    intra: tuple[int, int]
    inter: tuple[int, int] = (1, 0)


def unsigned(value: int) -> bytes:
    out = b""
    value &= 0xFFFFFFFF
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def signed(value: int) -> bytes:
    return unsigned(2 * value if value >= 0 else -2 * value - 1)


def fits(values: list[int], bits: tuple[int, ...]) -> bool:
    return all(-(1 << n - 1) <= value < 1 << n - 1 for value, n in zip(values, bits, strict=True))


def packed(tag: int, values: list[int], bits: tuple[int, ...], gaps: tuple[int, ...]) -> bytes:
    """Two bits of a tag, then each value after a gap, from the highest bit down"""
    number = tag
    length = 2
    for value, n, gap in zip(values, bits, gaps, strict=True):
        number = number << n + gap | value & (1 << n) - 1
        length += n + gap
    return number.to_bytes(length // 8, "big")


def three(values: list[int], ways: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> bytes:
    for tag, (bits, gaps) in enumerate(ways):
        if fits(values, bits):
            return packed(tag, values, bits, gaps)
    sizes = [next(n for n in (1, 2, 3, 4) if fits([value], (8 * n,))) for value in values]
    tag = 0b11 << 6 | sum(n - 1 << 2 * i for i, n in enumerate(sizes))
    return bytes([tag]) + b"".join(
        value.to_bytes(n, "little", signed=True) for value, n in zip(values, sizes, strict=True)
    )


def written(encoding: int, values: list[int]) -> bytes:
    """Differences of the fields that share a tag, or of one field"""
    if encoding in (0, 6) and len(values) == 1:
        return signed(values[0])
    if encoding == 1:
        return unsigned(values[0])
    if encoding == 3:
        return unsigned(-values[0] & 0x3FFF)
    if encoding == 6:
        return bytes([sum(1 << i for i, value in enumerate(values) if value)]) + b"".join(
            map(signed, filter(None, values))
        )
    if encoding == 7:
        return three(([*values, 0, 0])[:3], (((2,) * 3, (0,) * 3), ((4,) * 3, (2, 0, 0)), ((6,) * 3, (0, 2, 2))))
    if encoding == 8:
        values = (values + [0] * 3)[:4]
        sizes = [
            next(n for n, bits in enumerate((0, 4, 8, 16)) if value == 0 or (bits and fits([value], (bits,))))
            for value in values
        ]
        nibbles = "".join(
            f"{value & (1 << 4 * n) - 1:0{n}x}"
            for value, n in zip(values, ((0, 1, 2, 4)[s] for s in sizes), strict=True)
            if n
        )
        return bytes([sum(size << 2 * i for i, size in enumerate(sizes))]) + bytes.fromhex(
            nibbles + "0" * (len(nibbles) % 2)
        )
    if encoding == 9:
        assert values == [0]
        return b""
    if encoding == 10:
        return three(([*values, 0, 0])[:3], (((2,) * 3, (0,) * 3), ((5, 5, 4), (0,) * 3), ((8, 7, 7), (0,) * 3)))
    raise NotImplementedError(encoding)


@dataclass
class Log:
    """One log: frames as they are added, every `interval`-th main frame an I frame"""

    fields: list[Field]
    headers: dict[str, str] = field(default_factory=dict)
    slow: list[Field] = field(default_factory=list)
    gps: list[Field] = field(default_factory=list)
    home: list[Field] = field(default_factory=list)
    interval: int = 8
    body: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)
    _count: int = 0

    def head(self) -> bytes:
        """The header"""
        lines = {"Data version": "2"}
        for letter, fields in (("I", self.fields), ("S", self.slow), ("G", self.gps), ("H", self.home)):
            if fields:
                lines[f"Field {letter} name"] = ",".join(own.name for own in fields)
                lines[f"Field {letter} signed"] = ",".join(str(int(own.signed)) for own in fields)
                for at, what in enumerate(("predictor", "encoding")):
                    lines[f"Field {letter} {what}"] = ",".join(str(own.intra[at]) for own in fields)
                    if letter == "I":
                        lines[f"Field P {what}"] = ",".join(str(own.inter[at]) for own in fields)
        return PRODUCT + b"".join(f"H {name}:{value}\n".encode() for name, value in (lines | self.headers).items())

    def __bytes__(self) -> bytes:
        return self.head() + bytes(self.body)

    def main(self, values: dict[str, int]) -> None:
        """A main frame"""
        intra = self._count % self.interval == 0
        if intra:
            self._one = self._two = values
        self.starts.append(len(self.body))
        ways = [own.intra if intra else own.inter for own in self.fields]
        self._add("I" if intra else "P", self.fields, ways, values)
        self._two, self._one = (values if intra else self._one), values
        self._count += 1

    def other(self, letter: str, values: dict[str, int]) -> None:
        """A slow, GPS or home frame"""
        fields = {"S": self.slow, "G": self.gps, "H": self.home}[letter]
        if letter == "H":
            self._home = list(values.values())
        self._add(letter, fields, [own.intra for own in fields], values)

    def event(self, number: int, *values: int) -> None:
        """One whose contents are unsigned numbers"""
        self.body += b"E" + bytes([number]) + b"".join(map(unsigned, values))

    def end(self) -> None:
        """That it ends here"""
        self.body += b"E\xffEnd of log\0"

    def _add(self, letter: str, fields: list[Field], ways: list[tuple[int, int]], values: dict[str, int]) -> None:
        self.body += letter.encode()
        waiting: list[int] = []
        homes = 0
        for at, (own, (predictor, encoding)) in enumerate(zip(fields, ways, strict=True)):
            difference = values[own.name] - self._predicted(predictor, own.name, values, homes)
            homes += predictor == 7
            waiting.append((difference + (1 << 31)) % (1 << 32) - (1 << 31))
            together = at + 1 < len(ways) and ways[at + 1][1] == encoding and len(waiting) < GROUPS.get(encoding, 1)
            if not together:
                self.body += written(encoding, waiting)
                waiting = []

    def _predicted(self, predictor: int, name: str, now: dict[str, int], homes: int) -> int:
        if predictor in (1, 2, 3, 6):
            one, two = self._one[name], self._two[name]
            return {1: one, 2: 2 * one - two, 3: int((one + two) / 2), 6: one + 1}[predictor]
        if predictor == 5:
            return now["motor[0]"]
        if predictor == 7:
            return self._home[homes]
        if predictor == 10:
            return self._one["time"]
        given = {4: "minthrottle", 9: "vbatref", 11: "motorOutput"}
        if predictor in given:
            return int(self.headers[given[predictor]].split(",")[0])
        return {0: 0, 8: 1500}[predictor]
