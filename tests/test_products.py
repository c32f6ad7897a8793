"""Products in parts are products, with the same gradients, whatever the shapes, axes and precisions."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail import products
from sail.networks import Dense, NoisyDense
from sail.products import parts, product

AXES = [(0, 0), (0, 1), (1, 0), (1, 1)]


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


def test_parts_are_kept_and_added_up_at_full_precision(gpu: list[int]) -> None:
    """Seven parts of 257, which bfloat16 would have as 256, and 1792 in all; 1799 is nearest to 1800 there."""
    a = np.zeros((1568, 1), np.float32)
    a[::224], a[1::224] = 256, 1
    found = product(jnp.array(a, jnp.bfloat16), jnp.ones((1568, 1), jnp.bfloat16), 0, 0)
    assert found.dtype == jnp.bfloat16 and gpu == [7]
    assert float(found[0, 0]) == 1800


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


@pytest.mark.parametrize("backend", ["cpu", "tpu"])
def test_others_than_gpus_take_every_sum_at_once(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(products, "_product", None)
    a, b = matrices(1568, 6, 5, 1, 0)
    np.testing.assert_array_equal(product(jnp.array(a), jnp.array(b), 1, 0), jnp.array(a) @ jnp.array(b))


@pytest.mark.parametrize("layer", [Dense, NoisyDense])
@pytest.mark.parametrize("seeds", [1, 3])
def test_dense_layers_divide_their_sums_with_any_leading_axes(gpu: list[int], layer: Any, seeds: int) -> None:
    """And so they do for several seeds side by side, whose observations may be the same."""
    layers = jax.vmap(lambda key: layer(1568, 3, key))(jax.random.split(jax.random.key(0), seeds))
    x = np.random.default_rng(0).normal(size=(2, 4, 1568)).astype(np.float32)
    weights = np.cos(np.arange(24)).reshape(2, 4, 3)

    def weighted(layer: Any, x: Any) -> Any:
        return (layer(x) * weights).sum()

    gradients, of_x = jax.vmap(jax.grad(weighted, argnums=(0, 1)), in_axes=(0, None))(layers, x)
    assert set(gpu) == {7}
    for i in range(seeds):
        weight = np.asarray(layers.weight[i], float)
        np.testing.assert_allclose(
            jax.tree.map(lambda leaf, i=i: leaf[i], layers)(x), x @ weight + np.asarray(layers.bias[i]), atol=1e-4
        )
        expected = np.einsum("abi,abo->io", x, weights)
        np.testing.assert_allclose(gradients.weight[i], expected, atol=1e-5)
        np.testing.assert_allclose(gradients.bias[i], weights.sum((0, 1)), atol=1e-5)
        np.testing.assert_allclose(of_x[i], weights @ weight.T, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (5,), (2, 0, 5)])
def test_dense_layers_take_whatever_there_is(shape: tuple[int, ...]) -> None:
    layer = Dense(shape[-1], 2, jax.random.key(0)) if shape[-1] else filled_with_nothing()
    assert layer(np.ones(shape, np.float32)).shape == (*shape[:-1], 2)


def filled_with_nothing() -> Dense:
    """A layer without inputs, whose weights cannot be drawn."""
    return eqx.tree_at(lambda layer: layer.weight, Dense(1, 2, jax.random.key(0)), np.zeros((0, 2), np.float32))
