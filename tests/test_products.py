"""Products in parts are products, with the same gradients, whatever the shapes, axes and precisions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail import products
from sail.products import parts, product

AXES = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on a GPU: sums are divided. The number of parts of each product that was traced."""
    found: list[int] = []
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(products, "parts", lambda length: found.append(parts(length)) or found[-1])
    return found


def matrices(length: int, rows: int, columns: int, i: int, j: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(length)
    a, b = rng.normal(size=(length, rows)), rng.normal(size=(length, columns))
    return (a if i == 0 else a.T).astype(np.float32), (b if j == 0 else b.T).astype(np.float32)


def expected(a: Any, b: Any, i: int, j: int) -> Any:
    return np.tensordot(a.astype(float), b.astype(float), ((i,), (j,)))


# What DQN's networks sum over, at a batch of 32: positions of the images, and features. By hand: 14,112 is 28 x 504.
@pytest.mark.parametrize(
    ("length", "number"),
    [(12_800, 32), (2592, 18), (1568, 7), (3136, 14), (14_112, 28), (3872, 22), (7744, 22), (1024, 8), (1031, 1)],
)
def test_parts_of_known_sums(length: int, number: int) -> None:
    assert parts(length) == number


@given(st.integers(1, 50_000))
def test_parts_come_out_even_and_there_are_as_many_as_can_be(length: int) -> None:
    number = parts(length)

    def is_good(n: int) -> bool:
        return length % n == 0 and (length // n) % 8 == 0 and length // n >= 128

    assert number == 1 or is_good(number)
    assert number <= 32 and not any(is_good(n) for n in range(number + 1, 33))


@pytest.mark.parametrize(("i", "j"), AXES)
def test_a_product_in_parts_and_its_gradients(gpu: list[int], i: int, j: int) -> None:
    a, b = matrices(1568, 6, 5, i, j)
    weights = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32)
    value, pullback = jax.vjp(lambda a, b: product(a, b, i, j), a, b)
    np.testing.assert_allclose(value, expected(a, b, i, j), rtol=1e-4, atol=1e-3)
    assert gpu == [7]  # and the gradients' sums are short
    of_a, of_b = pullback(weights)
    assert (of_a.shape, of_b.shape) == (a.shape, b.shape) and gpu == [7]
    for gradient, other, other_axis, own_axis, its in ((of_a, b, j, i, weights.T), (of_b, a, i, j, weights)):
        rows = np.moveaxis(other.astype(float), other_axis, 0) @ its  # [summed over, own other axis]
        np.testing.assert_allclose(gradient, rows if own_axis == 0 else rows.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("i", "j"), AXES)
def test_a_gradient_in_parts(gpu: list[int], i: int, j: int) -> None:
    """Over many rows: each factor's gradient is a long sum if the other has a long axis that stays."""
    a, b = matrices(4, 2592, 3, i, j)
    weights = np.random.default_rng(1).normal(size=(2592, 3)).astype(np.float32)
    _, pullback = jax.vjp(lambda b: product(a, b, i, j), b)
    (of_b,) = pullback(weights)
    rows = np.moveaxis(a.astype(float), i, 0) @ weights
    np.testing.assert_allclose(of_b, rows if j == 0 else rows.T, rtol=1e-4, atol=1e-3)
    assert gpu == [18]


@pytest.mark.parametrize(
    ("length", "rows", "columns", "expected_parts"),
    [(1024, 256, 256, [8]), (1024, 257, 256, []), (1016, 4, 4, []), (1031, 4, 4, [1])],
    ids=["few outputs", "many outputs", "a short sum", "a prime"],
)
def test_which_products_are_divided(
    gpu: list[int], length: int, rows: int, columns: int, expected_parts: list[int]
) -> None:
    a, b = matrices(length, rows, columns, 0, 0)
    found = product(a, b, 0, 0)
    assert gpu == expected_parts
    np.testing.assert_allclose(found, expected(a, b, 0, 0), rtol=1e-4, atol=1e-3)


def test_parts_are_added_up_at_full_precision(gpu: list[int]) -> None:
    """Or bfloat16 would lose what is small: one from each of six parts beside the 512 of the first.

    Near 518 it has 516 and 520, and halfway goes to the even one, 130 x 4.
    """
    a = np.zeros((1568, 1), np.float32)
    a[::224] = 1
    a[0] = 512
    found = product(jnp.array(a, jnp.bfloat16), jnp.ones((1568, 1), jnp.bfloat16), 0, 0)
    assert found.dtype == jnp.bfloat16 and gpu == [7]
    assert float(found[0, 0]) == 520


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 3), st.integers(1, 3), st.sampled_from([256, 1024, 1568]))
def test_vmap_is_one_product_after_the_other(axes: int, number: int, length: int) -> None:
    i, j = AXES[axes]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jax, "default_backend", lambda: "gpu")
        pairs = [tuple((1 + k) * x for x in matrices(length, 3, 2, i, j)) for k in range(number)]
        a, b = (np.stack(ones) for ones in zip(*pairs, strict=True))
        together = jax.vmap(lambda a, b: product(a, b, i, j))(a, b)
        for one, (x, y) in zip(together, pairs, strict=True):
            np.testing.assert_allclose(one, product(x, y, i, j), rtol=1e-4, atol=1e-3)


def test_a_cpu_takes_every_sum_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_product", None)
    a, b = matrices(1568, 6, 5, 1, 0)
    np.testing.assert_array_equal(product(jnp.array(a), jnp.array(b), 1, 0), jnp.array(a) @ jnp.array(b))
