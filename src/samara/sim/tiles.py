"""Tiles: the drones computed by one pass of vector code, as many as the widest registers hold."""

from typing import NamedTuple

from samara.backends.llvm_code import vector_width

MIN_TILES_FOR_HALF = 4  # above this number of tiles, a partial rest is worth code of half the width


class Tiles(NamedTuple):
    """Lanes from `first` to before `last`, computed `width` at a time."""

    first: int
    last: int
    width: int

    @property
    def tiles(self) -> int:
        """Number of tiles"""
        return (self.last - self.first) // self.width

    def share(self, number: int, shares: int) -> "Tiles":
        """Return one of several contiguous shares of whole tiles; neighbours share cache lines"""
        first, last = (self.first + self.width * (self.tiles * k // shares) for k in (number, number + 1))
        return Tiles(first, last, self.width)


def tiles_of(n: int, dtype: str = "float64") -> list[Tiles]:
    """Partition n drones into whole tiles, half a tile if that leaves none or there are many tiles, and single lanes

    Each width is compiled separately.
    """
    width = vector_width(dtype)
    half = width // 2
    full = n - n % width
    vectorized = full + (half if n - full == half > 1 or (n - full > half and n > MIN_TILES_FOR_HALF * width) else 0)
    parts = Tiles(0, full, width), Tiles(full, vectorized, half), Tiles(vectorized, n, 1)
    return [part for part in parts if part.first < part.last]


def is_one_tile(n: int) -> bool:
    """Whether n drones are a single tile"""
    return sum(part.tiles for part in tiles_of(n)) == 1
