"""Drones and directions as the lanes of a tangent scan: a lane is a drone with a few directions, which share its numbers.

lane = block · N + drone,   direction = block · AT_ONCE + its place in the block
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.core.tree import flatten

AT_ONCE = 2
"""Directions in one program: two take a quarter less time than one by one; more gain nothing, registers run out"""


class Lanes(NamedTuple):
    """N drones and P directions, `at_once` of them in a lane; the last block is filled up with directions that are 0."""

    drones: int
    directions: int
    dtype: str

    @classmethod
    def of(cls, tangents: Sequence[Any], drones: int | None, dtype: str) -> "Lanes":
        """For tangents of P or 1 directions each"""
        counts = {len(own) for own in tangents} - {1}
        if len(counts) > 1:
            raise ValueError(
                f"tangents with {' and '.join(map(str, sorted(counts)))} directions; expected one number of them"
            )
        return cls(drones or 1, counts.pop() if counts else 1, dtype)

    @property
    def at_once(self) -> int:
        return min(AT_ONCE, self.directions)

    @property
    def blocks(self) -> int:
        return -(-self.directions // self.at_once)

    def carry(self, rows: Any, tangents: Sequence[Any]) -> Any:
        """(x, dx₁ …) of all lanes, of x (nx, N) and for each component its tangents (P or 1, N or 1)"""
        return np.concatenate([np.tile(rows, self.blocks), self._spread(tangents)])

    def held(self, values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The same of held values, one number or (N,) each"""
        own = [np.tile(value, self.blocks) if np.ndim(value) else value for value in values]
        return [*own, *self._spread(tangents)]

    def inputs(self, inputs: Any, tangents: Any) -> Any:
        """(u, du₁ …) for every step, of u (K, nu) or (K, nu, N) and du (P or 1, K, nu, N or 1), or None"""
        if tangents is None:
            return np.tile(inputs, self.blocks) if inputs.ndim == 3 else inputs
        steps, size = inputs.shape[:2]
        numbers = np.broadcast_to(inputs if inputs.ndim == 3 else inputs[:, :, None], (steps, size, self.drones))
        moved = np.broadcast_to(tangents, (self.directions, steps, size, self.drones))
        both = np.zeros((steps, 1 + self.at_once, size, self.blocks, self.drones), dtype=self.dtype)
        both[:, 0] = numbers[:, :, None]
        for direction, own in enumerate(moved):
            block, place = divmod(direction, self.at_once)
            both[:, 1 + place, :, block] = own
        return both.reshape(steps, -1, self.blocks * self.drones)

    def apart(self, rows: Any) -> tuple[Any, Any]:
        """x (..., n, N) and its tangents (P, ..., n, N), of (..., n (1 + at_once), lanes)"""
        size = rows.shape[-2] // (1 + self.at_once)
        parts = rows.reshape(*rows.shape[:-2], 1 + self.at_once, size, self.blocks, self.drones)
        pairs = (divmod(direction, self.at_once) for direction in range(self.directions))
        return parts[..., 0, :, 0, :], np.stack([parts[..., 1 + place, :, block, :] for block, place in pairs])

    def _spread(self, tangents: Sequence[Any]) -> Any:
        """(at_once · n, lanes), direction after direction, of n arrays that spread to (P, N)"""
        spread = np.zeros((self.blocks * self.at_once, len(tangents), self.drones), dtype=self.dtype)
        for k, own in enumerate(tangents):
            spread[: self.directions, k] = own
        parts = spread.reshape(self.blocks, self.at_once, len(tangents), self.drones)
        return parts.transpose(1, 2, 0, 3).reshape(self.at_once * len(tangents), self.blocks * self.drones)


def direction_rows(tree: Any, what: str, count: int, drones: int | None) -> list[Any]:
    """The leaves of a nested tuple of tangents, each (P or 1, N or 1): of a number, (N,), (P, 1) or (P, N); without a batch
    of a number or (P,)"""
    leaves = flatten(tree)
    if len(leaves) != count:
        raise ValueError(f"{what} has {len(leaves)} numbers; expected {count}, one for each it is the tangent of")
    return [_rows(np.asarray(leaf, dtype=float), f"{what}[{k}]", drones) for k, leaf in enumerate(leaves)]


def _rows(own: Any, what: str, drones: int | None) -> Any:
    if not np.isfinite(own).all():
        raise ValueError(f"{what} is {own[~np.isfinite(own)].flat[0]}; expected finite numbers")
    rows = own.reshape(-1, 1) if drones is None and own.ndim == 1 else np.atleast_2d(own)
    if rows.ndim != 2 or rows.shape[1] not in (1, drones or 1):
        expected = "a number or (directions,)" if drones is None else f"a number, ({drones},) or (directions, {drones})"
        raise ValueError(f"{what} has shape {own.shape}; expected {expected}")
    return rows


def direction_inputs(given: Any, inputs: Any, what: str, drones: int | None) -> Any:
    """Tangents of inputs as (P or 1, K, nu, N or 1): of (K, nu), (K, nu, N) or (P, K, nu, N); without a batch of (K, nu) or
    (P, K, nu)"""
    own = np.asarray(given, dtype=float)
    if own.ndim == 2 or (own.ndim == 3 and drones is None):
        own = own[..., None]
    own = own[None] if own.ndim == 3 else own
    if own.ndim != 4 or own.shape[1:3] != inputs.shape[:2] or own.shape[3] not in (1, drones or 1):
        steps, size = inputs.shape[:2]
        more = (
            f"(directions, {steps}, {size})"
            if drones is None
            else f"({steps}, {size}, {drones}), with directions first"
        )
        raise ValueError(f"{what} has shape {np.shape(given)}; expected ({steps}, {size}) or {more}")
    if not np.isfinite(own).all():
        raise ValueError(f"{what} has {own[~np.isfinite(own)][0]}; expected finite numbers")
    return own


def held_directions(
    d_environment: Any, around: int, d_vehicle: Mapping[str, Any], parameters: Mapping[str, int], drones: int | None
) -> tuple[tuple[int, ...], list[Any]]:
    """Which of the held values (dt, environment, parameters that vary) have tangents, and these

    `around` is how many numbers the environment has, 0 where none is given, `parameters` how many each that varies has.
    """
    if d_environment is not None and not around:
        raise ValueError("d_environment without environment; expected both: without one, calm air is folded in")
    for path in d_vehicle:
        if path not in parameters:
            raise ValueError(f"d_vehicle names {path!r}; expected names of `vary`: {', '.join(parameters) or 'none'}")
    groups = [("d_environment", d_environment, around)]
    groups += [(f"d_vehicle[{path!r}]", d_vehicle.get(path), count) for path, count in parameters.items()]
    moving: list[int] = []
    found: list[Any] = []
    at = 1
    for what, tree, count in groups:
        if tree is not None:
            found += direction_rows(tree if isinstance(tree, tuple) else (tree,) * count, what, count, drones)
            moving += range(at, at + count)
        at += count
    return tuple(moving), found
