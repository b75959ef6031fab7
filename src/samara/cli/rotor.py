"""`samara rotor`: performance of a propeller from the shape of its blades."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import console, say, table
from samara.cli.options import Plot, argument, option, out_option
from samara.core.coerce import file_stem

if TYPE_CHECKING:
    from rich.table import Table

    from samara.propeller.blade import Blade, Measurement


def rotor(
    name: Annotated[str, argument("Blade: a shipped name, a .toml file, or with --data a UIUC name.")],
    rpm: Annotated[float, option("--rpm", "Rotor speed [revolutions per minute].")] = 5000.0,
    data: Annotated[Path | None, option("--data", "Folder with the UIUC tables.")] = None,
    plot: Plot = False,
    out: Annotated[Path | None, out_option("File for the picture (implies --plot); default: out/NAME.png.")] = None,
) -> None:
    """Print thrust, power and efficiency of a propeller by blade element momentum theory, beside measurements."""
    from samara.propeller.blade import BladeError, blade, read_uiuc

    screen = console()
    if data is None:
        shape, measurements = blade(name)
    else:
        propellers = read_uiuc(data)
        if name not in propellers:
            raise BladeError(f"no propeller {name!r} in {data}; expected one of {', '.join(sorted(propellers))}")
        shape, measurements = propellers[name]
    if not 0.0 < rpm < 1e6:
        raise ValueError(f"--rpm {rpm:g}: expected a positive number below 1e6")
    picture = out or (Path("out") / f"{file_stem(shape.name)}.png" if plot else None)
    screen.print(_coefficients(shape, measurements, rpm))
    screen.print(_constants(shape, rpm))
    if picture is not None:
        from samara.view.plot.rotor import draw_rotors

        draw_rotors([(shape, measurements)], picture, rpm)
        say(f"picture {picture}")


def _coefficients(shape: "Blade", measured: "Measurement | None", rpm: float) -> "Table":
    """Tabulate J, CT, CP and efficiency up to zero thrust, beside the measurements nearest to this speed."""
    import numpy as np

    from samara.propeller.bem import rotor_coefficients

    J = np.arange(0.0, 1.6, 0.1)
    model = rotor_coefficients(shape, J, rpm)
    negative = np.flatnonzero(model.thrust < 0.0)
    rows = []
    for k in range(int(negative[0]) if negative.size else len(J)):
        efficiency = f"{100.0 * J[k] * model.thrust[k] / model.power[k]:.0f} %"
        row = [f"{J[k]:.1f}", f"{model.thrust[k]:.4f}", f"{model.power[k]:.4f}", efficiency]
        rows.append(row if measured is None else [*row, *_nearest_measurement(measured, float(J[k]), rpm)])
    headings = ("J", "CT", "CP", "efficiency", *(("CT measured", "CP measured") if measured is not None else ()))
    return table(headings, rows, f"{shape.name} at {rpm:.0f} rpm", right=headings)


def _nearest_measurement(measured: "Measurement", advance: float, rpm: float) -> list[str]:
    """Format the measured point within 0.03 of J whose speed is nearest to `rpm`; empty cells if there is none."""
    import numpy as np

    close = np.flatnonzero(np.abs(measured.advance - advance) < 0.03)
    if not close.size:
        return ["", ""]
    best = close[
        np.argmin(np.abs(measured.rpm[close] - rpm) / 500.0 + np.abs(measured.advance[close] - advance) / 0.03)
    ]
    return [f"{measured.thrust[best]:.4f}", f"{measured.power[best]:.4f}"]


def _constants(shape: "Blade", rpm: float) -> str:
    from math import pi, sqrt

    from samara.propeller.fit import fit_rotor, rotor_constants

    fit = fit_rotor(shape, rpm)
    k_thrust, k_torque = rotor_constants(fit, shape.radius)
    merit = sqrt(2.0 / pi) * fit.thrust[0] ** 1.5 / fit.power[0]
    return (
        f"{shape.blades} blades, radius {shape.radius:.4g} m, solidity {shape.solidity:.3f}; static: "
        f"k_thrust {k_thrust:.4g} N s^2/rad^2, k_torque {k_torque:.4g} N m s^2/rad^2, figure of merit {merit:.2f}"
    )
