"""A controller is one function: from state and reference to a command for each motor."""

# %%
import samara
from samara.control import build_allocation, command_for_wrench
from samara.core import Vec3, rotate_inverse

vehicle = samara.vehicle("crazyflie")
weight = vehicle.mass * vehicle["gravity"].acceleration
allocation = build_allocation(vehicle)


# %% Tilt towards the reference: proportional and derivative control of position and attitude, nothing else
def tilt_and_hold(state, reference, vehicle, controller_state):
    desired_acceleration = (reference.p_W - state.p_W) * 3.0 + (reference.v_W - state.v_W) * 3.0
    collective_thrust = weight + vehicle.mass * desired_acceleration.z
    thrust_W = Vec3(desired_acceleration.x / 9.81, desired_acceleration.y / 9.81, 1.0)  # desired direction of thrust
    thrust_B = rotate_inverse(state.q_WB, thrust_W)
    angular_acceleration = Vec3(-thrust_B.y, thrust_B.x, 0.0) * 200.0 - state.omega_B * 25.0
    return command_for_wrench(collective_thrust, vehicle.inertia_B @ angular_acceleration, state, vehicle, allocation)


# %%
run = samara.fly("hover", controller=tilt_and_hold, settings={"duration": 8.0})
print(run.summary())
run.plot("own_controller.png")
assert run.tilt.max() < 0.5
