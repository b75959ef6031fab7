"""The Crazyflie firmware's own controllers, from its Python bindings `cffirmware`, which their user has built and installed.

Each drone has a process of its own that loads the module: the firmware keeps integrals and filters in globals of C, which two
drones in one process would share. Inputs and outputs are in its units, which only `conversions` and
`motors` convert.
"""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
