"""Where learning stands, in a file: so that what was stopped goes on, and ends as if it had not been."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.learn.trees import leaves_of, mapped, rebuilt


class Checkpoint:
    """A file with the numbers of a tree of arrays, and what they belong to: one that belongs to something else is refused."""

    def __init__(self, path: str | Path, about: dict[str, Any]) -> None:
        self.path, self.about = Path(path), json.dumps(about, sort_keys=True, default=str)

    def save(self, tree: Any) -> None:
        """All leaves, whole or not at all"""
        leaves = {f"leaf{k:04d}": np.asarray(leaf) for k, leaf in enumerate(leaves_of(mapped(_data, tree)))}
        with atomic_write(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, about=np.array(self.about), **leaves)  # type: ignore[arg-type]

    def load(self, like: Any) -> Any | None:
        """A tree like the one given, or None where nothing was saved"""
        if not self.path.exists():
            return None
        wanted = leaves_of(mapped(_data, like))
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                about = str(kept["about"])
                leaves = [kept[f"leaf{k:04d}"] for k in range(len(wanted))] if about == self.about else []
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise ValueError(f"{self.path}: cannot be read ({error}); expected a checkpoint of this learning") from None
        if about != self.about:
            raise ValueError(f"{self.path}: belongs to another learning ({about}); expected {self.about}")
        if any(a.shape != np.shape(b) for a, b in zip(leaves, wanted, strict=True)):
            raise ValueError(f"{self.path}: its arrays have other shapes; expected those of this learning")
        return mapped(_as_was, like, rebuilt(like, iter(leaves)))


def _of_jax(leaf: Any) -> bool:
    return type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib")


def _is_key(leaf: Any) -> bool:
    if not _of_jax(leaf):
        return False
    import jax

    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _data(leaf: Any) -> Any:
    """An array, or the words of a random key"""
    if not _is_key(leaf):
        return leaf
    import jax

    return jax.random.key_data(leaf)


def _as_was(like: Any, leaf: Any) -> Any:
    if not _of_jax(like):
        return np.asarray(leaf, like.dtype)
    import jax

    return jax.random.wrap_key_data(jax.numpy.asarray(leaf)) if _is_key(like) else jax.numpy.asarray(leaf, like.dtype)
