"""What searches ask of a campaign: rows of factors in, one number for each flight out, negative where it fails."""

from collections.abc import Callable
from typing import Any

import numpy as np

from samara.core.types import Array

Margin = Callable[[Array], Any]
"""(n, k) rows to (n,) margins, such as the largest error allowed less that of the flight"""


def margins(margin: Margin, rows: Array) -> Array:
    """(n,): ValueError unless every flight has its number"""
    found = np.asarray(margin(rows), dtype=float)
    if found.shape != (len(rows),) or np.isnan(found).any():
        what = f"shape {found.shape}" if found.shape != (len(rows),) else "nan"
        raise ValueError(
            f"the margin of {len(rows)} flights has {what}; expected one number for each, also for a broken one"
        )
    return found
