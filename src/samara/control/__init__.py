"""Controllers: `controller(state, reference, vehicle, memory) → command, memory`, pure and component-wise."""


def __getattr__(name: str) -> object:
    if name == "ILQR":  # imported when it is asked for: it brings the compiler along
        from samara.control.ilqr import ILQR

        return ILQR
    raise AttributeError(f"module 'samara.control' has no attribute {name!r}")
