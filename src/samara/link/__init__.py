"""Real autopilots in the loop: PX4, ArduPilot and Betaflight fly Samara's vehicles through their own simulator protocols, and
scripts for a Crazyflie through its radio's.

Inside everything stays ENU and FLU; each protocol's own axes, units and orders of numbers are made at its border and nowhere
else. A flight is lockstep: the autopilot gets sensors of an instant, the plant waits for its answer.
"""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
