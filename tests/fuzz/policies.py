"""Policy folders: a trained one, with errors in its text, in the header of its weights, or in their bytes."""

import hashlib
import json
import tomllib
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from samara.control.policy_file import DESCRIPTION_FILE, WEIGHTS_FILE, PolicyError, load_policy

from .law import Case, Reader
from .mutate import json_text, mutate_bytes, mutate_document, mutate_text, mutate_toml, toml

HOVER = Path(__file__).parents[1] / "support" / "policies" / "hover"


@lru_cache
def trained_policy() -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return its text, the header of its weights, and the weights."""
    weights = (HOVER / WEIGHTS_FILE).read_bytes()
    end = 8 + int.from_bytes(weights[:8], "little")
    return (
        tomllib.loads((HOVER / DESCRIPTION_FILE).read_text(encoding="utf-8")),
        json.loads(weights[8:end]),
        weights[end:],
    )


def join_files(description: bytes, weights: bytes) -> bytes:
    """Join both files: the length of the text, the text, the weights."""
    return len(description).to_bytes(8, "little") + description + weights


def tensors(header: str, numbers: bytes) -> bytes:
    text = header.encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + numbers


def seeds() -> list[Case]:
    description, header, numbers = trained_policy()
    return [
        Case(
            join_files(add_hash(description, tensors(json_text(header), numbers)), tensors(json_text(header), numbers))
        )
    ]


def add_hash(description: dict[str, Any], weights: bytes) -> bytes:
    """Add the hash of these weights, without which they would not be read."""
    return toml(description | {"weights_sha256": hashlib.sha256(weights).hexdigest()}).encode("utf-8", "surrogatepass")


def make(rng: Random) -> Case:
    description, header, numbers = trained_policy()
    weights = tensors(json_text(header), numbers)
    kind = rng.choice(("text", "text", "header", "header", "words", "bytes"))
    if kind == "text":
        text, changes = mutate_toml(tomllib.loads(add_hash(description, weights).decode()), rng)
        return Case(join_files(text.encode("utf-8", "surrogatepass"), weights), tuple(changes))
    if kind == "header":
        changed, changes = mutate_document(header, rng)
        weights = tensors(json_text(changed), numbers)
    elif kind == "words":
        words, changes = mutate_text(json.dumps(header, indent=0), rng)
        weights = tensors(words, numbers)
    else:
        weights, changes = mutate_bytes(weights, rng)
    return Case(join_files(add_hash(description, weights), weights), tuple(changes))


def read(data: bytes, folder: Path) -> Any:
    end = 8 + int.from_bytes(data[:8], "little")
    policy_folder = folder / "policy"
    policy_folder.mkdir(exist_ok=True)
    (policy_folder / DESCRIPTION_FILE).write_bytes(data[8:end])
    (policy_folder / WEIGHTS_FILE).write_bytes(data[end:])
    return load_policy(policy_folder)


POLICIES = Reader("policy", seeds, make, read, (PolicyError,), share=2)
