"""A scan flown there and back: the states on the way there are what the way back needs.

x₀ → x₁ → … → x_K,    x̄₀ ← x̄₁ ← … ← x̄_K

States are kept for a stretch of steps at a time, and flown again for the stretch before, where all of them would take too much
memory: the numbers are the same.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.scan import Run
from samara.core.tree import flatten

KEPT = 1 << 28  # bytes of states that are kept at once


class Cotangents(NamedTuple):
    """x̄ (nc, N) of the start, h̄ (k, N) of the held values asked for, ū (K, nu, N) of the inputs; and the end (nc, N)"""

    carry: Any
    held: Any
    inputs: Any
    end: Any


def pulled_back(
    forward: Run,
    backward: Run,
    start: Any,
    held: Sequence[Any],
    inputs: Any,
    end_bar: Any,
    output_bars: Any,
    wanted: int,
) -> Cotangents:
    """There and back: x₀ (nc, N), held values, inputs (K, nu) or (K, nu, N), x̄ of the end (nc, N), ȳ (K, nc, N) or None"""
    (size, n), (steps, width) = start.shape, inputs.shape[:2]
    stretch = max(1, KEPT // ((3 * size + 2 * width) * n * start.itemsize))
    before = max(0, steps - 1) // stretch * stretch  # the last stretch is flown once, those before it twice
    _, marks = forward(start.copy(), held, inputs[:before], before, stretch) if before else (None, ())
    bars = np.concatenate([end_bar, np.zeros((wanted, n), dtype=start.dtype)])
    input_bars, end = np.empty((steps, width, n), dtype=start.dtype), start
    for first in range(before, -1, -stretch) if steps else ():
        part = slice(first, min(first + stretch, steps))
        at = start if first == 0 else np.asarray(marks[first // stretch - 1])
        reached, later = forward(at.copy(), held, inputs[part], part.stop - first)
        end = reached if first == before else end
        own = inputs[part] if inputs.ndim == 3 else np.broadcast_to(inputs[part, :, None], (len(later), width, n))
        given = [np.concatenate([at[None], later[:-1]]), own, *([] if output_bars is None else [output_bars[part]])]
        bars, found = backward(bars, held, np.concatenate(given, axis=1)[::-1], len(later))
        input_bars[part] = found[::-1]
    return Cotangents(bars[:size], bars[size:], input_bars, end)


def bar_rows(tree: Any, what: str, count: int, shape: tuple[int, ...], dtype: str) -> Any:
    """The leaves of a nested tuple of cotangents as rows of a shape, (..., count, N): each of them a number, or of the shape
    without count; without a batch N is 1, and is left out of what is given"""
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{what} has {len(leaves)} numbers; expected {count}, one for each it is the cotangent of")
    rows = np.empty((count, *shape), dtype=dtype)
    for k, leaf in enumerate(leaves):
        own = np.asarray(leaf, dtype=float)
        allowed = {(), shape, shape[:-1] if shape[-1] == 1 else shape}
        if own.shape not in allowed:
            raise ValueError(f"{what}[{k}] has shape {own.shape}; expected {' or '.join(map(str, sorted(allowed)))}")
        if not np.isfinite(own).all():
            raise ValueError(f"{what}[{k}] is {own[~np.isfinite(own)].flat[0]}; expected finite numbers")
        rows[k] = own.reshape(shape) if own.ndim else own
    return np.moveaxis(rows, 0, -2)
