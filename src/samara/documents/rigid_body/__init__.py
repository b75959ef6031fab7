"""Document 002's own API: `RigidBodyQuadrotor`, thin over `samara.physics`."""

from samara.core.lazy_import import lazily as _lazily
from samara.documents.gimbal_lock import GimbalLockWarning
from samara.documents.rigid_body.quadrotor import RigidBodyQuadrotor

__all__ = ["GimbalLockWarning", "RigidBodyQuadrotor"]

__getattr__, __dir__ = _lazily(__name__, __path__)
