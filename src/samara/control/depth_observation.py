"""Depth observation of policies: the inverse distance of the nearest object in each of 96 blocks of a depth image.

n = 1 / max(z, 0.3 m),  z the minimum of the block, or the camera's range if the block is empty     [1/m]
"""

from typing import Any

ROWS, COLUMNS = 6, 16
BLOCKS = ROWS * COLUMNS
NEAREST = 0.3  # [m]: lower limit of the distance
NOTHING = 0.1  # [1/m]: value before the first image


def nearness(depth: Any, max_range: float) -> Any:
    """Reduce depth images (…, h, w) [m], of NumPy or JAX, 0 for no return, to (…, 96) inverse distances, rows from the top."""
    h, w = depth.shape[-2:]
    blocks = (depth + max_range * (depth <= 0.0)).reshape(*depth.shape[:-2], ROWS, h // ROWS, COLUMNS, w // COLUMNS)
    nearest = blocks.min(axis=(-3, -1)).clip(NEAREST, max_range)
    return (1.0 / nearest).reshape(*depth.shape[:-2], BLOCKS)


def require_blocks(height: int, width: int) -> None:
    """Raise ValueError if an image cannot be divided into the blocks."""
    if height % ROWS or width % COLUMNS:
        raise ValueError(
            f"an image of {width} × {height} pixels has no {COLUMNS} × {ROWS} equal blocks; expected multiples, as 64 × 48"
        )
