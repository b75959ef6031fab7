"""Policy folders: one that learnt, with something wrong in its text, in the header of its weights, or in their bytes."""

import hashlib
import json
import tomllib
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from samara.control.policy_file import ABOUT, WEIGHTS, PolicyError, load_policy

from .law import Case, Reader
from .mutate import json_text, mutated, mutated_bytes, mutated_text, mutated_toml, toml

HOVER = Path(__file__).parents[1] / "support" / "policies" / "hover"


@lru_cache
def learnt() -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Its text, the header of its weights, and their numbers"""
    weights = (HOVER / WEIGHTS).read_bytes()
    end = 8 + int.from_bytes(weights[:8], "little")
    return tomllib.loads((HOVER / ABOUT).read_text(encoding="utf-8")), json.loads(weights[8:end]), weights[end:]


def packed(about: bytes, weights: bytes) -> bytes:
    """Both files as one: the length of the text, the text, the weights"""
    return len(about).to_bytes(8, "little") + about + weights


def tensors(header: str, numbers: bytes) -> bytes:
    text = header.encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + numbers


def seeds() -> list[Case]:
    about, header, numbers = learnt()
    return [Case(packed(signed(about, tensors(json_text(header), numbers)), tensors(json_text(header), numbers)))]


def signed(about: dict[str, Any], weights: bytes) -> bytes:
    """With the hash of these weights: else nobody would look into them"""
    return toml(about | {"weights_sha256": hashlib.sha256(weights).hexdigest()}).encode("utf-8", "surrogatepass")


def make(rng: Random) -> Case:
    about, header, numbers = learnt()
    weights = tensors(json_text(header), numbers)
    kind = rng.choice(("text", "text", "header", "header", "words", "bytes"))
    if kind == "text":
        text, told = mutated_toml(tomllib.loads(signed(about, weights).decode()), rng)
        return Case(packed(text.encode("utf-8", "surrogatepass"), weights), tuple(told))
    if kind == "header":
        changed, told = mutated(header, rng)
        weights = tensors(json_text(changed), numbers)
    elif kind == "words":
        words, told = mutated_text(json.dumps(header, indent=0), rng)
        weights = tensors(words, numbers)
    else:
        weights, told = mutated_bytes(weights, rng)
    return Case(packed(signed(about, weights), weights), tuple(told))


def read(data: bytes, folder: Path) -> Any:
    end = 8 + int.from_bytes(data[:8], "little")
    own = folder / "policy"
    own.mkdir(exist_ok=True)
    (own / ABOUT).write_bytes(data[8:end])
    (own / WEIGHTS).write_bytes(data[end:])
    return load_policy(own)


POLICIES = Reader("policy", seeds, make, read, (PolicyError,), share=2)
