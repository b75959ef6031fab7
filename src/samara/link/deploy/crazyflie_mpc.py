"""Export model-predictive control for the Crazyflie's firmware: an app whose task solves, and an out-of-tree controller.

The controller runs every millisecond in the stabilizer's task: it copies the estimate and applies the last solution. The app's
task, of lower priority, solves once per period. The file also compiles alone, with -DSAMARA_MPC_HOST, as an example.
"""

from pathlib import Path

from samara.control.mpc import MPC
from samara.control.mpc_c import C_PREFIX, ExportedMpc, write_mpc_c
from samara.core.atomic_files import write_text
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.deploy.crazyflie import MAKEFILE, RAD_PER_DEG, STABILIZER_RATE
from samara.link.motor_outputs import rotor_order

APP = "samara_mpc_app.c"
FILES = (f"{C_PREFIX}.h", f"{C_PREFIX}.c", APP, "Kbuild", "app-config", "Makefile")
APP_STACK_WORDS = 1536  # 6 KB; an iteration needs 2 to 3 KB


def write_crazyflie_mpc(mpc: MPC, folder: str | Path) -> ExportedMpc:
    """Write an app for the firmware's build: the solver, the app that calls it, Kbuild, app-config and Makefile."""
    ticks = round(mpc.period * STABILIZER_RATE)
    if ticks < 1 or abs(ticks - mpc.period * STABILIZER_RATE) > 1e-6:
        raise ValueError(
            f"period = {mpc.period:g} s: expected a multiple of the stabilizer's {1.0 / STABILIZER_RATE:g} s"
        )
    order = None if mpc.model.takes_wrench else rotor_order(mpc.vehicle, "crazyflie")
    exported = write_mpc_c(mpc, folder)
    notice = f"Model-predictive control of {mpc.vehicle.name} as a Crazyflie app. Written by Samara {__version__}."
    config = (
        f"CONFIG_APP_ENABLE=y\nCONFIG_APP_PRIORITY=1\nCONFIG_APP_STACKSIZE={APP_STACK_WORDS}\nCONFIG_CONTROLLER_OOT=y\n"
    )
    for name, text in (
        (APP, _app(notice, ticks, order)),
        ("Kbuild", f"obj-y += {C_PREFIX}.o {Path(APP).stem}.o\n"),
        ("app-config", config),
        ("Makefile", MAKEFILE),
    ):
        write_text(Path(folder) / name, text)
    return exported


def _app(notice: str, ticks: int, order: tuple[int, ...] | None) -> str:
    behaviour = (
        "It flies to positions: the solver's target is the last absolute setpoint of x, y, z and yaw, before the first one the "
        "position at the start. A setpoint without a height stops the motors, and the next one starts anew; "
        "so does a solution that is five periods old."
    )
    host = f"As an example without the firmware: cc -std=c99 -DSAMARA_MPC_HOST {APP} {C_PREFIX}.c -lm"
    if order is None:
        apply = _WRENCH
    else:
        numbers = ", ".join(map(str, order))
        apply = _FORCES.replace("ORDER", numbers)
    text = (
        _APP.replace("APPLY", apply.strip("\n"))
        .replace("MPC_CAPITALS", C_PREFIX.upper())
        .replace("MPC_PREFIX", C_PREFIX)
    )
    text = text.replace("TICKS", str(ticks)).replace("RAD_PER_DEG", f"{RAD_PER_DEG:.9g}f")
    return f"{comment(notice, behaviour, host)}\n{text}"


_WRENCH = """
    control->controlMode = controlModeForceTorque;
    control->thrustSi = input[0];
    control->torqueX = input[1];
    control->torqueY = input[2];
    control->torqueZ = input[3];
"""

_FORCES = """
    static const int rotor_of_motor[4] = {ORDER};

    control->controlMode = controlModeForce;
    for (int k = 0; k < 4; k++) {
        const float fraction = input[rotor_of_motor[k]] / THRUST_MAX;
        control->normalizedForces[k] = fraction >= 0.0f ? fraction : 0.0f; /* NaN stops the motor */
    }
"""

_APP = """
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef SAMARA_MPC_HOST /* what this file uses of the firmware */
#include <stdio.h>

#define THRUST_MAX 0.12f
#define M2T(milliseconds) (milliseconds)
typedef struct { float x, y, z; } point_t;
typedef struct { float x, y, z, w; } quaternion_t;
typedef struct { float roll, pitch, yaw; } attitude_t;
typedef struct { point_t gyro; } sensorData_t;
typedef struct { attitude_t attitude; quaternion_t attitudeQuaternion; point_t position, velocity; } state_t;
typedef enum { controlModeLegacy, controlModeForceTorque, controlModeForce } control_mode_t;
typedef struct {
    float thrustSi, torqueX, torqueY, torqueZ, normalizedForces[4];
    control_mode_t controlMode;
} control_t;
typedef enum { modeDisable, modeAbs, modeVelocity } stab_mode_t;
typedef struct { stab_mode_t x, y, z, yaw; } setpoint_mode_t;
typedef struct { attitude_t attitude; point_t position; setpoint_mode_t mode; } setpoint_t;
typedef uint32_t stabilizerStep_t;
void appMain(void);
void controllerOutOfTreeInit(void);
bool controllerOutOfTreeTest(void);
void controllerOutOfTree(
    control_t *, const setpoint_t *, const sensorData_t *, const state_t *, const stabilizerStep_t);
static void vTaskDelay(int ticks) { (void)ticks; }
#else
#include "FreeRTOS.h"
#include "app.h"
#include "autoconf.h"
#include "controller.h"
#include "platform_defaults.h"
#include "task.h"

#ifndef CONFIG_ENABLE_THRUST_BAT_COMPENSATED
#error "the solver gives thrusts: build with CONFIG_ENABLE_THRUST_BAT_COMPENSATED, which makes them into PWM"
#endif
#endif

#include "MPC_PREFIX.h"

#define PERIOD_MS TICKS
#define MAX_AGE_MS (5 * PERIOD_MS) /* of a solution that is applied */

typedef struct {
    float state[MPC_CAPITALS_STATES], target[3], yaw;
} problem_t;

/* Written by the stabilizer's task, which the app's task cannot interrupt; `count` tells whether a copy is complete. */
static problem_t problem;
static volatile uint32_t count;
static volatile bool is_flying;
static bool has_target, has_solution, is_late;
static uint32_t solution_step;

/* Written by the app's task: the buffer that is not read, then its index. */
static float inputs[2][MPC_CAPITALS_INPUTS];
static volatile uint32_t newest, solutions;

/* One period of the app's task; return whether there is a solution. */
static bool solve_once(void) {
    static bool was_flying;
    problem_t copy;
    uint32_t before;

    if (!is_flying) {
        was_flying = false;
        return false;
    }
    if (!was_flying) {
        MPC_PREFIX_init();
        was_flying = true;
    }
    do {
        before = count;
        memcpy(&copy, &problem, sizeof copy);
    } while (before != count);
    const uint32_t next = 1u - newest;
    (void)MPC_PREFIX_solve(copy.state, copy.target, copy.yaw, inputs[next]);
    newest = next;
    solutions = solutions + 1u;
    return true;
}

void appMain(void) {
    while (true) {
        (void)solve_once();
        vTaskDelay(M2T(PERIOD_MS));
    }
}

static void idle(control_t *control) {
    control->controlMode = controlModeForce;
    for (int k = 0; k < 4; k++) control->normalizedForces[k] = 0.0f;
}

static void stop(control_t *control) {
    is_flying = has_target = false;
    idle(control);
}

static void update_target(const setpoint_t *setpoint, const state_t *state) {
    if (!has_target) {
        problem.target[0] = state->position.x, problem.target[1] = state->position.y;
        problem.target[2] = state->position.z, problem.yaw = state->attitude.yaw * RAD_PER_DEG;
        has_target = true;
    }
    if (setpoint->mode.x == modeAbs && setpoint->mode.y == modeAbs) {
        problem.target[0] = setpoint->position.x, problem.target[1] = setpoint->position.y;
    }
    if (setpoint->mode.z == modeAbs) problem.target[2] = setpoint->position.z;
    if (setpoint->mode.yaw == modeAbs) problem.yaw = setpoint->attitude.yaw * RAD_PER_DEG;
}

static void apply(control_t *control, const float *input) {
APPLY
}

void controllerOutOfTreeInit(void) {
    is_flying = has_target = is_late = false;
}

bool controllerOutOfTreeTest(void) {
    return true;
}

void controllerOutOfTree(
    control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state,
    const stabilizerStep_t stabilizerStep) {
    static uint32_t seen;

    if (setpoint->mode.z == modeDisable) {
        is_late = false;
    }
    if (setpoint->mode.z == modeDisable || is_late) {
        stop(control);
        return;
    }
    update_target(setpoint, state);
    const quaternion_t *q = &state->attitudeQuaternion;
    const float estimate[MPC_CAPITALS_STATES] = {
        state->position.x, state->position.y, state->position.z,
        state->velocity.x, state->velocity.y, state->velocity.z,
        q->w, q->x, q->y, q->z,
        sensors->gyro.x * RAD_PER_DEG, sensors->gyro.y * RAD_PER_DEG, sensors->gyro.z * RAD_PER_DEG,
    };
    memcpy(problem.state, estimate, sizeof estimate);
    count = count + 1u;
    if (!is_flying || seen != solutions) {
        has_solution = is_flying;
        is_flying = true;
        seen = solutions;
        solution_step = stabilizerStep;
    }
    is_late = stabilizerStep - solution_step > MAX_AGE_MS; /* until the next setpoint without a height */
    if (is_late || !has_solution) {
        idle(control);
        return;
    }
    apply(control, inputs[newest]);
}

#ifdef SAMARA_MPC_HOST
int main(void) {
    static control_t control;
    const setpoint_t setpoint = {.position = {0.5f, 0.0f, 1.0f}, .mode = {modeAbs, modeAbs, modeAbs, modeAbs}};
    const sensorData_t sensors = {{0.0f, 0.0f, 0.0f}};
    const state_t state = {.attitudeQuaternion = {0.0f, 0.0f, 0.0f, 1.0f}, .position = {0.0f, 0.0f, 1.0f}};

    controllerOutOfTreeInit();
    for (stabilizerStep_t step = 0; step < 10 * PERIOD_MS; step++) {
        controllerOutOfTree(&control, &setpoint, &sensors, &state, step);
        if (step % PERIOD_MS == 0) (void)solve_once();
    }
    printf("%g %g %g %g N or N m\\n", (double)inputs[newest][0], (double)inputs[newest][1], (double)inputs[newest][2],
        (double)inputs[newest][3]);
    return control.controlMode == controlModeLegacy;
}
#endif
"""
