"""What a policy is shown of a depth picture: how near the nearest thing is in each of a few large blocks of it.

n = 1 / max(z, 0.3 m),  z the least of the block, the camera's farthest where it saw nothing     [1/m]
"""

from typing import Any

ROWS, COLUMNS = 6, 16
BLOCKS = ROWS * COLUMNS
NEAREST = 0.3  # [m]: what is nearer is as near
NOTHING = 0.1  # [1/m]: before the first picture


def nearness(depth: Any, farthest: float) -> Any:
    """Of pictures (…, h, w) [m], of NumPy or JAX, with 0 where nothing was seen: (…, 96), rows from the top"""
    h, w = depth.shape[-2:]
    blocks = (depth + farthest * (depth <= 0.0)).reshape(*depth.shape[:-2], ROWS, h // ROWS, COLUMNS, w // COLUMNS)
    nearest = blocks.min(axis=(-3, -1)).clip(NEAREST, farthest)
    return (1.0 / nearest).reshape(*depth.shape[:-2], BLOCKS)


def require_blocks(height: int, width: int) -> None:
    """ValueError where a picture cannot be divided into the blocks"""
    if height % ROWS or width % COLUMNS:
        raise ValueError(
            f"a picture of {width} × {height} pixels has no {COLUMNS} × {ROWS} equal blocks; expected multiples, as 64 × 48"
        )
