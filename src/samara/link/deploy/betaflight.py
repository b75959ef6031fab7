"""Export a policy for Betaflight: C that reads its gyroscope, attitude and position estimate, and sets its four motors.

Betaflight's body frame is that of Samara: forward, left, up, in degrees per second, so a positive pitch is nose down. The
quaternion of its imu.c rotates from there into north, west, up; its position estimator is in centimetres east, north, up from
the arming position; a heading is clockwise from north. The policy bypasses its mixer: rotors must be at the positions of its
motors, and may spin either way.
"""

import math
from pathlib import Path

from samara.control.policy_c import C_PREFIX, ExportedPolicy, PolicyInputs, PolicyInterface, Units, write_policy_c
from samara.control.policy_file import Policy
from samara.core.atomic_files import write_text
from samara.core.quantity import Scalar
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.motor_outputs import betaflight_wiring, motor_outputs_from_command
from samara.physics.frames import (
    attitude_enu_flu_from_ned_frd,
    attitude_ned_frd_from_nwu_flu,
    yaw_enu_from_ned,
)
from samara.physics.types import Command, Vehicle
from samara.vehicles.limits import command_bounds

MIXER = "samara_mixer"
FILES = (f"{C_PREFIX}.h", f"{C_PREFIX}.c", f"{MIXER}.h", f"{MIXER}.c")
WIRINGS = {False: "in (yaw_motors_reversed = OFF)", True: "out (yaw_motors_reversed = ON)"}
RAD_PER_DEG = math.pi / 180.0
FRAMES = (
    "those of Betaflight. Body: forward, left, up. Attitude: Hamilton's quaternion, scalar first, from body to north, west, "
    "up, as in imu.c. Position: east, north, up from the arming position, as in position_estimator.c."
)
UNITS = Units(
    p="[cm], east, north, up",
    v="[cm/s], east, north, up",
    q="imuAttitudeQuaternion: w, x, y, z, into north, west, up",
    omega="[deg/s], gyro.gyroADCf: roll right, pitch down, yaw left",
    reference="[cm], east, north, up, and its derivatives by time below",
    yaw="[deg], clockwise from north",
    output="The throttle of each motor, 0 to 1 of what its ESC takes: 1 rear right, 2 front right, 3 rear left, 4 front left",
)


def betaflight_boundary(vehicle: Vehicle) -> PolicyInterface:
    """Return Betaflight's axes, units and motors; raise ValueError for a vehicle that is not its quadrotor X."""
    if len(vehicle.rotors) != 4:
        raise ValueError(f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; betaflight's QUADX has 4")
    order = betaflight_wiring(vehicle).order
    if command_bounds(vehicle) is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected a vehicle with rotors")

    def samara_inputs(inputs: PolicyInputs) -> PolicyInputs:
        estimate = inputs.state
        state = estimate._replace(
            p_W=estimate.p_W * 0.01,
            v_W=estimate.v_W * 0.01,
            q_WB=attitude_enu_flu_from_ned_frd(attitude_ned_frd_from_nwu_flu(estimate.q_WB)),
            omega_B=estimate.omega_B * RAD_PER_DEG,
        )
        return PolicyInputs(
            state, tuple(x * 0.01 for x in inputs.derivatives), yaw_enu_from_ned(inputs.yaw * RAD_PER_DEG)
        )

    def motor_outputs(command: Command) -> tuple[Scalar, ...]:
        outputs = motor_outputs_from_command(command, vehicle)
        return tuple(outputs[k] for k in order)

    return PolicyInterface(FRAMES, UNITS, samara_inputs, motor_outputs, measures_rotors=False, small_stack=True)


def write_betaflight_policy(policy: Policy, vehicle: Vehicle, folder: str | Path) -> ExportedPolicy:
    """Write the policy, and a mixer that feeds it from Betaflight's variables and sets `motor[]`."""
    boundary = betaflight_boundary(vehicle)
    turning = WIRINGS[betaflight_wiring(vehicle).has_props_out]
    spin_note = f"Propellers turn {turning} on {vehicle.name}: those of the aircraft have to as well."
    position_note = (
        "It needs its position: from Betaflight's position estimator (2026.6 and later) with GPS, optical flow or a range "
        "finder, or from outside, such as a motion capture system. Its heading must be true: an attitude without a "
        "compass, or with GPS before it has moved, rotates the position about the vertical."
    )
    exported = write_policy_c(policy, vehicle, folder, boundary, f"{spin_note} {position_note}")
    notice = f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Written by Samara {__version__}."
    write_text(Path(folder) / f"{MIXER}.h", _mixer_header(notice))
    write_text(Path(folder) / f"{MIXER}.c", _mixer(notice))
    return exported


def _mixer_header(notice: str) -> str:
    call = (
        "Call it after mixTable() in subTaskMotorUpdate() of fc/core.c, at the same rate: it sets motor[] by the policy, which "
        "acts at its period, while the aircraft is armed, its position is valid and reference is not NULL. Otherwise it "
        "returns false and leaves motor[] as the mixer set it. To hold the current position, fill the reference from "
        "positionEstimatorGetEstimate() once when a switch is flipped."
    )
    return f"""{comment(notice)}

#pragma once

#include <stdbool.h>

#include "common/time.h"

#include "{C_PREFIX}.h"

{comment(call)}
bool samaraMix(timeUs_t currentTimeUs, const {C_PREFIX}_reference *reference);
"""


def _mixer(notice: str) -> str:
    """C source of the mixer: it copies the policy's inputs, and scales throttles to the range of the motor protocol."""
    return f"""{comment(notice)}

#include "platform.h"

#include "common/maths.h"

#include "drivers/motor.h"

#include "fc/runtime_config.h"

#include "flight/imu.h"
#include "flight/mixer.h"
#include "flight/position_estimator.h"

#include "rx/rx.h"

#include "sensors/gyro.h"

#include "{MIXER}.h"

static {C_PREFIX}_memory memory;
static bool flying;
static timeUs_t actedAt;
static float throttle[{C_PREFIX.upper()}_ROTORS];

static void act(const positionEstimate3d_t *position, const {C_PREFIX}_reference *reference, float dt)
{{
    const quaternion_t *q = &imuAttitudeQuaternion;
    const {C_PREFIX}_state estimate = {{
        .p = {{ position->position.x, position->position.y, position->position.z }},
        .v = {{ position->velocity.x, position->velocity.y, position->velocity.z }},
        .q = {{ q->w, q->x, q->y, q->z }},
        .omega = {{ gyro.gyroADCf[X], gyro.gyroADCf[Y], gyro.gyroADCf[Z] }},
    }};
    {C_PREFIX}_act(&estimate, reference, &memory, dt, throttle);
}}

bool samaraMix(timeUs_t currentTimeUs, const {C_PREFIX}_reference *reference)
{{
    const positionEstimate3d_t *position = positionEstimatorGetEstimate();
    if (reference == NULL || !ARMING_FLAG(ARMED) || !position->isValidXY || !position->isValidZ) {{
        flying = false;
        return false;
    }}
    const float elapsed = flying ? cmpTimeUs(currentTimeUs, actedAt) * 1e-6f : {C_PREFIX.upper()}_PERIOD;
    if (!flying) {{
        {C_PREFIX}_start(&memory);
        flying = true;
    }}
    if (elapsed >= {C_PREFIX.upper()}_PERIOD) {{
        act(position, reference, elapsed);
        actedAt = currentTimeUs;
    }}
    const float idle = motorConvertFromExternal(PWM_RANGE_MIN + 1); // the lowest value above a stop
    const float full = motorConvertFromExternal(PWM_RANGE_MAX);
    for (int k = 0; k < {C_PREFIX.upper()}_ROTORS; k++) {{
        const float fraction = throttle[k] >= 0.0f ? throttle[k] : 0.0f; // 0 for NaN
        motor[k] = constrainf(idle + fraction * (full - idle), getMotorOutputLow(), getMotorOutputHigh());
    }}
    return true;
}}
"""
