"""A controller is one function: from what is known and asked to a number for each motor."""

# %%
import samara
from samara.control.allocation import allocation_for, command_for_wrench
from samara.core.algebra import Vec3, rotate_inverse

vehicle = samara.vehicle("crazyflie")
weight = vehicle.mass * vehicle["gravity"].acceleration
rotors = allocation_for(vehicle)


# %% Lean towards where you want to go, and turn the body back upright: proportional and derivative, nothing else
def lean_and_hold(state, reference, vehicle, memory):
    wanted = (reference.p_W - state.p_W) * 3.0 + (reference.v_W - state.v_W) * 3.0
    lift = weight + vehicle.mass * wanted.z
    up_B = rotate_inverse(state.q_WB, Vec3(wanted.x / 9.81, wanted.y / 9.81, 1.0))  # where thrust should point
    turn = Vec3(-up_B.y, up_B.x, 0.0) * 200.0 - state.omega_B * 25.0
    return command_for_wrench(lift, vehicle.inertia_B @ turn, state, vehicle, rotors)


# %%
run = samara.fly("hover", controller=lean_and_hold, settings={"duration": 8.0})
print(run.summary())
run.plot("own_controller.png")
assert run.tilt.max() < 0.5
