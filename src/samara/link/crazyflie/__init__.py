"""A Crazyflie as its radio shows it: CRTP over UDP, so that Bitcraze's cflib and what is built on it fly a simulated drone.

Written from the published protocol. What the wire says differently (degrees, millimetres, a pitch that is positive nose up) is
turned at this border and nowhere else.
"""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
