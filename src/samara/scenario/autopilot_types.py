"""The registry of autopilots: the properties of each type, as data. No other module dispatches on an autopilot's name.

A new autopilot is one module, whose `open_link` returns its `samara.link.link.Link`, and one `AutopilotType` that names
the module: in `AUTOPILOTS` below, or passed to `register`. Scenario files, `samara fly --autopilot`, help texts, error
messages and metrics are derived from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from samara.core.extras import install_hint

if TYPE_CHECKING:
    from samara.scenario.batteries import BatteryFailsafe

PX4_WARNING_MARGIN = 0.05  # fraction of the charge: PX4 requires BAT_LOW_THR above BAT_CRIT_THR


class Executable(NamedTuple):
    """The search for an autopilot's program if no option names it, in this order.

    The path in the environment variable `variable`; a file on the PATH that has one of `names`, in which `*` stands for a
    version; one of `paths`; the file of an installed Python package, `package_file` = (package, path inside it). `install`
    completes the error message "… not found: expected …".
    """

    variable: str
    names: tuple[str, ...]
    install: str
    paths: tuple[str, ...] = ()
    package_file: tuple[str, str] | None = None


class FlightMode(NamedTuple):
    """A mode in which an autopilot follows the scenario's reference once it has taken off.

    `rate` [Hz], if not 0, is the default sensor rate in this mode; other rates must be multiples of it. With
    `commands_motors`, the autopilot's outputs are motor commands instead of thrusts.
    """

    name: str
    description: str
    rate: float = 0.0
    commands_motors: bool = False


@dataclass(frozen=True)
class AutopilotType:
    """The properties of a type of autopilot.

    name            in scenario files and on the command line
    title           in messages and tables
    module          the module with `open_link(context)`; optional there: `require_packages()`, which raises MissingExtraError
    default_rate    rate of its sensor data [Hz]; a scenario may choose a rate within `rate_range`
    sensors         the sensors it needs; those that a drone lacks are added
    executable      where its program is; None for one that is never started here and always waited for
    outputs         which `outputs` a scenario may choose: "thrust", "command"
    modes           in which it follows the reference
    conventions     versions of its protocol that a scenario may choose
    positions_only  it is sent positions and plans the path itself, so its distance from the reference is not evaluated
    takes_orders    events such as `land` reach it
    takes_words     values of its parameters may be words
    takes_sticks    a person's sticks reach it, through its radio receiver
    failsafe_parameters   (failsafe, capacity [mA h]) -> its parameters; None if it has no battery failsafe
    gps_delay_parameters  its parameters for the delay of the GPS receiver [ms]
    description     follows the name in help texts, if the name is not enough
    """

    name: str
    title: str
    module: str
    default_rate: float
    rate_range: tuple[float, float]
    sensors: tuple[str, ...] = ("imu",)
    executable: Executable | None = None
    outputs: tuple[str, ...] = ("thrust",)
    modes: tuple[FlightMode, ...] = ()
    conventions: tuple[str, ...] = ()
    positions_only: bool = False
    takes_orders: bool = True
    takes_sticks: bool = False
    takes_words: bool = False
    failsafe_parameters: "Callable[[BatteryFailsafe, float], dict[str, float]] | None" = None
    gps_delay_parameters: tuple[str, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        if not (self.name.isascii() and self.name.isidentifier()):
            raise ValueError(f"autopilot type {self.name!r:.60}: expected a name of letters, digits and _")
        low, high = self.rate_range
        if not 0.0 < low <= self.default_rate <= high:
            raise ValueError(
                f"autopilot type {self.name}: default_rate = {self.default_rate:g} Hz: expected within {low:g} to {high:g}"
            )

    @property
    def variable(self) -> str:
        """The environment variable that names its program; "" for one that is never started here."""
        return "" if self.executable is None else self.executable.variable

    @property
    def has_failsafe_events(self) -> bool:
        """Whether the battery failsafe acts by events: it takes orders and has no such failsafe itself."""
        return self.failsafe_parameters is None and self.takes_orders


def _px4_failsafe(failsafe: "BatteryFailsafe", capacity: float) -> dict[str, float]:
    return {
        "BAT_LOW_THR": round(failsafe.return_below + PX4_WARNING_MARGIN, 3),
        "BAT_CRIT_THR": failsafe.return_below,
        "BAT_EMERGEN_THR": failsafe.land_below,
    }


def _ardupilot_failsafe(failsafe: "BatteryFailsafe", capacity: float) -> dict[str, float]:
    return {
        "BATT_LOW_MAH": round(failsafe.return_below * capacity),
        "BATT_CRT_MAH": round(failsafe.land_below * capacity),
    }


OFFBOARD = FlightMode("offboard", "its own controllers")
RAPTOR = FlightMode(
    "raptor", "the policy of --controller inside its module mc_raptor", rate=100.0, commands_motors=True
)
"""mc_raptor acts at 100 Hz, which it derives by counting sensor updates."""

PX4 = AutopilotType(
    name="px4",
    title="PX4",
    module="samara.link.px4",
    default_rate=250.0,
    rate_range=(50.0, 4000.0),
    sensors=("imu", "magnetometer", "barometer", "gps"),
    executable=Executable(
        "SAMARA_PX4",
        ("px4",),
        "the package `px4` or `px4-gazebo`",
        # its Debian packages install into /opt; `px4-gazebo` on the PATH is a script that starts Gazebo, and is not used
        paths=("/opt/px4/bin/px4", "/opt/px4-gazebo/bin/px4"),
    ),
    outputs=("thrust", "command"),
    modes=(OFFBOARD, RAPTOR),
    positions_only=True,
    failsafe_parameters=_px4_failsafe,
    gps_delay_parameters=("EKF2_GPS_DELAY", "SENS_GPS0_DELAY"),  # until 1.17, and from 1.18; PX4 ignores unknown names
)
ARDUPILOT = AutopilotType(
    name="ardupilot",
    title="ArduPilot",
    module="samara.link.ardupilot",
    default_rate=1000.0,
    rate_range=(720.0, 4000.0),  # it does not arm below 720 Hz
    executable=Executable("SAMARA_ARDUCOPTER", ("arducopter",), "`arducopter` on the PATH"),
    positions_only=True,
    failsafe_parameters=_ardupilot_failsafe,
)
BETAFLIGHT = AutopilotType(
    name="betaflight",
    title="Betaflight",
    module="samara.link.betaflight",
    default_rate=500.0,
    rate_range=(200.0, 4000.0),
    sensors=("imu", "barometer"),
    executable=Executable(
        "SAMARA_BETAFLIGHT",
        ("betaflight_SITL.elf", "betaflight_*_SITL", "betaflight_*_SITL.elf"),
        f"`{install_hint('betaflight')}` or `betaflight_SITL.elf` on the PATH",
        package_file=("betaflight", "firmware/obj/main/betaflight_SITL.elf"),
    ),
    conventions=("4.6", "2026.12"),
    takes_sticks=True,
    takes_words=True,
)
CRAZYFLIE = AutopilotType(
    name="crazyflie",
    title="Crazyflie",
    description="a script that uses cflib",
    module="samara.link.crazyflie.udp_link",
    default_rate=250.0,
    rate_range=(100.0, 1000.0),
    takes_orders=False,
)

AUTOPILOTS: dict[str, AutopilotType] = {entry.name: entry for entry in (PX4, ARDUPILOT, BETAFLIGHT, CRAZYFLIE)}
"""All types by name; `register` adds one."""


def register(autopilot_type: AutopilotType) -> None:
    """Add a type of autopilot; its name must not be registered yet."""
    if autopilot_type.name in AUTOPILOTS:
        raise ValueError(f"autopilot type {autopilot_type.name}: registered already; expected another name")
    AUTOPILOTS[autopilot_type.name] = autopilot_type


class _PositionsOnly:
    """`name in POSITIONS_ONLY`: whether the autopilot type `name` is sent positions only."""

    def __contains__(self, name: object) -> bool:
        return any(entry.positions_only for entry in AUTOPILOTS.values() if entry.name == name)


POSITIONS_ONLY = _PositionsOnly()


def autopilot_help() -> str:
    """List all types for a help text: name, name (description), …"""
    return ", ".join(
        f"{entry.name} ({entry.description})" if entry.description else entry.name for entry in AUTOPILOTS.values()
    )


def mode_help() -> str:
    """List all modes for a help text, by autopilot: PX4: name, description; …"""
    return "; ".join(
        f"{entry.title}: {', '.join(f'{mode.name} ({mode.description})' for mode in entry.modes)}"
        for entry in AUTOPILOTS.values()
        if entry.modes
    )
