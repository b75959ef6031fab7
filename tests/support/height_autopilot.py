"""A fifth autopilot, for tests: holds the take-off height with the true state, without a connection."""

from collections.abc import Iterator, Sequence

from samara.link.link import Link, LinkContext
from samara.link.sensor_snapshot import Readings
from samara.scenario.autopilot_types import AutopilotType
from samara.scenario.events import Order

STIFFNESS, DAMPING = 4.0, 4.0  # [1/s², 1/s]: critically damped
GRAVITY = 9.80665  # [m/s²]


def open_link(context: LinkContext) -> Link:
    return HeightAutopilot(context)


class HeightAutopilot:
    """Equal thrusts, z̈ = STIFFNESS (z_ref − z) − DAMPING ż; 0 until it is ordered to take off."""

    title = "Height hold"

    def __init__(self, context: LinkContext) -> None:
        self._hover, self._rotors, self._log_message = (
            context.autopilot.hover,
            len(context.vehicle.rotors),
            context.log_message,
        )
        self.parameters = dict(context.autopilot.parameters)
        self._height: float | None = None
        self.sent = self.answered = 0

    def begin(self, readings: Readings) -> None:
        """Do nothing: there are no packets."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        self.sent, self.answered = self.sent + 1, self.answered + 1
        if readings.pressure is not None and readings.fix is not None:
            self._log_message("error", "received a sensor it does not need")
        if self._height is None:
            return [0.0] * self._rotors
        state = readings.state
        acceleration = STIFFNESS * (self._height - state.p_W.z) - DAMPING * state.v_W.z
        return [min(max(self._hover * (1.0 + acceleration / GRAVITY), 0.0), 1.0)] * self._rotors

    def send_order(self, order: Order) -> None:
        if order.kind == "take_off":
            self._height = order.p_W.z

    def closing_report(self) -> Iterator[tuple[str, str]]:
        yield "info", f"{self.title} answered {self.answered} of {self.sent}"

    def close(self) -> None:
        """Do nothing: there are no sockets."""


HEIGHT_HOLD = AutopilotType(
    name="height_hold",
    title="Height hold",
    module=__name__,
    default_rate=200.0,
    rate_range=(100.0, 1000.0),
    sensors=("imu", "barometer"),
    positions_only=True,
    failsafe_parameters=lambda failsafe, capacity: {"LOW_MAH": failsafe.return_below * capacity},
    description="holds its height",
)
