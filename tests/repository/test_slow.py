"""The list of slow tests names tests that exist."""

from conftest import SLOW
from support.pages import names_in


def test_every_slow_test_is_there():
    """A test that was renamed would be back in `make test` without a word."""
    assert len(SLOW) > 10
    for node in SLOW:
        file, name = node.split("[")[0].split("::")
        assert name in names_in(file), node
