"""The torso of matrix products against XLA's convolutions: values, gradients, sizes, precisions, axes."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from sail.convolution import ConvTorso, prepare
from sail.networks import Dense

HIDDEN = 16  # the dense layer is the same at any width, and 512 of them would be most of the work
SMALL = (3, 45, 38)  # the same in many tests: most of their time is compiling


@functools.cache
def make_torso(shape: tuple[int, int, int], padding: str, seed: int = 0, **options) -> ConvTorso:
    # Fresh biases are zero, and a torso without any would look the same.
    torso = ConvTorso(shape, padding, jax.random.key(seed), **{"hidden": HIDDEN, **options})
    return jax.tree.map(lambda x: jnp.array(np.linspace(-0.1, 0.2, x.size), x.dtype) if x.ndim == 1 else x, torso)


def make_images(*shape: int, seed: int = 0):
    return jnp.array(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


@jax.jit
def reference(torso: ConvTorso, images):
    """Uint8 [N, C, H, W] to features, with XLA's convolutions."""
    x = images.astype(jnp.float32) / 255
    for layer, stride in zip(torso.layers, (4, 2, 1), strict=True):
        x = lax.conv_general_dilated(
            x,
            layer.weight,
            (stride, stride),
            {"nature": "VALID", "dopamine": "SAME"}[torso.padding],
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        x = jax.nn.relu(x + layer.bias[:, None, None])
    x = x.transpose(0, 2, 3, 1).reshape(x.shape[0], -1)  # flattened as Dopamine does it: channels innermost
    return jax.nn.relu(x @ torso.dense.weight + torso.dense.bias)


@jax.jit
def evaluate(torso: ConvTorso, images):
    return torso(prepare(images, torso.padding))


@functools.partial(jax.jit, static_argnums=0)
def value_and_gradient(function, torso: ConvTorso, images):
    """Features, and the gradient of a weighted sum of them: a plain sum would hide features that were swapped."""

    def weighted(torso):
        features = function(torso, images)
        return (features * jnp.cos(jnp.arange(features.size)).reshape(features.shape)).sum(), features

    (_, features), gradient = jax.value_and_grad(weighted, has_aux=True)(torso)
    return features, gradient


def numpy_leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def assert_close(actual, expected, tolerance: float) -> None:
    """Equal to a fraction of the largest entry: a sum of thousands of terms is no more exact than that."""
    for one, other in zip(numpy_leaves(actual), numpy_leaves(expected), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype == np.float32
        scale = np.abs(other).max()
        assert scale > 0
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("shape", "padding"),
    [
        ((4, 84, 84), "nature"),
        (SMALL, "nature"),
        ((4, 84, 84), "dopamine"),
        ((3, 96, 80), "dopamine"),
        ((4, 64, 64), "dopamine"),
        ((1, 45, 37), "dopamine"),
    ],
)
def test_values_and_gradients_are_those_of_convolutions(shape: tuple[int, int, int], padding: str) -> None:
    torso, images = make_torso(shape, padding), make_images(2, *shape)
    features, gradient = value_and_gradient(evaluate, torso, images)
    expected, expected_gradient = value_and_gradient(reference, torso, images)
    assert (np.asarray(expected) == 0).any() and (np.asarray(expected) > 0).any()  # the last ReLU has something to do
    assert_close(features, expected, 1e-5)
    assert_close(gradient, expected_gradient, 1e-4)


@settings(max_examples=3, deadline=None)
@given(st.integers(1, 5), st.integers(1, 60), st.integers(1, 60), st.sampled_from(["nature", "dopamine"]))
def test_any_image_size(channels: int, height: int, width: int, padding: str) -> None:
    if padding == "nature":
        height, width = max(36, height), max(36, width)
    torso, images = make_torso((channels, height, width), padding), make_images(2, channels, height, width)
    np.testing.assert_allclose(evaluate(torso, images), reference(torso, images), rtol=1e-4, atol=1e-5)


def test_the_smallest_image() -> None:
    torso, images = make_torso((1, 39, 36), "nature"), make_images(2, 1, 39, 36)
    assert torso.dense.weight.shape == (64, HIDDEN)  # 36 -> 8 -> 3 -> 1, and three rows that no kernel reaches
    np.testing.assert_allclose(evaluate(torso, images), reference(torso, images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 35, 84), (4, 84, 35), (1, 8, 8), (1, 1, 1)])
def test_too_small_an_image(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=f"{shape[1]}x{shape[2]} are too small .* needs 36x36"):
        make_torso(shape, "nature")
    with pytest.raises(ValueError, match="too small"):
        prepare(make_images(*shape), "nature")


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="padding 'same'"):
        make_torso((4, 84, 84), "same")
    with pytest.raises(ValueError, match="padding 'same'"):
        prepare(make_images(4, 84, 84), "same")
    with pytest.raises(ValueError, match="precision 'float16'"):
        make_torso((4, 84, 84), "nature", precision="float16")


# By hand: k * k * inputs * outputs + outputs.
CONVOLUTIONS = (64 * 4 * 32 + 32) + (16 * 32 * 64 + 64) + (9 * 64 * 64 + 64)  # 8,224 + 32,832 + 36,928
HEAD = 512 * 6 + 6


@pytest.mark.parametrize(
    ("padding", "flat", "total"),
    [
        ("nature", 7 * 7 * 64, 1_687_206),  # 84 -> 20 -> 9 -> 7
        ("dopamine", 11 * 11 * 64, 4_046_502),  # 84 -> 21 -> 11 -> 11
    ],
)
def test_the_published_networks(padding: str, flat: int, total: int) -> None:
    torso = ConvTorso((4, 84, 84), padding, jax.random.key(0))
    assert torso.dense.weight.shape == (flat, 512)
    leaves = jax.tree.leaves((torso, Dense(512, 6, jax.random.key(1))))
    assert sum(x.size for x in leaves) == CONVOLUTIONS + flat * 512 + 512 + HEAD == total
    assert all(x.dtype == jnp.float32 for x in leaves)
    assert jax.eval_shape(evaluate, torso, make_images(2, 4, 84, 84)).shape == (2, 512)


def test_weights_begin_as_glorots_uniform() -> None:
    torso = ConvTorso((4, 84, 84), "nature", jax.random.key(3))
    fans = [(64 * 4, 64 * 32), (16 * 32, 16 * 64), (9 * 64, 9 * 64)]
    for layer, fan in zip(torso.layers, fans, strict=True):
        weight, limit = np.asarray(layer.weight), math.sqrt(6 / sum(fan))
        assert np.abs(weight).max() <= limit
        assert weight.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)
        assert abs(weight.mean()) < 0.03 * limit
        assert not layer.bias.any()
    first = [np.asarray(layer.weight).ravel()[0] / np.abs(layer.weight).max() for layer in torso.layers]
    assert len(set(first)) == 3  # each layer has a key of its own


@pytest.mark.parametrize("padding", ["nature", "dopamine"])
def test_bfloat16_is_close_and_its_gradients_are_float32(padding: str) -> None:
    exact, images = make_torso((4, 84, 84), padding), make_images(2, 4, 84, 84)
    rounded = make_torso((4, 84, 84), padding, precision="bfloat16")
    expected, expected_gradient = value_and_gradient(evaluate, exact, images)
    features, gradient = value_and_gradient(evaluate, rounded, images)
    assert_close(features, expected, 0.03)
    assert not np.array_equal(features, expected)
    for one, other in zip(numpy_leaves(gradient), numpy_leaves(expected_gradient), strict=True):
        assert one.dtype == np.float32
        # XLA's convolutions in bfloat16 are as far off, 8 to 15%: some ReLUs of noise images fall on the other side.
        assert np.linalg.norm((one - other).ravel()) < 0.2 * np.linalg.norm(other.ravel())


@pytest.mark.parametrize(("backend", "same_as"), [("cpu", "float32"), ("gpu", "bfloat16"), ("tpu", "bfloat16")])
def test_auto_precision(backend: str, same_as: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    prepared = prepare(make_images(2, *SMALL), "nature")
    automatic = make_torso(SMALL, "nature", precision="auto")
    same = make_torso(SMALL, "nature", precision=same_as)
    # What would be compiled, and not `evaluate`, which is compiled once for all backends.
    assert str(jax.make_jaxpr(automatic)(prepared)) == str(jax.make_jaxpr(same)(prepared))
    assert ("bf16" in str(jax.make_jaxpr(automatic)(prepared))) == (same_as == "bfloat16")


@pytest.mark.parametrize(("padding", "precision"), [("nature", "float32"), ("dopamine", "bfloat16")])
def test_bytes_are_seen_as_their_numbers(padding: str, precision: str) -> None:
    torso, images = make_torso(SMALL, padding, precision=precision), make_images(2, *SMALL)
    floats = images.astype(jnp.float32)
    assert prepare(images, padding).dtype == jnp.uint8 and prepare(floats, padding).dtype == jnp.float32
    np.testing.assert_array_equal(prepare(images, padding), prepare(floats, padding))
    np.testing.assert_array_equal(evaluate(torso, images), evaluate(torso, floats))


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (0,)])
def test_leading_axes(leading: tuple[int, ...]) -> None:
    torso, images = make_torso(SMALL, "dopamine"), make_images(*leading, *SMALL)
    features = evaluate(torso, images)
    assert features.shape == (*leading, HIDDEN) and features.dtype == jnp.float32
    for place in np.ndindex(leading):
        alone = evaluate(torso, np.asarray(images)[place])
        np.testing.assert_allclose(np.asarray(features)[place], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_vmap_over_networks(shared: bool) -> None:
    torsos = [make_torso(SMALL, "nature", seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *torsos)
    images = make_images(2, *SMALL) if shared else make_images(3, 2, *SMALL)
    axes = (0, None if shared else 0)
    together = jax.jit(jax.vmap(functools.partial(value_and_gradient, evaluate), axes))(stacked, images)
    for i, torso in enumerate(torsos):
        alone = value_and_gradient(evaluate, torso, images if shared else images[i])
        assert_close([x[i] for x in numpy_leaves(together)], alone, 1e-4)


def test_prepared_slices_in_a_scan() -> None:
    torso, images = make_torso(SMALL, "nature"), make_images(3, 2, *SMALL)
    prepared = prepare(images, "nature")
    assert prepared.shape == (3, 2, 11, 9, 48)
    _, features = lax.scan(lambda carry, batch: (carry, torso(batch)), None, prepared)
    np.testing.assert_allclose(features, evaluate(torso, images), rtol=1e-5, atol=1e-6)


def test_only_parameters_are_leaves() -> None:
    torso = make_torso((4, 84, 84), "nature", precision="auto")
    assert len(jax.tree.leaves(torso)) == 8 and all(eqx.is_inexact_array(x) for x in jax.tree.leaves(torso))
