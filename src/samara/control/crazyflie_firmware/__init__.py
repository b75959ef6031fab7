"""The Crazyflie firmware's controllers, through its Python bindings `cffirmware`, which the user builds and installs.

Each drone has a separate process that loads the module: the firmware stores integrals and filters in C globals, which two
drones in one process would share. Inputs and outputs are in the firmware's units; only `conversions` and `motors` convert them.
"""
