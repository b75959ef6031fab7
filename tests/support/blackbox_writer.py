"""A writer of blackbox logs, after the format's description; the reader must restore the same numbers.

log = Log([Field("time", False, (0, 1), (2, 0)), ...], {"minthrottle": "1070"})
log.main({"time": 1000, ...}); log.event(15, 4); log.end()
bytes(log)
"""

from dataclasses import dataclass, field
from typing import NamedTuple

PRODUCT = b"H Product:Blackbox flight data recorder by Nicholas Sherlock\n"
GROUPS = {6: 8, 7: 3, 8: 4, 10: 3}


class Field(NamedTuple):
    """A field with its (predictor, encoding) in I frames, or in frames without types, and in P frames."""

    name: str
    signed: bool
    intra: tuple[int, int]
    inter: tuple[int, int] = (1, 0)


def encode_unsigned(value: int) -> bytes:
    data = b""
    value &= 0xFFFFFFFF
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def encode_signed(value: int) -> bytes:
    return encode_unsigned(2 * value if value >= 0 else -2 * value - 1)


def fits_bits(values: list[int], bits: tuple[int, ...]) -> bool:
    return all(-(1 << n - 1) <= value < 1 << n - 1 for value, n in zip(values, bits, strict=True))


def pack_bits(tag: int, values: list[int], bits: tuple[int, ...], gaps: tuple[int, ...]) -> bytes:
    """Pack a two-bit tag, then each value after a gap, from the highest bit down."""
    number = tag
    length = 2
    for value, n, gap in zip(values, bits, gaps, strict=True):
        number = number << n + gap | value & (1 << n) - 1
        length += n + gap
    return number.to_bytes(length // 8, "big")


def encode_three(values: list[int], layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> bytes:
    for tag, (bits, gaps) in enumerate(layouts):
        if fits_bits(values, bits):
            return pack_bits(tag, values, bits, gaps)
    sizes = [next(n for n in (1, 2, 3, 4) if fits_bits([value], (8 * n,))) for value in values]
    tag = 0b11 << 6 | sum(n - 1 << 2 * i for i, n in enumerate(sizes))
    return bytes([tag]) + b"".join(
        value.to_bytes(n, "little", signed=True) for value, n in zip(values, sizes, strict=True)
    )


def encode_values(encoding: int, values: list[int]) -> bytes:
    """Encode differences of the fields that share a tag, or of one field."""
    if encoding in (0, 6) and len(values) == 1:
        return encode_signed(values[0])
    if encoding == 1:
        return encode_unsigned(values[0])
    if encoding == 3:
        return encode_unsigned(-values[0] & 0x3FFF)
    if encoding == 6:
        return bytes([sum(1 << i for i, value in enumerate(values) if value)]) + b"".join(
            map(encode_signed, filter(None, values))
        )
    if encoding == 7:
        return encode_three(([*values, 0, 0])[:3], (((2,) * 3, (0,) * 3), ((4,) * 3, (2, 0, 0)), ((6,) * 3, (0, 2, 2))))
    if encoding == 8:
        values = (values + [0] * 3)[:4]
        sizes = [
            next(n for n, bits in enumerate((0, 4, 8, 16)) if value == 0 or (bits and fits_bits([value], (bits,))))
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
        return encode_three(([*values, 0, 0])[:3], (((2,) * 3, (0,) * 3), ((5, 5, 4), (0,) * 3), ((8, 7, 7), (0,) * 3)))
    raise NotImplementedError(encoding)


@dataclass
class Log:
    """One log: frames are appended; every `interval`-th main frame is an I frame."""

    fields: list[Field]
    headers: dict[str, str] = field(default_factory=dict)
    slow: list[Field] = field(default_factory=list)
    gps: list[Field] = field(default_factory=list)
    home: list[Field] = field(default_factory=list)
    interval: int = 8
    body: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)
    _count: int = 0

    def header(self) -> bytes:
        """Return the header."""
        lines = {"Data version": "2"}
        for letter, fields in (("I", self.fields), ("S", self.slow), ("G", self.gps), ("H", self.home)):
            if fields:
                lines[f"Field {letter} name"] = ",".join(log_field.name for log_field in fields)
                lines[f"Field {letter} signed"] = ",".join(str(int(log_field.signed)) for log_field in fields)
                for index, property_name in enumerate(("predictor", "encoding")):
                    lines[f"Field {letter} {property_name}"] = ",".join(
                        str(log_field.intra[index]) for log_field in fields
                    )
                    if letter == "I":
                        lines[f"Field P {property_name}"] = ",".join(
                            str(log_field.inter[index]) for log_field in fields
                        )
        return PRODUCT + b"".join(f"H {name}:{value}\n".encode() for name, value in (lines | self.headers).items())

    def __bytes__(self) -> bytes:
        return self.header() + bytes(self.body)

    def add_main_frame(self, values: dict[str, int]) -> None:
        """Append a main frame."""
        intra = self._count % self.interval == 0
        if intra:
            self._one = self._two = values
        self.starts.append(len(self.body))
        codings = [log_field.intra if intra else log_field.inter for log_field in self.fields]
        self._add("I" if intra else "P", self.fields, codings, values)
        self._two, self._one = (values if intra else self._one), values
        self._count += 1

    def add_frame(self, letter: str, values: dict[str, int]) -> None:
        """Append a slow, GPS or home frame."""
        fields = {"S": self.slow, "G": self.gps, "H": self.home}[letter]
        if letter == "H":
            self._home = list(values.values())
        self._add(letter, fields, [log_field.intra for log_field in fields], values)

    def add_event(self, number: int, *values: int) -> None:
        """Append an event whose contents are unsigned numbers."""
        self.body += b"E" + bytes([number]) + b"".join(map(encode_unsigned, values))

    def add_end(self) -> None:
        """Append the end of the log."""
        self.body += b"E\xffEnd of log\0"

    def _add(self, letter: str, fields: list[Field], codings: list[tuple[int, int]], values: dict[str, int]) -> None:
        self.body += letter.encode()
        pending: list[int] = []
        home_index = 0
        for index, (log_field, (predictor, encoding)) in enumerate(zip(fields, codings, strict=True)):
            difference = values[log_field.name] - self._predict(predictor, log_field.name, values, home_index)
            home_index += predictor == 7
            pending.append((difference + (1 << 31)) % (1 << 32) - (1 << 31))
            is_grouped = (
                index + 1 < len(codings)
                and codings[index + 1][1] == encoding
                and len(pending) < GROUPS.get(encoding, 1)
            )
            if not is_grouped:
                self.body += encode_values(encoding, pending)
                pending = []

    def _predict(self, predictor: int, name: str, values: dict[str, int], home_index: int) -> int:
        if predictor in (1, 2, 3, 6):
            last, second_last = self._one[name], self._two[name]
            return {1: last, 2: 2 * last - second_last, 3: int((last + second_last) / 2), 6: last + 1}[predictor]
        if predictor == 5:
            return values["motor[0]"]
        if predictor == 7:
            return self._home[home_index]
        if predictor == 10:
            return self._one["time"]
        header_names = {4: "minthrottle", 9: "vbatref", 11: "motorOutput"}
        if predictor in header_names:
            return int(self.headers[header_names[predictor]].split(",")[0])
        return {0: 0, 8: 1500}[predictor]
