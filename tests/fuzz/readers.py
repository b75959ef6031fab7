"""Everything that reads."""

from .calls import CALLS
from .foreign import FOREIGN
from .links import LINKS
from .logs import LOGS
from .policies import POLICIES
from .recordings import RECORDINGS
from .scenarios import SCENARIOS
from .tables import TABLES
from .vehicles import BLADES, PARTS, VEHICLES

READERS = (VEHICLES, SCENARIOS, RECORDINGS, TABLES, LINKS, CALLS, PARTS, BLADES, LOGS, FOREIGN, POLICIES)
