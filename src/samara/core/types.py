"""Types that every package uses."""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any shape and type."""
