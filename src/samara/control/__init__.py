"""Controllers: `controller(state, reference, vehicle, memory) → command, memory`, pure and component-wise."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__, {"ILQR": "samara.control.mpc"})  # it brings the compiler along
