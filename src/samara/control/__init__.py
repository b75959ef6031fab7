"""Controllers: pure functions `controller(state, reference, vehicle, controller_state) → command, controller_state`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy_import import lazy_attributes as _lazily

if _TYPE_CHECKING:
    from samara.control.margins import hover_loop
    from samara.control.mpc import ILQR
    from samara.control.policy_file import load_policy, save_policy
    from samara.control.registry import controller_spec, create_controller

__all__ = ["ILQR", "controller_spec", "create_controller", "hover_loop", "load_policy", "save_policy"]

_MODULES = {  # imported on demand: some of them import the compiler
    **{"ILQR": "mpc", "hover_loop": "margins", "load_policy": "policy_file", "save_policy": "policy_file"},
    **{"create_controller": "registry", "controller_spec": "registry"},
}
__getattr__, __dir__ = _lazily(__name__, __path__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()})
