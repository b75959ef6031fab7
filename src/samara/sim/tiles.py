"""Drones that are computed together: as many as the widest registers hold."""

from samara.backends.llvm_code import vector_width


def tiles_of(n: int, dtype: str = "float64") -> list[tuple[int, int]]:
    """(the first lane, how many) of each tile of n drones: whole ones, and the rest one by one"""
    width = vector_width(dtype)
    whole = n - n % width if n > 1 else 0
    return [(lane, width) for lane in range(0, whole, width)] + [(lane, 1) for lane in range(whole, n)]


def is_one_tile(n: int) -> bool:
    """Whether n drones are a single tile"""
    return len(tiles_of(n)) == 1
