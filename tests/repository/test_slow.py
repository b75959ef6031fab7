"""The list of slow tests names tests that exist."""

from conftest import SLOW
from support import pages


def test_every_slow_test_is_there():
    """A renamed test would otherwise silently return to `make test`."""
    assert len(SLOW) > 10
    for node in SLOW:
        file, name = node.split("[")[0].split("::")
        assert name in pages.test_names(file), node
