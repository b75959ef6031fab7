"""The firmware headers that the C of a policy includes: stand-ins with the parts that it uses, or the real ones.

If SAMARA_CRAZYFLIE_SOURCE and SAMARA_BETAFLIGHT_SOURCE lead to the sources of the real firmwares, their headers are used.
"""

import os
from pathlib import Path

CRAZYFLIE = {
    "autoconf.h": "#define CONFIG_PLATFORM_CF2 1\n#define CONFIG_ENABLE_THRUST_BAT_COMPENSATED 1\n"
    "#define CONFIG_CRAZYFLIE_LEGACY_PROPELLERS 1\n#define CONFIG_CONTROLLER_OOT 1\n",
    "app.h": "void appMain();\n",
    "platform_defaults.h": "#define THRUST_MAX 0.12f\n",
    "math3d.h": """#include <math.h>
struct vec { float x, y, z; };
struct quat { float x, y, z, w; };
static inline float degrees(float angle) { return 180.0f / (float)M_PI * angle; }
static inline struct quat mkquat(float x, float y, float z, float w) { struct quat q = {x, y, z, w}; return q; }
static inline struct vec quat2rpy(struct quat q) {
    struct vec rpy = {0.0f, 0.0f, atan2f(2.0f * (q.w * q.z + q.x * q.y), 1.0f - 2.0f * (q.y * q.y + q.z * q.z))};
    return rpy;
}
""",
    "controller.h": """#pragma once
#include <stdbool.h>
#include <stdint.h>
typedef struct { float x, y, z; } point_t;
typedef struct { float x, y, z, w; } quaternion_t;
typedef struct { float roll, pitch, yaw; } attitude_t;
typedef struct { point_t gyro; } sensorData_t;
typedef struct { attitude_t attitude; quaternion_t attitudeQuaternion; point_t position, velocity; } state_t;
typedef enum { controlModeLegacy, controlModeForceTorque, controlModeForce } control_mode_t;
typedef struct { float normalizedForces[4]; control_mode_t controlMode; } control_t;
typedef enum { modeDisable, modeAbs, modeVelocity } stab_mode_t;
typedef struct { stab_mode_t x, y, z, roll, pitch, yaw, quat; } setpoint_mode_t;
typedef struct {
    attitude_t attitude; quaternion_t attitudeQuaternion; point_t position, velocity, acceleration, jerk;
    setpoint_mode_t mode;
} setpoint_t;
typedef uint32_t stabilizerStep_t;
void controllerOutOfTreeInit(void);
bool controllerOutOfTreeTest(void);
void controllerOutOfTree(control_t *, const setpoint_t *, const sensorData_t *, const state_t *, const stabilizerStep_t);
""",
}
BETAFLIGHT = {
    "platform.h": """#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint32_t timeUs_t;
typedef int32_t timeDelta_t;
typedef struct { float x, y, z; } vector3_t;
typedef struct { float w, x, y, z; } quaternion_t;
typedef struct {
    vector3_t position, velocity; float trustXY, trustZ; bool isValidXY, isValidZ;
} positionEstimate3d_t;
typedef struct { float gyroADCf[3]; } gyro_t;
enum { X, Y, Z };
enum { ARMED = 1 };
enum { PWM_RANGE_MIN = 1000, PWM_RANGE_MAX = 2000 };
extern uint8_t armingFlags;
extern gyro_t gyro;
extern quaternion_t imuAttitudeQuaternion;
extern float motor[8];
#define ARMING_FLAG(mask) (armingFlags & (mask))
static inline timeDelta_t cmpTimeUs(timeUs_t a, timeUs_t b) { return (timeDelta_t)(a - b); }
static inline float constrainf(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
const positionEstimate3d_t *positionEstimatorGetEstimate(void);
float motorConvertFromExternal(uint16_t externalValue);
float getMotorOutputLow(void);
float getMotorOutputHigh(void);
""",
} | dict.fromkeys(
    (
        "common/maths.h",
        "common/time.h",
        "drivers/motor.h",
        "fc/runtime_config.h",
        "flight/imu.h",
        "flight/mixer.h",
        "flight/position_estimator.h",
        "rx/rx.h",
        "sensors/gyro.h",
    ),
    '#include "platform.h"\n',
)
_MODULES = "src/modules/interface"
FOLDERS = {
    "CRAZYFLIE": (
        *(_MODULES, f"{_MODULES}/controller", f"{_MODULES}/kalman_core", "src/config", "src/hal/interface"),
        *("src/platform/interface", "src/utils/interface", "src/utils/interface/lighthouse"),
    ),
    "BETAFLIGHT": (
        *("src/main", "src/main/target", "src/platform/SIMULATOR", "src/platform/SIMULATOR/include"),
        *("src/platform/SIMULATOR/target/SITL", "src/platform/common/include"),
    ),
}


def real_header_options(firmware: str) -> tuple[str, ...]:
    """Return the compiler options for the headers of the real firmware; empty if its source is not available."""
    source = os.environ.get(f"SAMARA_{firmware}_SOURCE")
    return tuple(f"-isystem{Path(source) / directory}" for directory in FOLDERS[firmware]) if source else ()


def write_headers(headers: dict[str, str], folder: Path) -> str:
    """Write the stand-ins into the folder; return the compiler option for them."""
    for name, text in headers.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"-I{folder}"
