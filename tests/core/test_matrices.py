"""Samara's linear algebra against LAPACK, on random matrices, tall and wide, well and badly scaled, and rank-deficient."""

import numpy as np
import pytest
from scipy.linalg import eigh, solve_discrete_are

from samara.core.portable_linalg import (
    cholesky,
    generalised_eigenvalues,
    least_squares,
    product,
    pseudoinverse,
    rank,
    solve,
    solve_riccati,
    svd,
)

RANDOM = np.random.default_rng(38)
SHAPES = [(1, 1), (4, 4), (4, 6), (6, 4), (6, 8), (3, 12), (40, 5), (16, 16)]


def random_matrix(rows: int, columns: int, full: int) -> np.ndarray:
    return RANDOM.normal(size=(rows, full)) @ RANDOM.normal(size=(full, columns))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_that_of_rows_and_columns(shape):
    a, b, c = RANDOM.normal(size=shape), RANDOM.normal(size=shape[::-1]), RANDOM.normal(size=shape[0])
    assert product(a, b, a) == pytest.approx(a @ b @ a, rel=1e-12, abs=1e-12)
    assert product(b, c) == pytest.approx(b @ c, rel=1e-12, abs=1e-12)
    assert product(c, a) == pytest.approx(c @ a, rel=1e-12, abs=1e-12)
    assert product(c, c) == pytest.approx(c @ c, rel=1e-12)
    with pytest.raises(ValueError, match="as many columns as rows"):
        product(a, np.zeros((shape[1] + 1, 2)))


@pytest.mark.parametrize("size", [1, 2, 6, 16, 40])
def test_a_solution_solves(size):
    """A x = b for any order of rows; with a zero on the diagonal too."""
    a, b = RANDOM.normal(size=(size, size)) + 3.0 * np.eye(size), RANDOM.normal(size=(size, 2))
    a = a[RANDOM.permutation(size)]
    assert solve(a, b) == pytest.approx(np.linalg.solve(a, b), rel=1e-11, abs=1e-11)
    assert solve(a, b[:, 0]) == pytest.approx(np.linalg.solve(a, b[:, 0]), rel=1e-11, abs=1e-11)
    assert np.array_equal(solve(np.eye(size)[::-1], b), b[::-1])


def test_a_singular_matrix_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        solve(np.array([[1.0, 2.0], [2.0, 4.0]]), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        cholesky(np.diag([1.0, -1.0]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_singular_values_and_what_follows_from_them(shape, lacking):
    """A = U Σ Vᵀ with UᵀU = VᵀV = 1; A⁺ and the shortest least-squares solution, of full rank and of less."""
    full = max(min(shape) - lacking, 0)
    a, b = random_matrix(*shape, full), RANDOM.normal(size=(shape[0], 3))
    u, sigma, v = svd(a)
    assert sigma == pytest.approx(np.linalg.svd(a, compute_uv=False), rel=1e-12, abs=1e-12)
    assert (u * sigma) @ v.T == pytest.approx(a, rel=1e-12, abs=1e-12)
    assert v[:, :full].T @ v[:, :full] == pytest.approx(np.eye(full), abs=1e-12)
    assert u[:, :full].T @ u[:, :full] == pytest.approx(np.eye(full), abs=1e-12)
    assert rank(a) == full == np.linalg.matrix_rank(a)
    size = 1.0 / sigma[full - 1] if full else 1.0  # of A⁺
    tight = 1e-12 * max(1.0, size * sigma[0]) * max(1.0, size)
    assert pseudoinverse(a) == pytest.approx(np.linalg.pinv(a, rcond=1e-13), abs=tight)
    assert least_squares(a, b) == pytest.approx(np.linalg.lstsq(a, b, rcond=1e-13)[0], abs=10.0 * tight)
    assert least_squares(a, b[:, 0]) == pytest.approx(np.linalg.lstsq(a, b[:, 0], rcond=1e-13)[0], abs=10.0 * tight)


def test_small_singular_values_are_ignored_on_request():
    """σ = 1 and 10⁻⁷: the second direction is rounding if the tolerance is larger."""
    a = np.diag([1.0, 1e-7])
    assert least_squares(a, np.ones(2), relative_tolerance=1e-6) == pytest.approx([1.0, 0.0], abs=1e-15)
    assert least_squares(a, np.ones(2)) == pytest.approx([1.0, 1e7], rel=1e-12)


def test_small_singular_values_are_as_accurate_as_large_ones():
    """Orthogonal columns of norms 1 to 10⁻¹²: relative error 10⁻¹⁴ each, where LAPACK has 10⁻¹⁶ of the largest."""
    orthonormal, _ = np.linalg.qr(RANDOM.normal(size=(6, 4)))
    norms = np.array([1.0, 1e-4, 1e-8, 1e-12])
    assert svd(orthonormal * norms).sigma == pytest.approx(norms, rel=1e-14)


def test_modes_are_those_of_the_pair():
    """K x = λ M x of a rank-deficient K."""
    k, m = random_matrix(6, 4, 4), RANDOM.normal(size=(6, 6))
    k, m = k @ k.T, m @ m.T + np.eye(6)
    expected = eigh(k, m, eigvals_only=True)
    assert generalised_eigenvalues(k, m) == pytest.approx(expected, abs=1e-12 * expected.max())
    lower = cholesky(m)
    assert lower @ lower.T == pytest.approx(m, rel=1e-13) and np.array_equal(lower, np.tril(lower))


@pytest.mark.parametrize("size", [1, 4, 12])
def test_the_cost_to_go_solves_riccatis_equation(size):
    """Against SciPy's, which uses the eigenvectors of a pencil; for systems that are unstable without control."""
    a, b = np.eye(size) + 0.1 * RANDOM.normal(size=(size, size)), RANDOM.normal(size=(size, 4))
    q, r = np.diag(RANDOM.uniform(0.5, 2.0, size)), np.diag(RANDOM.uniform(0.5, 2.0, 4))
    expected = solve_discrete_are(a, b, q, r)
    assert solve_riccati(a, b, q, r) == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.abs(expected).max())


def test_an_uncontrollable_unstable_system_has_no_regulator():
    with pytest.raises(np.linalg.LinAlgError, match="no solution"):
        solve_riccati(np.diag([1.1, 0.5]), np.array([[0.0], [1.0]]), np.eye(2), np.eye(1))
