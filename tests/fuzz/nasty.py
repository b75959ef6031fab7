"""Difficult values of every type that a document or a call can contain."""

import copy
from datetime import date
from random import Random
from typing import Any

import numpy as np

ESCAPES = "\x1b[31mred\x1b]0;title\x07"
TEXTS = (
    *(
        "",
        " ",
        "x",
        "0.6",
        "nan",
        "inf",
        "1e999",
        "true",
        "None",
        "[/red]",
        "[bold",
        "<script>alert(1)</script>",
        ESCAPES,
    ),
    *(
        "line\nbreak",
        "tab\tstop",
        "carriage\rreturn",
        "\x00",
        "\x85",
        "\u2028",
        "\u202eright to left",
        "é",
        "無人機",
        "🚁",
    ),
    *("../../outside", "/etc/passwd", "/dev/zero", "/dev/zero.csv", "/etc/passwd.toml", "nothing.toml", "nothing.csv"),
    *("%s%n", "{0}", "{}", "a" * 5000, "-" * 100_000, "$HOME", "~", ".", "..", "NUL", "iris", "hover", "drone"),
)
NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        255,
        256,
        2**31,
        2**32,
        2**53 + 1,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        2**64,
        10**18,
        10**400,
        -(10**400),
    ),
    *(
        0.0,
        -0.0,
        0.5,
        1e-300,
        5e-324,
        1e-12,
        1e-6,
        1e6,
        1e12,
        1e100,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
        -float("inf"),
    ),
)
CONTAINERS = ([], {}, [[]], [{}], {"": 0}, [0, 0], [0, 0, 0], [1e308] * 3, [float("nan")] * 3, ["x"] * 3, {"value": 1})
PLAIN = (*TEXTS, *NUMBERS, *CONTAINERS, True, False)


def nested_lists(depth: int) -> Any:
    """Return nested lists of this depth."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def nasty_value(rng: Random) -> Any:
    """Return a value that TOML or JSON can contain, and that is wrong in most places."""
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(NUMBERS)
    if kind < 0.60:
        return rng.choice(TEXTS)
    if kind < 0.75:
        return copy.deepcopy(rng.choice(CONTAINERS))  # mutations change them
    if kind < 0.85:
        return rng.choice((True, False))
    if kind < 0.90:
        return nested_lists(rng.choice((2, 20, 90)))
    if kind < 0.94:
        return [copy.deepcopy(rng.choice(PLAIN)) for _ in range(rng.randrange(5))]
    if kind < 0.97:
        return [rng.choice(NUMBERS)] * rng.choice((3, 100, 10_000))
    return date(2026, 1, 1)


def nasty_object(rng: Random) -> Any:
    """Return an object that a call can receive, and that is wrong in most places."""
    if rng.random() < 0.8:
        return nasty_value(rng)
    return rng.choice(
        (
            *(None, b"", b"x", 1j, object(), len, int, range(3), (), (1, 2), set(), frozenset({1}), Exception("x")),
            *(np.float64("nan"), np.float32(0.5), np.int64(-1)),
        )
    )
