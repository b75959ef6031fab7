"""Drones that are computed together: as many as the widest registers hold."""

from typing import NamedTuple

from samara.backends.llvm_code import vector_width


class Part(NamedTuple):
    """Lanes from the first to before the last, so many of them at a time."""

    first: int
    last: int
    width: int

    @property
    def tiles(self) -> int:
        """How many times `width` lanes it is"""
        return (self.last - self.first) // self.width

    def share(self, number: int, shares: int) -> "Part":
        """One of several parts of it, each of whole tiles"""
        first, last = (self.first + self.width * (self.tiles * k // shares) for k in (number, number + 1))
        return Part(first, last, self.width)


def parts_of(n: int, dtype: str = "float64") -> list[Part]:
    """The lanes of n drones: whole tiles, and the rest one by one"""
    width = vector_width(dtype)
    whole = n - n % width if n > 1 else 0
    return [part for part in (Part(0, whole, width), Part(whole, n, 1)) if part.tiles]


def is_one_tile(n: int) -> bool:
    """Whether n drones are a single tile"""
    return sum(part.tiles for part in parts_of(n)) == 1
