"""Everything of `samara.learn` that is written in JAX: rollouts and their gradients, PPO, and an environment."""
