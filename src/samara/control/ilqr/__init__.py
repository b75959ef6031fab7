"""iLQR, model-predictive control: a vehicle flown by plans a second long (`ILQR`), as docs/ilqr.md tells."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy import lazily as _lazily

if _TYPE_CHECKING:
    from samara.control.ilqr.controller import ILQR as ILQR
    from samara.control.ilqr.controller import default_torque_weight as default_torque_weight

# they bring the compiler along
__getattr__, __dir__ = _lazily(
    __name__, __path__, dict.fromkeys(("ILQR", "default_torque_weight"), "samara.control.ilqr.controller")
)
