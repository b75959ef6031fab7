"""Export a policy for the Crazyflie's firmware: C for an app with an out-of-tree controller, which replaces the built-in ones.

The firmware's world and body frames are those of Samara; its gyroscope and the yaw of its setpoint are in degrees. Motors are
commanded as fractions of THRUST_MAX (`controlModeForce`), which the firmware converts to PWM with the battery voltage. The
speeds of the brushed motors are not measured: a policy that observes rotor speeds gets the lagged commands instead.
"""

import math
from pathlib import Path

from samara.control.policy_c import (
    C_PREFIX,
    ExportedPolicy,
    PolicyInputs,
    PolicyInterface,
    Units,
    commanded_speeds,
    lag_motors_in_hover,
    reference_derivatives,
    write_policy_c,
)
from samara.control.policy_file import Policy
from samara.core.atomic_files import write_text
from samara.core.quantity import Scalar
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.motor_outputs import rotor_order
from samara.physics.rotors.rotor import rotor_load
from samara.physics.types import Command, Vehicle

STABILIZER_RATE = 1000  # [Hz] of the firmware's stabilizer
CONTROLLER = "samara_controller.c"
FILES = (f"{C_PREFIX}.h", f"{C_PREFIX}.c", CONTROLLER, "Kbuild", "app-config", "Makefile")
RAD_PER_DEG = math.pi / 180.0
FRAMES = (
    "those of the Crazyflie's firmware. World: x, y, z up; body: forward, left, up. Quaternions are Hamilton's, scalar first, "
    "from body to world. Rates are those of its gyroscope."
)
UNITS = Units(
    p="[m], state->position",
    v="[m/s], state->velocity, world axes",
    q="state->attitudeQuaternion: w, x, y, z",
    omega="[deg/s], sensors->gyro, body axes",
    reference="[m], setpoint->position, and its derivatives by time below",
    yaw="[deg], counter-clockwise from x",
    output="The thrust of each motor [N], M1 front right, M2 back right, M3 back left, M4 front left",
)


def crazyflie_boundary(vehicle: Vehicle) -> PolicyInterface:
    """Return the firmware's axes, units and motors; raise ValueError for a vehicle with another layout."""
    order, motors = rotor_order(vehicle, "crazyflie"), lag_motors_in_hover(vehicle)

    def samara_inputs(inputs: PolicyInputs) -> PolicyInputs:
        omega_B = inputs.state.omega_B * RAD_PER_DEG
        return PolicyInputs(inputs.state._replace(omega_B=omega_B), inputs.derivatives, inputs.yaw * RAD_PER_DEG)

    def thrusts(command: Command) -> tuple[Scalar, ...]:
        """T = kF Ω² at the steady speed of each motor  [N]."""
        speeds = commanded_speeds(command, vehicle, motors)
        return tuple(rotor_load(speeds[k], vehicle.rotors[k]).thrust for k in order)

    return PolicyInterface(FRAMES, UNITS, samara_inputs, thrusts, measures_rotors=False, small_stack=True)


def write_crazyflie_policy(policy: Policy, vehicle: Vehicle, folder: str | Path) -> ExportedPolicy:
    """Write an app for the firmware's build: the policy, the controller that calls it, Kbuild, app-config and Makefile."""
    if policy.period * STABILIZER_RATE < 1.0 - 1e-6:
        raise ValueError(
            f"{policy.folder or 'the policy'}: acts every {policy.period * 1e3:g} ms; the Crazyflie's stabilizer runs every "
            f"{1e3 / STABILIZER_RATE:g} ms"
        )
    exported = write_policy_c(policy, vehicle, folder, crazyflie_boundary(vehicle))
    notice = f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Written by Samara {__version__}."
    objects = " ".join(f"{Path(name).stem}.o" for name in FILES if name.endswith(".c"))
    for name, text in (
        (CONTROLLER, _controller(notice, steps_per_action(policy.period), reference_derivatives(policy))),
        ("Kbuild", f"obj-y += {objects}\n"),
        (
            "app-config",
            "CONFIG_APP_ENABLE=y\nCONFIG_APP_PRIORITY=1\nCONFIG_APP_STACKSIZE=350\nCONFIG_CONTROLLER_OOT=y\n",
        ),
        ("Makefile", MAKEFILE),
    ):
        write_text(Path(folder) / name, text)
    return exported


def steps_per_action(period: float) -> int:
    """Return the stabilizer steps between two actions, rounded down."""
    return max(1, math.floor(period * STABILIZER_RATE * (1.0 + 1e-6)))


MAKEFILE = """# make CRAZYFLIE_BASE=/path/to/crazyflie-firmware
CRAZYFLIE_BASE ?= ../crazyflie-firmware
OOT_CONFIG := $(PWD)/app-config

include $(CRAZYFLIE_BASE)/tools/make/oot.mk
"""


SETPOINT_FIELDS = {"p": "position", "v": "velocity", "a": "acceleration", "j": "jerk"}


def _setpoint_lines(reads: str, axes: str) -> str:
    """C lines that copy the setpoint along axes on which it is absolute."""
    lines = (
        f"reference.{symbol}[{'xyz'.index(axis)}] = setpoint->{SETPOINT_FIELDS[symbol]}.{axis};"
        for symbol in reads
        for axis in axes
    )
    return "\n        ".join(lines)


def _zero_lines(reads: str, axes: str) -> str:
    return "\n        ".join(
        f"reference.{symbol}[{'xyz'.index(axis)}] = 0.0f;" for symbol in reads[1:] for axis in axes
    )


def _controller(notice: str, steps: int, reads: str) -> str:
    """C source of the controller that the firmware calls every millisecond; it copies the policy's inputs and outputs."""
    behaviour = (
        "It flies to positions: while a setpoint has x and y, z, or a yaw that is not absolute (modeAbs), the last absolute "
        "one holds, and before the first one the initial position. A setpoint without a height stops the motors."
    )
    return f"""{comment(notice, behaviour)}

#include <stdbool.h>
#include <stdint.h>

#include "app.h"
#include "autoconf.h"
#include "controller.h"
#include "math3d.h"
#include "platform_defaults.h"

#include "{C_PREFIX}.h"

#ifndef CONFIG_ENABLE_THRUST_BAT_COMPENSATED
#error "the policy gives thrusts: build with CONFIG_ENABLE_THRUST_BAT_COMPENSATED, which makes them into PWM"
#endif

#define STEPS {steps} /* of the stabilizer, 1 ms each, between two actions */

static {C_PREFIX}_memory memory;
static {C_PREFIX}_reference reference;
static bool has_reference;

void appMain() {{
    /* required of every app; the firmware sleeps when it returns */
}}

static void begin(const state_t *state) {{
    reference = ({C_PREFIX}_reference){{.p = {{state->position.x, state->position.y, state->position.z}}}};
    reference.yaw = state->attitude.yaw;
    has_reference = true;
}}

static void update_reference(const setpoint_t *setpoint) {{
    if (setpoint->mode.x == modeAbs && setpoint->mode.y == modeAbs) {{
        {_setpoint_lines(reads, "xy")}
    }} else {{
        {_zero_lines(reads, "xy")}
    }}
    if (setpoint->mode.z == modeAbs) {{
        {_setpoint_lines(reads, "z")}
    }} else {{
        {_zero_lines(reads, "z")}
    }}
    const quaternion_t *q = &setpoint->attitudeQuaternion;
    if (setpoint->mode.yaw == modeAbs) {{
        reference.yaw = setpoint->attitude.yaw;
    }} else if (setpoint->mode.quat == modeAbs) {{
        reference.yaw = degrees(quat2rpy(mkquat(q->x, q->y, q->z, q->w)).z);
    }}
}}

void controllerOutOfTreeInit(void) {{
    {C_PREFIX}_start(&memory);
    has_reference = false;
}}

bool controllerOutOfTreeTest(void) {{
    return true;
}}

void controllerOutOfTree(
    control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state,
    const stabilizerStep_t stabilizerStep) {{
    control->controlMode = controlModeForce;
    if (setpoint->mode.z == modeDisable) {{
        for (int k = 0; k < {C_PREFIX.upper()}_ROTORS; k++) {{
            control->normalizedForces[k] = 0.0f;
        }}
        controllerOutOfTreeInit();
        return;
    }}
    if (stabilizerStep % STEPS != 0) {{
        return; /* the last action holds */
    }}
    if (!has_reference) {{
        begin(state);
    }}
    update_reference(setpoint);
    const quaternion_t *q = &state->attitudeQuaternion;
    const {C_PREFIX}_state estimate = {{
        .p = {{state->position.x, state->position.y, state->position.z}},
        .v = {{state->velocity.x, state->velocity.y, state->velocity.z}},
        .q = {{q->w, q->x, q->y, q->z}},
        .omega = {{sensors->gyro.x, sensors->gyro.y, sensors->gyro.z}},
    }};
    float thrust[{C_PREFIX.upper()}_ROTORS];
    {C_PREFIX}_act(&estimate, &reference, &memory, STEPS / {float(STABILIZER_RATE)}f, thrust);
    for (int k = 0; k < {C_PREFIX.upper()}_ROTORS; k++) {{
        const float fraction = thrust[k] / THRUST_MAX;
        control->normalizedForces[k] = fraction >= 0.0f ? fraction : 0.0f; /* NaN stops the motor */
    }}
}}
"""
