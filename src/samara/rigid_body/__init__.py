"""Document 002's own API: `RigidBodyQuadrotor`, thin over `samara.physics`."""

from samara.rigid_body.quadrotor import GimbalLockWarning, RigidBodyQuadrotor

__all__ = ["GimbalLockWarning", "RigidBodyQuadrotor"]
