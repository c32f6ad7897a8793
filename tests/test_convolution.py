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

from sail import convolution
from sail.agents.dqn import DQN
from sail.agents.torso import Torso, torso_kind
from sail.convolution import Conv, ConvTorso, _as_convolution, _as_product, num_features, prepare
from sail.errors import BadInputError
from sail.networks import INITIALISERS

SMALL = (3, 45, 38)  # the same in many tests: most of their time is compiling


@functools.cache
def make_torso(shape: tuple[int, int, int], padding: str, seed: int = 0, **options) -> ConvTorso:
    return filled(lambda: ConvTorso(shape, padding, jax.random.key(seed), **options), seed)


def filled(make, seed: int = 0):
    """A network with numbers from numpy: drawing its own has to be compiled for every shape there is.

    Fresh biases would be zero, and a network without any would look the same.
    """
    rng = np.random.default_rng(seed)

    def numbers(x):
        if x.ndim == 1:
            return jnp.array(np.linspace(-0.1, 0.2, x.size, dtype=np.float32))
        inputs = math.prod(x.shape[1:]) if x.ndim == 4 else x.shape[0]
        return jnp.array(rng.uniform(-1, 1, x.shape).astype(np.float32) * np.float32(math.sqrt(2 / inputs)))

    return jax.tree.map(numbers, jax.eval_shape(make))


def make_images(*shape: int, seed: int = 0):
    return jnp.array(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def kernels(layer: Conv, stride: int, pixels_last: bool):
    """The weights as [outputs, inputs, k, k]."""
    outputs, n, _, _ = layer.weight.shape
    if pixels_last:
        blocks = layer.weight.reshape(outputs, n, n, -1, stride, stride).transpose(0, 3, 1, 4, 2, 5)
    else:
        blocks = layer.weight.reshape(outputs, n, n, stride, stride, -1).transpose(0, 5, 1, 3, 2, 4)
    return blocks.reshape(outputs, -1, n * stride, n * stride)


@jax.jit
def reference(torso: ConvTorso, images):
    """Uint8 [N, C, H, W] to features, with XLA's convolutions."""
    x = images.astype(jnp.float32) / 255
    for layer, stride in zip(torso.layers, (4, 2, 1), strict=True):
        x = lax.conv_general_dilated(
            x,
            kernels(layer, stride, pixels_last=stride == 4),
            (stride, stride),
            {"nature": "VALID", "dopamine": "SAME"}[torso.padding],
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        x = x + layer.bias[:, None, None]
        x = jax.nn.leaky_relu(x, torso.leak) if torso.leak else jax.nn.relu(x)
    return x.transpose(0, 2, 3, 1).reshape(x.shape[0], -1)  # flattened as Dopamine does it: channels innermost


@jax.jit
def evaluate(torso: ConvTorso, images):
    return torso(prepare(images, torso.padding))


@functools.partial(jax.jit, static_argnums=0)
def q_values(agent: DQN, network, images):
    return agent.q_values(network, agent.prepare(images))


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


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_what_a_gpu_does_with_very_many_images_is_the_same(dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.integers(0, 256, (3, 7, 6, 5), dtype=np.uint8))
    weight = jnp.asarray(rng.normal(size=(4, 2, 2, 5)), dtype)
    one, other = _as_convolution(x, weight), _as_product(x, weight)
    # By hand: the pixel at (1, 2) of the second image, and those right of it and below.
    expected = (np.asarray(x[1, 1:3, 2:4], np.float64) * np.asarray(weight, np.float64)).sum(axis=(1, 2, 3))
    for result in (one, other):
        assert result.shape == (3, 6, 5, 4) and result.dtype == dtype
        np.testing.assert_allclose(np.asarray(result[1, 1, 2], np.float64), expected, rtol=1e-2)
    np.testing.assert_allclose(np.asarray(one, np.float32), np.asarray(other, np.float32), rtol=1e-2, atol=4)


@pytest.mark.parametrize("padding", ["nature", "dopamine"])
def test_a_torso_of_xlas_convolutions(padding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torso, images = make_torso(SMALL, padding), make_images(2, *SMALL)
    called = []
    monkeypatch.setattr(convolution, "MANY", 2)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(convolution, "_as_convolution", lambda *a: called.append(1) or _as_convolution(*a))
    features = torso(prepare(images, padding))
    assert len(called) == 3
    assert_close(features, reference(torso, images), 1e-5)


@pytest.mark.parametrize(("padding", "divided"), [("nature", [25]), ("dopamine", [21])])
def test_a_gpus_products_have_the_gradients_of_convolutions(
    padding: str, divided: list[int], request: pytest.FixtureRequest
) -> None:
    """Where the first layer's weights get theirs from 8 x 400 positions in parts of 128, or 8 x 441 in parts of 168."""
    torso, images = make_torso((4, 84, 84), padding), make_images(8, 4, 84, 84)
    expected, expected_gradient = value_and_gradient(reference, torso, images)
    found = request.getfixturevalue("gpu")  # only now
    as_on_a_gpu = lambda torso, images: torso(prepare(images, torso.padding))  # noqa: E731  (compiled anew)
    features, gradient = value_and_gradient(as_on_a_gpu, torso, images)
    assert found == divided
    assert_close(features, expected, 1e-5)
    assert_close(gradient, expected_gradient, 1e-4)


def test_a_leaky_relu_is_jaxs_after_each_convolution() -> None:
    torso, images = make_torso(SMALL, "nature", leak=0.3), make_images(2, *SMALL)
    features, gradient = value_and_gradient(evaluate, torso, images)
    expected, expected_gradient = value_and_gradient(reference, torso, images)
    assert (np.asarray(expected) < 0).any() and (np.asarray(expected) > 0).any()
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
    assert evaluate(torso, images).shape == (2, 64)  # 36 -> 8 -> 3 -> 1, and three rows that no kernel reaches
    np.testing.assert_allclose(evaluate(torso, images), reference(torso, images), rtol=1e-4, atol=1e-5)


def features_of(shape: tuple[int, int, int], padding: str):
    """The features of two images, by the torso and by the reference: shapes alone, so there is nothing to compile."""
    torso = jax.eval_shape(lambda: ConvTorso(shape, padding, jax.random.key(0)))
    images = jax.ShapeDtypeStruct((2, *shape), jnp.uint8)
    return [jax.eval_shape(function, torso, images) for function in (evaluate, reference)]


@pytest.mark.parametrize(
    ("shape", "padding", "expected"),
    [
        ((4, 84, 84), "nature", 7 * 7 * 64),  # (84 - 8) / 4 + 1 = 20, (20 - 4) / 2 + 1 = 9, 9 - 3 + 1 = 7
        ((1, 36, 36), "nature", 64),  # 36 -> 8 -> 3 -> 1
        (SMALL, "nature", 2 * 1 * 64),  # 45 -> 10 -> 4 -> 2 and 38 -> 8 -> 3 -> 1
        ((4, 84, 84), "dopamine", 11 * 11 * 64),  # 84 / 4 = 21, 21 / 2 = 10.5: 11
        (SMALL, "dopamine", 6 * 5 * 64),  # 45 / 4: 12, 12 / 2 = 6; 38 / 4: 10, 10 / 2 = 5
        ((2, 1, 9), "dopamine", 1 * 2 * 64),  # 1 -> 1 -> 1 and 9 -> 3 -> 2
    ],
)
def test_the_number_of_features_by_hand(shape: tuple[int, int, int], padding: str, expected: int) -> None:
    assert num_features(shape, padding) == expected
    assert [x.shape for x in features_of(shape, padding)] == [(2, expected)] * 2


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 130), st.integers(1, 130), st.sampled_from(["nature", "dopamine"]))
def test_the_number_of_features_is_what_comes_out(channels: int, height: int, width: int, padding: str) -> None:
    if padding == "nature":
        height, width = max(36, height), max(36, width)
    shape = (channels, height, width)
    assert [x.shape for x in features_of(shape, padding)] == [(2, num_features(shape, padding))] * 2


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
    agent = DQN(Torso((4, 84, 84), padding, hidden=(512,)), 6)
    network = jax.eval_shape(agent.init, jax.random.key(0))
    hidden = network.head.advantage.hidden
    assert isinstance(network.torso, ConvTorso) and hidden.weight.shape == (flat, 512)
    leaves = jax.tree.leaves(network)
    assert sum(x.size for x in leaves) == CONVOLUTIONS + flat * 512 + 512 + HEAD == total
    assert all(x.dtype == jnp.float32 for x in leaves)
    images = make_images(2, 4, 84, 84)
    assert jax.eval_shape(functools.partial(q_values, agent), network, images).shape == (2, 6)
    assert jax.eval_shape(evaluate, network.torso, images).shape == (2, flat)


@pytest.mark.parametrize(
    ("initialiser", "limits"),
    [
        # sqrt(6 / (inputs + outputs)) with (64 * 4, 64 * 32), (16 * 32, 16 * 64), (9 * 64, 9 * 64):
        # sqrt(6 / 2304), sqrt(6 / 1536), sqrt(6 / 1152).
        ("glorot", (0.0510310, 0.0625, 0.0721688)),
        # A variance of 1 / sqrt(3) / inputs is a bound of sqrt(3 / sqrt(3) / inputs), with 256, 512 and 576 inputs:
        # sqrt(1.7320508 / 256), sqrt(1.7320508 / 512), sqrt(1.7320508 / 576).
        ("fan_in", (0.0822546, 0.0581628, 0.0548364)),
    ],
)
def test_weights_begin_uniform(initialiser: str, limits: tuple[float, ...]) -> None:
    torso = ConvTorso((4, 84, 84), "nature", jax.random.key(3), initialiser=initialiser)
    for layer, limit in zip(torso.layers, limits, strict=True):
        weight = np.asarray(layer.weight)
        # With 8,192 draws or more, the largest is below 0.995 of the limit with probability 0.995^8192 = 1e-18.
        assert 0.995 * limit < np.abs(weight).max() <= limit * (1 + 1e-5)
        assert weight.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)
        assert abs(weight.mean()) < 0.03 * limit
        assert not layer.bias.any()
    first = [np.asarray(layer.weight).ravel()[0] / np.abs(layer.weight).max() for layer in torso.layers]
    assert len(set(first)) == 3  # each layer has a key of its own


def test_glorot_is_the_initialiser_unless_told() -> None:
    unsaid, said = (ConvTorso(SMALL, "nature", jax.random.key(0), **name) for name in ({}, {"initialiser": "glorot"}))
    for one, other in zip(numpy_leaves(unsaid), numpy_leaves(said), strict=True):
        np.testing.assert_array_equal(one, other)


def test_orthogonal_weights_begin_as_orthogonal_filters() -> None:
    layer = jax.jit(lambda: Conv(3, 16, 4, 1, jax.random.key(3), "orthogonal"))()
    assert layer.weight.shape == (16, 4, 4, 3) and not layer.bias.any()
    filters = np.asarray(layer.weight, np.float64).reshape(16, -1)
    # Each has the length sqrt(2), and any two are orthogonal.
    np.testing.assert_allclose(filters @ filters.T, 2 * np.eye(16), atol=1e-5)


@pytest.mark.parametrize(("stride", "pixels_last"), [(2, True), (2, False), (1, False)])
def test_weights_are_drawn_as_kernels_and_put_into_the_order_of_the_product(stride: int, pixels_last: bool) -> None:
    """By index: what the kernel has at (i * stride + y, j * stride + x) is in the block (i, j), at (y, x)."""
    weight = np.asarray(Conv(3, 5, 4, stride, jax.random.key(0), pixels_last=pixels_last).weight)
    drawn = np.asarray(INITIALISERS["glorot"](jax.random.key(0), (4, 4, 3, 5), jnp.float32))
    assert weight.size == drawn.size == len(np.unique(drawn))
    for row, column, c, output in np.ndindex(*drawn.shape):
        (i, y), (j, x) = divmod(row, stride), divmod(column, stride)
        within = (c * stride + y) * stride + x if pixels_last else (y * stride + x) * 3 + c
        assert weight[output, i, j, within] == drawn[row, column, c, output]


@pytest.mark.parametrize("padding", ["nature", "dopamine"])
def test_bfloat16_is_close_and_its_gradients_are_float32(padding: str) -> None:
    exact, images = make_torso((4, 84, 84), padding), make_images(2, 4, 84, 84)
    rounded = make_torso((4, 84, 84), padding, precision="bfloat16")
    expected, expected_gradient = value_and_gradient(evaluate, exact, images)
    features, gradient = value_and_gradient(evaluate, rounded, images)
    assert features.dtype == jnp.bfloat16  # the head goes on with it as it is
    features = features.astype(jnp.float32)
    assert_close(features, expected, 0.03)
    assert not np.array_equal(features, expected)
    for one, other in zip(numpy_leaves(gradient), numpy_leaves(expected_gradient), strict=True):
        assert one.dtype == np.float32
        # XLA's convolutions in bfloat16 are as far off, 8 to 13%: some ReLUs of noise images fall on the other side.
        assert np.linalg.norm((one - other).ravel()) < 0.2 * np.linalg.norm(other.ravel())


@pytest.mark.parametrize(("backend", "same_as"), [("cpu", "float32"), ("gpu", "bfloat16"), ("tpu", "bfloat16")])
def test_auto_precision(backend: str, same_as: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    prepared = jax.eval_shape(lambda: prepare(make_images(2, *SMALL), "nature"))
    automatic = make_torso(SMALL, "nature", precision="auto")
    same = make_torso(SMALL, "nature", precision=same_as)
    # What would be compiled, and not `evaluate`, which is compiled once for all backends.
    assert str(jax.make_jaxpr(automatic)(prepared)) == str(jax.make_jaxpr(same)(prepared))
    assert ("bf16" in str(jax.make_jaxpr(automatic)(prepared))) == (same_as == "bfloat16")


@pytest.mark.parametrize(("padding", "precision"), [("nature", "float32"), ("dopamine", "bfloat16")])
def test_bytes_are_seen_as_their_numbers(padding: str, precision: str) -> None:
    torso, images = make_torso(SMALL, padding, precision=precision), make_images(2, *SMALL)
    floats = np.asarray(images, np.float32)
    prepared, prepared_floats = (jax.jit(prepare, static_argnums=1)(x, padding) for x in (images, floats))
    assert prepared.dtype == jnp.uint8 and prepared_floats.dtype == jnp.float32
    np.testing.assert_array_equal(prepared, prepared_floats)
    np.testing.assert_array_equal(evaluate(torso, images), evaluate(torso, floats))


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (0,)])
def test_leading_axes(leading: tuple[int, ...]) -> None:
    torso, images = make_torso(SMALL, "dopamine"), make_images(*leading, *SMALL)
    features = evaluate(torso, images)
    assert features.shape == (*leading, num_features(SMALL, "dopamine")) and features.dtype == jnp.float32
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
    prepared = jax.jit(prepare, static_argnums=1)(images, "nature")
    assert prepared.shape == (3, 2, 11, 9, 48)
    _, features = lax.scan(lambda carry, batch: (carry, torso(batch)), None, prepared)
    np.testing.assert_allclose(features, evaluate(torso, images), rtol=1e-5, atol=1e-6)


# The dense layers after the convolutions: all but the last are the torso's, and the last is the head's.


@pytest.mark.parametrize(("padding", "hidden"), [("dopamine", (16,)), ("nature", (24, 20, 16))])
def test_q_values_are_those_of_convolutions_and_dense_layers(padding: str, hidden: tuple[int, ...]) -> None:
    agent = DQN(Torso(SMALL, padding, hidden=hidden), 5)
    network, images = filled(lambda: agent.init(jax.random.key(0))), make_images(2, *SMALL)
    seen = network.torso if len(hidden) == 1 else network.torso.first
    between = () if len(hidden) == 1 else network.torso.second.layers
    stream = network.head.advantage
    assert [layer.weight.shape[1] for layer in (*between, stream.hidden)] == list(hidden)

    x = np.asarray(reference(seen, images), np.float64)
    for layer in (*between, stream.hidden):
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64), 0)
        assert (x == 0).any() and (x > 0).any()
    expected = x @ np.asarray(stream.out.weight, np.float64) + np.asarray(stream.out.bias, np.float64)
    result = q_values(agent, network, images)
    assert result.shape == (2, 5) and result.dtype == jnp.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_q_values_in_bfloat16_are_close_and_come_in_float32() -> None:
    images, q = make_images(2, *SMALL), {}
    for precision in ("float32", "bfloat16"):
        agent = DQN(Torso(SMALL, "nature", hidden=(24, 16), precision=precision), 5)
        network = filled(lambda agent=agent: agent.init(jax.random.key(0)))
        assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(network))
        # The torso's own dense layer is in bfloat16 as well.
        assert jax.eval_shape(lambda x, torso=network.torso: torso(prepare(x, "nature")), images).dtype == precision
        q[precision] = q_values(agent, network, images)
    assert not np.array_equal(q["bfloat16"], q["float32"])
    assert_close(q["bfloat16"], q["float32"], 0.03)


@pytest.mark.parametrize("kind", ["nature", "dopamine", "mlp"])
@pytest.mark.parametrize("hidden", [(16,), (24, 16), (24, 20, 16)])
def test_the_torso_knows_what_comes_out_before_the_last_hidden_layer(kind: str, hidden: tuple[int, ...]) -> None:
    torso = Torso(SMALL, kind, hidden=hidden)
    features = jax.eval_shape(lambda: torso.init(jax.random.key(0))(torso.prepare(make_images(2, *SMALL))))
    assert features.shape == (2, torso.num_features)
    if len(hidden) > 1:
        assert torso.num_features == hidden[-2]


@pytest.mark.parametrize(
    ("network", "shape", "dtype", "kind"),
    [
        ("auto", (84, 84), np.uint8, "nature"),
        ("auto", (4, 36, 36), np.uint8, "nature"),
        ("auto", (35, 84), np.uint8, "mlp"),
        ("auto", (84, 84), np.float32, "mlp"),
        ("auto", (105,), np.uint8, "mlp"),
        ("mlp", (84, 84), np.float32, "mlp"),
        ("dopamine", (10, 10), np.uint8, "dopamine"),
    ],
)
def test_which_torso(network: str, shape: tuple[int, ...], dtype: type, kind: str) -> None:
    assert torso_kind(network, shape, dtype) == kind


@pytest.mark.parametrize("network", ["nature", "dopamine"])
def test_images_that_are_no_bytes_are_refused(network: str) -> None:
    """A convolution divides by 255: images between 0 and 1 would be black."""
    with pytest.raises(BadInputError, match=f"The {network} network is for images of bytes .* float32: use agent"):
        torso_kind(network, (84, 84), np.float32)


def test_the_torso_passes_its_initialiser_on() -> None:
    torso = Torso(SMALL, "nature", hidden=(30, 20, 16)).init(jax.random.key(0), "fan_in")
    # 8 * 8 * 3, 4 * 4 * 32 and 3 * 3 * 64 inputs; then 2 * 1 * 64, and 30.
    layers = (*torso.first.layers, *torso.second.layers)
    for layer, inputs in zip(layers, (192, 512, 576, 128, 30), strict=True):
        limit = math.sqrt(math.sqrt(3) / inputs)
        assert 0.98 * limit < np.abs(layer.weight).max() <= limit * (1 + 1e-5)


def test_only_parameters_are_leaves() -> None:
    torso = make_torso((4, 84, 84), "nature", precision="auto")
    assert len(jax.tree.leaves(torso)) == 6 and all(eqx.is_inexact_array(x) for x in jax.tree.leaves(torso))
