"""A simulated Crazyflie that speaks CRTP over UDP, so that Bitcraze's cflib and the tools built on it can fly it.

Written from the published protocol. Units and signs that differ on the wire (degrees, millimetres, a pitch that is positive
nose up) are converted here and nowhere else.
"""
