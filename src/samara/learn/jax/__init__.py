"""The parts of `samara.learn` that are written in JAX: rollouts and their gradients, PPO, and an environment."""

from samara.core.extras import missing_extra

try:
    import jax  # noqa: F401
except ImportError as error:
    raise missing_extra("samara.learn.jax", "JAX", "jax") from error
