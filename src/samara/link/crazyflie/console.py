"""The console: sentences for whoever looks at it, in packets of up to 30 bytes; a line ends with a line feed."""

from collections.abc import Iterator

from samara.link.crazyflie.crtp import MOST_DATA, Packet, Port

MOST_LINES = 32  # that wait to be sent


class Console:
    """`print` what is to be said; `due` has it once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def print(self, sentence: str) -> None:
        """Says it; what is not ASCII becomes a question mark, for a packet may end within a letter"""
        if len(self._lines) < MOST_LINES:
            self._lines.append(sentence)

    def due(self) -> Iterator[Packet]:
        """What has been said since"""
        for line in self._lines:
            data = f"{line}\n".encode("ascii", "replace")
            for start in range(0, len(data), MOST_DATA):
                yield Packet(Port.CONSOLE, 0, data[start : start + MOST_DATA])
        self._lines.clear()
