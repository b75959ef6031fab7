"""Real autopilots in the loop: PX4, ArduPilot and Betaflight fly Samara's vehicles through their simulator protocols, and
Crazyflie scripts fly them through the radio protocol CRTP.

Inside Samara everything is ENU and FLU; each link converts to the axes, units and field order of its protocol. Flights run in
lockstep: the link sends the sensor data of an instant, and the simulation waits for the autopilot's answer.
"""
