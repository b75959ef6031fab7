"""Depth observation of policies: the inverse distance of the nearest object in each of 96 blocks of a depth image.

n = 1 / max(z, 0.3 m),  z the minimum of the block, or the camera's range if the block is empty     [1/m]
"""

from typing import Any

ROWS, COLUMNS = 6, 16
BLOCK_COUNT = ROWS * COLUMNS
MIN_DISTANCE = 0.3  # [m]: lower limit of the distance
INITIAL_INVERSE_DISTANCE = 0.1  # [1/m]: value before the first image


def block_inverse_distance(depth: Any, max_range: float) -> Any:
    """Reduce depth images (…, h, w) [m], 0 for no return, to inverse distances (…, 96), by rows from the top; NumPy or
    JAX."""
    h, w = depth.shape[-2:]
    blocks = (depth + max_range * (depth <= 0.0)).reshape(*depth.shape[:-2], ROWS, h // ROWS, COLUMNS, w // COLUMNS)
    nearest = blocks.min(axis=(-3, -1)).clip(MIN_DISTANCE, max_range)
    return (1.0 / nearest).reshape(*depth.shape[:-2], BLOCK_COUNT)


def require_blocks(height: int, width: int) -> None:
    """Raise ValueError if an image cannot be divided into the blocks."""
    if height % ROWS or width % COLUMNS:
        raise ValueError(
            f"an image of {width} × {height} pixels has no {COLUMNS} × {ROWS} equal blocks; expected multiples, such as "
            "64 × 48"
        )
