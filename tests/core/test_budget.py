"""Budgets of readers: every limit counts, and its sentence names the file and the limit."""

import gzip

import pytest

from samara.core.budget import (
    MAX_LINE_BYTES,
    Budget,
    BudgetError,
    bounded_lines,
    decompressed_limit,
    open_bounded,
    read_bounded,
)


class OwnError(Exception):
    pass


def spend(budget, method, *arguments):
    with pytest.raises(OwnError) as error:
        getattr(budget, method)(*arguments)
    return str(error.value)


def test_each_limit_is_one_sentence_in_the_class_of_the_reader():
    budget = Budget("a.txt", OwnError, max_bytes=2048, max_nodes=3, max_expansions=2, max_depth=1)
    budget.spend_bytes(2048)
    budget.spend_nodes(3)
    budget.expand(2)
    assert spend(budget, "spend_bytes", 1) == "a.txt: has too many bytes; expected at most 2 kB"
    assert spend(budget, "spend_nodes", 1, "keys") == "a.txt: has too many keys; expected at most 3"
    assert spend(budget, "expand") == "a.txt: has too many expansions; expected at most 2"


def test_levels_are_left_as_they_are_entered():
    budget = Budget("a.txt", OwnError, max_depth=2)
    for _ in range(3):
        with budget.enter(), budget.enter():
            pass
    too_deep = pytest.raises(OwnError, match=r"a\.txt: is nested too deeply \(levels\); expected at most 2")
    with too_deep, budget.enter(), budget.enter(), budget.enter():
        pass
    assert budget.depth == 0


def test_seconds_are_a_net_below_the_counts():
    budget = Budget("a.txt", OwnError, max_seconds=-1.0)
    assert spend(budget, "check_time") == "a.txt: takes too long to read; expected at most -1 s"


def test_files_are_read_as_far_as_the_budget_goes(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(3000)))
    assert read_bounded(path, Budget(path, max_bytes=3000)) == bytes(3000)
    with pytest.raises(BudgetError, match=r"has too many bytes after decompression; expected at most 2\.93 kB"):
        read_bounded(path, Budget(path, max_bytes=2999))
    path.write_bytes(gzip.compress(bytes(3000))[:-9])
    with pytest.raises(BudgetError, match=r"a\.gz: cannot be unpacked"):
        read_bounded(path, Budget(path))


def test_lines_have_a_length(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo")
    budget = Budget(path)
    with open_bounded(path, budget) as stream:
        assert list(bounded_lines(stream, budget)) == [b"one\n", b"two"]
    path.write_bytes(b"one\n" + b"x" * (MAX_LINE_BYTES + 1))
    with open_bounded(path, budget) as stream, pytest.raises(BudgetError, match="a line that is too long"):
        list(bounded_lines(stream, budget))


def test_large_files_may_hold_more():
    assert decompressed_limit(1000) == 1 << 28 and decompressed_limit(1 << 28) == 50 << 28
