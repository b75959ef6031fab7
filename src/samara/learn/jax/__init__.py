"""The parts of `samara.learn` that are written in JAX: rollouts and their gradients, PPO, and an environment."""

from samara.core.lazy_import import MissingExtraError

try:
    import jax  # noqa: F401
except ImportError as error:
    raise MissingExtraError("samara.learn.jax needs JAX: pip install 'samara[jax]'") from error
