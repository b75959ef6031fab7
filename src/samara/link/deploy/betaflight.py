"""A policy for Betaflight: C that takes its gyroscope, attitude and place as they are, and gives its four motors.

Betaflight's body is ours: forward, left, up, in degrees per second, and so a pitch is positive nose down. The quaternion of its
imu.c leads from there into north, west, up; its position estimator has centimetres east, north, up from where it was armed; a
heading is counted clockwise from north. Its mixer is passed by: rotors sit where its motors do, and may turn either way.
"""

import math
from contextlib import suppress
from pathlib import Path

from samara.control.policy_c import PREFIX, Boundary, Exported, PolicyInputs, Units, write_policy_c
from samara.control.policy_file import Policy
from samara.core.atomic_files import write_text
from samara.core.quantity import Scalar
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.motor_outputs import outputs_of_command, rotor_of_output
from samara.physics.frames import (
    attitude_enu_flu_from_ned_frd,
    attitude_ned_frd_from_nwu_flu,
    yaw_enu_from_ned,
)
from samara.physics.types import Command, Vehicle
from samara.vehicles.limits import command_bounds

MIXER = "samara_mixer"
FILES = (f"{PREFIX}.h", f"{PREFIX}.c", f"{MIXER}.h", f"{MIXER}.c")
WIRINGS = {"betaflight": "in (yaw_motors_reversed = OFF)", "betaflight_props_out": "out (yaw_motors_reversed = ON)"}
RAD_PER_DEG = math.pi / 180.0
FRAMES = (
    "those of Betaflight. Body: forward, left, up. Attitude: Hamilton's quaternion, scalar first, from body to north, west, "
    "up, as imu.c has it. Place: east, north, up from where it was armed, as position_estimator.c has it."
)
UNITS = Units(
    p="[cm], east, north, up",
    v="[cm/s], east, north, up",
    q="imuAttitudeQuaternion: w, x, y, z, into north, west, up",
    omega="[deg/s], gyro.gyroADCf: roll right, pitch down, yaw left",
    moving="[cm], east, north, up, and its derivatives by time below",
    yaw="[deg], clockwise from north",
    given="The throttle of each motor, 0 to 1 of what its ESC takes: 1 rear right, 2 front right, 3 rear left, 4 front left",
)


def wiring(vehicle: Vehicle) -> tuple[str, tuple[int, ...]]:
    """Which of its two quadrotors in X a vehicle is, and the rotor of each motor; ValueError with one sentence where neither"""
    inwards, outwards = WIRINGS
    try:
        return inwards, rotor_of_output(vehicle, inwards)
    except ValueError:
        with suppress(ValueError):
            return outwards, rotor_of_output(vehicle, outwards)
        raise


def betaflight_boundary(vehicle: Vehicle) -> Boundary:
    """Its axes, units and motors; ValueError with one sentence about a vehicle that is not its quadrotor in X"""
    if len(vehicle.rotors) != 4:
        raise ValueError(f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; betaflight's QUADX has 4")
    _, order = wiring(vehicle)
    if command_bounds(vehicle) is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected one that rotors drive")

    def ours(inputs: PolicyInputs) -> PolicyInputs:
        own = inputs.state
        state = own._replace(
            p_W=own.p_W * 0.01,
            v_W=own.v_W * 0.01,
            q_WB=attitude_enu_flu_from_ned_frd(attitude_ned_frd_from_nwu_flu(own.q_WB)),
            omega_B=own.omega_B * RAD_PER_DEG,
        )
        return PolicyInputs(state, tuple(x * 0.01 for x in inputs.moving), yaw_enu_from_ned(inputs.yaw * RAD_PER_DEG))

    def motors(command: Command) -> tuple[Scalar, ...]:
        outputs = outputs_of_command(command, vehicle)
        return tuple(outputs[k] for k in order)

    return Boundary(FRAMES, UNITS, ours, motors, measures_rotors=False, small_stack=True)


def write_betaflight_policy(policy: Policy, vehicle: Vehicle, folder: str | Path) -> Exported:
    """Writes the policy, and a mixer that feeds it from Betaflight's own variables and sets `motor[]`"""
    boundary = betaflight_boundary(vehicle)
    turned = f"Propellers turn {WIRINGS[wiring(vehicle)[0]]} on {vehicle.name}: those of the aircraft have to as well."
    needed = (
        "It is to be told where it is: by Betaflight's position estimator (2026.6 and later) with GPS, optical flow or a range "
        "finder, or from outside, as a motion capture system knows it. Its heading must be true: an attitude without a "
        "compass, or with GPS before it has moved, turns the place about the vertical."
    )
    exported = write_policy_c(policy, vehicle, folder, boundary, f"{turned} {needed}")
    about = f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Written by Samara {__version__}."
    write_text(Path(folder) / f"{MIXER}.h", _mixer_header(about))
    write_text(Path(folder) / f"{MIXER}.c", _mixer(about))
    return exported


def _mixer_header(about: str) -> str:
    call = (
        "Called after mixTable() in subTaskMotorUpdate() of fc/core.c, as often as that is: sets motor[] by the policy, which "
        "acts at its own rate, while the aircraft is armed, its place is known and there is a place to be at; false, with "
        "motor[] as the mixer left it, where not. To hold the place where it is, fill the reference from "
        "positionEstimatorGetEstimate() once when a switch is flipped."
    )
    return f"""{comment(about)}

#pragma once

#include <stdbool.h>

#include "common/time.h"

#include "{PREFIX}.h"

{comment(call)}
bool samaraMix(timeUs_t currentTimeUs, const {PREFIX}_reference *reference);
"""


def _mixer(about: str) -> str:
    """It copies what the policy is told, and spreads throttles over the range of the motors' protocol"""
    return f"""{comment(about)}

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

static {PREFIX}_memory memory;
static bool flying;
static timeUs_t actedAt;
static float throttle[{PREFIX.upper()}_ROTORS];

static void act(const positionEstimate3d_t *place, const {PREFIX}_reference *reference, float dt)
{{
    const quaternion_t *q = &imuAttitudeQuaternion;
    const {PREFIX}_state known = {{
        .p = {{ place->position.x, place->position.y, place->position.z }},
        .v = {{ place->velocity.x, place->velocity.y, place->velocity.z }},
        .q = {{ q->w, q->x, q->y, q->z }},
        .omega = {{ gyro.gyroADCf[X], gyro.gyroADCf[Y], gyro.gyroADCf[Z] }},
    }};
    {PREFIX}_act(&known, reference, &memory, dt, throttle);
}}

bool samaraMix(timeUs_t currentTimeUs, const {PREFIX}_reference *reference)
{{
    const positionEstimate3d_t *place = positionEstimatorGetEstimate();
    if (reference == NULL || !ARMING_FLAG(ARMED) || !place->isValidXY || !place->isValidZ) {{
        flying = false;
        return false;
    }}
    const float elapsed = flying ? cmpTimeUs(currentTimeUs, actedAt) * 1e-6f : {PREFIX.upper()}_PERIOD;
    if (!flying) {{
        {PREFIX}_start(&memory);
        flying = true;
    }}
    if (elapsed >= {PREFIX.upper()}_PERIOD) {{
        act(place, reference, elapsed);
        actedAt = currentTimeUs;
    }}
    const float none = motorConvertFromExternal(PWM_RANGE_MIN + 1); // the least above a stop
    const float full = motorConvertFromExternal(PWM_RANGE_MAX);
    for (int k = 0; k < {PREFIX.upper()}_ROTORS; k++) {{
        const float share = throttle[k] >= 0.0f ? throttle[k] : 0.0f; // also where it is not a number
        motor[k] = constrainf(none + share * (full - none), getMotorOutputLow(), getMotorOutputHigh());
    }}
    return true;
}}
"""
