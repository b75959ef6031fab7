"""Which controllers the firmware has, what they are called there and here, and how often its loop calls them."""

PREFIX = "crazyflie_"
RATE = 1000.0  # [Hz] of the firmware's loop; what runs less often counts its ticks

FUNCTIONS = {
    "pid": "controllerPid",
    "mellinger": "controllerMellinger",
    "brescianini": "controllerBrescianini",
    "lee": "controllerLee",
    "indi": "controllerINDI",
}
"""By our name without the prefix, the firmware's function"""

NAMES = tuple(f"{PREFIX}{own}" for own in FUNCTIONS)
