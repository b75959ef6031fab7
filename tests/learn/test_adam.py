"""Adam against its paper's bounds, and on a quadratic whose minimum is known."""

import jax
import jax.numpy as jnp
import numpy as np

from samara.learn.optimizer import adam, clip_norm, initial_moments


def test_first_step_is_the_rate_whatever_the_size_of_the_gradient():
    tree = np.float32([1.0, 2.0]), (np.float32(3.0),)
    gradient = np.float32([1e-3, -50.0]), (np.float32(7.0),)
    stepped, moments = jax.jit(lambda x, g: adam(x, g, initial_moments(x), 0.1))(tree, gradient)
    assert np.allclose(stepped[0], [0.9, 2.1], atol=2e-6)
    assert np.allclose(stepped[1][0], 2.9) and moments.count == 1.0


def test_it_comes_to_the_bottom_of_a_bowl():
    minimum, steepness = jnp.array([1.0, -2.0, 0.5]), jnp.array([1.0, 100.0, 0.01])

    def step(carry, _):
        return adam(carry[0], steepness * (carry[0] - minimum), carry[1], 0.02), None

    start = jnp.zeros(3)
    (end, _), _ = jax.lax.scan(step, (start, initial_moments(start)), None, length=2000)
    assert np.allclose(end, minimum, atol=1e-3)


def test_a_gradient_is_cut_to_a_length_and_keeps_its_direction():
    gradient = (np.float32([3.0]), np.float32([[4.0]]))
    clip = jax.jit(clip_norm)
    assert np.allclose([x.item() for x in clip(gradient, 1.0)], [0.6, 0.8])
    assert np.allclose([x.item() for x in clip(gradient, 9.0)], [3.0, 4.0])
