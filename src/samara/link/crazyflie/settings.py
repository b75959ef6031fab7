"""The parameters of a simulated Crazyflie, by the names its firmware gives them.

Scripts look for decks, reset the estimator and choose controllers: those numbers are kept and read back. Only `hlCommander.*`
and `stabilizer.stop` change the flight; the rest changes nothing, for neither that estimator nor those controllers are here.
"""

from samara.link.crazyflie.number import FLOAT, U8, U16, U32
from samara.link.crazyflie.parameters import Parameter

GROUP, TAKE_OFF_SPEED, LANDING_SPEED = "hlCommander.groupmask", "hlCommander.vtoff", "hlCommander.vland"
STOP, RESET_TESTER = "stabilizer.stop", "memTst.resetW"
DECKS = ("bcFlow2", "bcLighthouse4", "bcLoco", "bcMultiranger", "bcZRanger2", "bcLedRing", "bcAI", "bcBuzzer", "bcUSD")
THERE = ("bcFlow2", "bcZRanger2", "bcLedRing")
"""The decks that it says it has: it knows where it is and how high, and scripts may set its lights."""


def _floats(group: str, **values: float) -> tuple[Parameter, ...]:
    return tuple(Parameter(FLOAT, group, name, value) for name, value in values.items())


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(U8, "commander", "enHighLevel", 1),
    *_floats("hlCommander", vtoff=0.5, vland=0.5),
    Parameter(U8, "hlCommander", "groupmask", 0),
    Parameter(U8, "stabilizer", "estimator", 2),
    Parameter(U8, "stabilizer", "controller", 1),
    Parameter(U8, "stabilizer", "stop", 0),
    Parameter(U8, "kalman", "resetEstimation", 0),
    *_floats("kalman", initialX=0.0, initialY=0.0, initialZ=0.0, initialYaw=0.0),
    *(Parameter(U8, "deck", name, float(name in THERE), read_only=True) for name in DECKS),
    *(Parameter(U8, "flightmode", name, value) for name, value in
      {"althold": 0, "poshold": 0, "stabModeRoll": 1, "stabModePitch": 1, "stabModeYaw": 0}.items()),
    *_floats("pid_attitude", roll_kp=6.0, roll_ki=3.0, roll_kd=0.0, pitch_kp=6.0, pitch_ki=3.0, pitch_kd=0.0),
    *_floats("pid_attitude", yaw_kp=6.0, yaw_ki=1.0, yaw_kd=0.35),
    *_floats("posCtlPid", xVelMax=1.0, yVelMax=1.0, zVelMax=1.0),
    *_floats("locSrv", extPosStdDev=0.01, extQuatStdDev=0.0045),
    Parameter(U8, "led", "bitmask", 0),
    Parameter(U8, "ring", "effect", 6, persistent=True),
    Parameter(U32, "ring", "neffect", 18, read_only=True),
    *(Parameter(U8, "ring", name, 20) for name in ("solidRed", "solidGreen", "solidBlue")),
    Parameter(U8, "ring", "headlightEnable", 0),
    *_floats("ring", emptyCharge=3.1, fullCharge=4.2, fadeTime=0.5),
    Parameter(U32, "ring", "fadeColor", 0),
    Parameter(U8, "memTst", "resetW", 0),
    Parameter(U8, "sound", "effect", 0),
    Parameter(U8, "motorPowerSet", "enable", 0),
    *(Parameter(U16, "motorPowerSet", f"m{index}", 0) for index in (1, 2, 3, 4)),
    Parameter(U8, "system", "selftestPassed", 1, read_only=True),
    Parameter(U16, "cpu", "flash", 1024, read_only=True),
    *(Parameter(U32, "cpu", f"id{index}", 0, read_only=True) for index in range(3)),
    *(Parameter(U32, "firmware", f"revision{index}", 0, read_only=True) for index in range(2)),
)  # fmt: skip
