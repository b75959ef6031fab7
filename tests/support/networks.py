"""Networks with random weights."""

from collections.abc import Sequence

import numpy as np

from samara.control.policy_file import LayerSpec, tensor_shapes


def random_tensors(layer_kinds: Sequence[LayerSpec], inputs: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Draw the arrays of these layers, scaled so that the outputs are about 1."""
    rng = np.random.default_rng(seed)
    shapes = tensor_shapes(layer_kinds, inputs)
    return {name: np.float32(rng.normal(size=shape) / np.sqrt(shape[-1])) for name, shape in shapes.items()}
