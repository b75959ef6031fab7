"""All readers under test."""

from importlib.util import find_spec

from .bombs import SIZE_BOMBS
from .calls import CALLS
from .courses import PARTS_LISTS, TRACKS
from .foreign import FOREIGN
from .links import LINKS
from .logs import LOGS
from .policies import POLICIES
from .recordings import RECORDINGS, REPLAYS
from .scenarios import SCENARIOS
from .tables import TABLES
from .vehicles import BLADES, PARTS, VEHICLES

READERS = (
    VEHICLES,
    SCENARIOS,
    RECORDINGS,
    TABLES,
    LINKS,
    CALLS,
    PARTS,
    BLADES,
    LOGS,
    FOREIGN,
    POLICIES,
    PARTS_LISTS,
    TRACKS,
)
if find_spec("pyarrow"):
    from .campaigns import CAMPAIGNS, FOLDERS

    READERS = (*READERS, CAMPAIGNS, FOLDERS)  # type: ignore[assignment]
SLOW = (REPLAYS, SIZE_BOMBS)
"""Readers whose cases take up to seconds: for the command line, and a few in a separate test."""
