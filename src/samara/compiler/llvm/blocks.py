"""Loops of machine code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir

INDEX = ir.IntType(64)


@contextmanager
def loop(builder: ir.IRBuilder, turns: Any) -> Iterator[Any]:
    """for i < turns, at least once"""
    before = builder.block
    body, after = (builder.function.append_basic_block(name) for name in ("turn", "after"))
    builder.branch(body)
    builder.position_at_end(body)
    i = builder.phi(INDEX)
    i.add_incoming(ir.Constant(INDEX, 0), before)
    yield i
    following = builder.add(i, ir.Constant(INDEX, 1))
    i.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, turns), body, after)
    builder.position_at_end(after)
