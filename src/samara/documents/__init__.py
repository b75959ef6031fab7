"""Interfaces of the five source documents under their names, as thin layers over the rest of the package."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.documents import drone_physics
    from samara.documents.conventions import (
        ActuatorCommand,
        MotorMap,
        Vax,
        body_wrench,
        motor_disable_mask,
        plant_outputs,
        propulsor_duties,
        propulsor_loads,
        px4_command,
        v_air_body,
        vehicle_propulsors,
        wind_ned,
    )
    from samara.documents.engine import (
        CrazyflieParams,
        DroneEngine,
        MotorModel,
        body_to_world,
        euler_angles,
        to_ned,
        world_to_body,
    )
    from samara.documents.ilqr_names import MPC_NAMES, mpc_options
    from samara.documents.rigid_body import RigidBodyQuadrotor
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "MPC_NAMES",
    "ActuatorCommand",
    "CrazyflieParams",
    "DroneEngine",
    "MotorMap",
    "MotorModel",
    "RigidBodyQuadrotor",
    "Vax",
    "body_to_world",
    "body_wrench",
    "drone_physics",
    "euler_angles",
    "motor_disable_mask",
    "mpc_options",
    "plant_outputs",
    "propulsor_duties",
    "propulsor_loads",
    "px4_command",
    "to_ned",
    "v_air_body",
    "vehicle_propulsors",
    "wind_ned",
    "world_to_body",
]
