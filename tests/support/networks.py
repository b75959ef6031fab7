"""Networks of random numbers."""

from collections.abc import Sequence

import numpy as np

from samara.control.policy_file import LayerKind, tensor_shapes


def drawn(kinds: Sequence[LayerKind], inputs: int, seed: int = 1) -> dict[str, np.ndarray]:
    """The arrays of these layers, so large that what they give is about 1 in size"""
    draw = np.random.default_rng(seed)
    shapes = tensor_shapes(kinds, inputs)
    return {name: np.float32(draw.normal(size=shape) / np.sqrt(shape[-1])) for name, shape in shapes.items()}
