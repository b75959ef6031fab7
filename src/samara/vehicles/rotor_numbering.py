"""Rotor numbering of PX4, ArduPilot, Betaflight, the Crazyflie firmware and the Crazyflie engine, and the maps between them.

A rotor is named by its corner (FL is front left); of two rotors on one side the letter of the side comes first (LF is left,
towards the front). Order and numbers differ between systems, and sometimes the spin.
"""

from collections.abc import Mapping
from typing import NamedTuple

CCW, CW = 1, -1  # seen from above


class NumberedRotor(NamedTuple):
    """Name of a rotor by its corner, azimuth counter-clockwise from forward, and spin."""

    name: str
    azimuth_deg: float
    spin: int


class Numbering(NamedTuple):
    """The rotors of a frame in the order in which a system counts them, starting at `first_number`."""

    title: str
    first_number: int
    rotors: tuple[NumberedRotor, ...]
    source: str


_AZIMUTHS = {
    "quad_x": {"FL": 45.0, "BL": 135.0, "BR": -135.0, "FR": -45.0},
    "hexa_x": {"FL": 30.0, "L": 90.0, "BL": 150.0, "BR": -150.0, "R": -90.0, "FR": -30.0},
    "octo_x": {"FL": 22.5, "LF": 67.5, "LB": 112.5, "BL": 157.5, "BR": -157.5, "RB": -112.5, "RF": -67.5, "FR": -22.5},
}

_PX4 = "PX4 airframe reference; geometries quad_x, hex_x, octa_x; CA_ROTORn_PX, _PY, _KM"
_ARDUPILOT = "ArduPilot AP_MotorsMatrix.cpp, FRAME_TYPE 1 (X)"
_BETAFLIGHT = "Betaflight mixer_init.c; yaw_motors_reversed = OFF"
_PROPS_OUT = "Betaflight mixer_init.c; yaw_motors_reversed = ON"
_CRAZYFLIE = "Crazyflie firmware, power_distribution_quadrotor.c"


def _numbering(frame: str, title: str, first: int, rotors: str, source: str) -> Numbering:
    """Parse a list of rotors: FR+ is front right, counter-clockwise; FR- is front right, clockwise."""
    spins = {"+": CCW, "-": CW}
    numbered_rotors = tuple(
        NumberedRotor(rotor[:-1], _AZIMUTHS[frame][rotor[:-1]], spins[rotor[-1]]) for rotor in rotors.split()
    )
    return Numbering(title, first, numbered_rotors, source)


NUMBERINGS: Mapping[str, Mapping[str, Numbering]] = {
    "quad_x": {
        "px4": _numbering("quad_x", "PX4", 1, "FR+ BL+ FL- BR-", _PX4),
        "ardupilot": _numbering("quad_x", "ArduPilot", 1, "FR+ BL+ FL- BR-", _ARDUPILOT),
        "betaflight": _numbering("quad_x", "Betaflight, props in", 1, "BR- FR+ BL+ FL-", _BETAFLIGHT),
        "betaflight_props_out": _numbering("quad_x", "Betaflight, props out", 1, "BR+ FR- BL- FL+", _PROPS_OUT),
        "crazyflie": _numbering("quad_x", "Crazyflie firmware", 1, "FR+ BR- BL+ FL-", _CRAZYFLIE),
        "crazyflie_engine": _numbering(
            "quad_x", "Crazyflie engine", 0, "FL- FR+ BR- BL+", "Crazyflie engine document, its picture"
        ),
    },
    "hexa_x": {
        "px4": _numbering("hexa_x", "PX4", 1, "R- L+ FL- BR+ FR+ BL-", _PX4),
        "ardupilot": _numbering("hexa_x", "ArduPilot", 1, "R- L+ FL- BR+ FR+ BL-", _ARDUPILOT),
        "betaflight": _numbering("hexa_x", "Betaflight", 1, "BR+ FR+ BL- FL- R- L+", _BETAFLIGHT),
        "samara": _numbering("hexa_x", "hexarotor_x", 0, "FL- L+ BL- BR+ R- FR+", "vehicles/hexarotor_x.toml"),
    },
    "octo_x": {
        "px4": _numbering("octo_x", "PX4", 1, "FR- BL- RF+ BR+ FL+ LB+ LF- RB-", _PX4),
        "ardupilot": _numbering("octo_x", "ArduPilot", 1, "FR- BL- RF+ BR+ FL+ LB+ LF- RB-", _ARDUPILOT),
        "betaflight": _numbering("octo_x", "Betaflight", 1, "LF+ FR+ RB+ BL+ FL- RF- BR- LB-", _BETAFLIGHT),
        "samara": _numbering(
            "octo_x", "octorotor_x", 0, "FL+ LF- LB+ BL- BR+ RB- RF+ FR-", "vehicles/octorotor_x.toml"
        ),
    },
}
"""By frame, then by system. All spins are seen from above; each source is the system's own documentation or code."""


def rotor_order(
    from_: str = "px4", to: str = "betaflight", frame: str = "quad_x", *, ignore_spin: bool = False
) -> tuple[int, ...]:
    """Return the order that maps the rotors of one system to another: order[i] is the index in `to` of rotor i of `from_`.

    Both count from 0. `ignore_spin` accepts rotors that spin in opposite directions; they would yaw the vehicle the wrong way,
    so they are an error otherwise.
    """
    source, target = (_find_numbering(frame, system) for system in (from_, to))
    target_index = {rotor.name: i for i, rotor in enumerate(target.rotors)}
    for rotor in source.rotors:
        target_rotor = target.rotors[target_index[rotor.name]]
        if target_rotor.spin != rotor.spin and not ignore_spin:
            direction = "counter-clockwise" if rotor.spin == CCW else "clockwise"
            raise ValueError(
                f"rotor {rotor.name} of {frame} turns {direction} in {from_!r} and the other way in {to!r}; "
                "expected the same, or ignore_spin=True"
            )
    return tuple(target_index[rotor.name] for rotor in source.rotors)


def _find_numbering(frame: str, system: str) -> Numbering:
    if frame not in NUMBERINGS:
        raise ValueError(f"frame {frame!r}: expected one of {', '.join(NUMBERINGS)}")
    if system not in NUMBERINGS[frame]:
        raise ValueError(f"rotor numbering {system!r}: expected one of {', '.join(NUMBERINGS[frame])} for {frame}")
    return NUMBERINGS[frame][system]
