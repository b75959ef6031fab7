"""Drones that are computed together: as many as the widest registers hold."""

from typing import NamedTuple

from samara.backends.llvm_code import vector_width

MANY = 4  # tiles


class Tiles(NamedTuple):
    """Lanes from the first to before the last, so many of them at a time."""

    first: int
    last: int
    width: int

    @property
    def tiles(self) -> int:
        """How many times `width` lanes it is"""
        return (self.last - self.first) // self.width

    def share(self, number: int, shares: int) -> "Tiles":
        """One of several parts of it, each of whole tiles: neighbours, whose numbers are in the same lines of the cache"""
        first, last = (self.first + self.width * (self.tiles * k // shares) for k in (number, number + 1))
        return Tiles(first, last, self.width)


def tiles_of(n: int, dtype: str = "float64") -> list[Tiles]:
    """The lanes of n drones: whole tiles, half a tile where that leaves none or where they are many, and the rest one by one

    Each width is compiled by itself, and takes its time.
    """
    width = vector_width(dtype)
    half = width // 2
    whole = n - n % width
    more = whole + (half if n - whole == half > 1 or (n - whole > half and n > MANY * width) else 0)
    parts = Tiles(0, whole, width), Tiles(whole, more, half), Tiles(more, n, 1)
    return [part for part in parts if part.first < part.last]


def is_one_tile(n: int) -> bool:
    """Whether n drones are a single tile"""
    return sum(part.tiles for part in tiles_of(n)) == 1
