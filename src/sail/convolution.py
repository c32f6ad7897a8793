"""The convolutional torso of DQN for images, as matrix products: XLA's own convolutions are far slower in a scan.

A convolution with kernel k and stride s, where s divides k, begins with space-to-depth: every s x s block of pixels
becomes one pixel with s * s times the channels. What is left is a convolution with kernel n = k / s and stride one, and
that is one product of the n * n shifted images, side by side, with the kernels. Only for very many images on a GPU is
XLA's convolution faster at what is left.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from sail.networks import INITIALISERS
from sail.products import product

PADDINGS = ("nature", "dopamine")  # no padding (Mnih et al., 2015), and TensorFlow's SAME
PRECISIONS = ("float32", "bfloat16", "auto")
LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel, stride
MANY = 512  # images, from which on XLA's own convolution is faster on a GPU
SMALLEST = 36  # what the three layers need without padding: 36 -> 8 -> 3 -> 1


def prepare(observation: Array, padding: str) -> Array:
    """Images [..., C, H, W], uint8 or float in 0..255, to what a ConvTorso reads; the dtype stays.

    It does what does not depend on parameters: the first layer's padding, and its space-to-depth, to
    [..., rows, columns, 16 * C]. The shifted images would be four times as large, and with them written here an update
    takes about a fifth longer on a CPU than with them made in the torso.
    """
    _check_image(padding, *observation.shape[-2:])
    _, kernel, stride = LAYERS[0]
    x = _fit(observation, kernel, stride, padding, axis=-2)
    *leading, channels, height, width = x.shape
    x = x.reshape(*leading, channels, height // stride, stride, width // stride, stride)
    if x.dtype == jnp.uint8:
        # Four neighbouring bytes travel as one word: a CPU moves a word as fast as a byte.
        words = _channels_last(lax.bitcast_convert_type(x, jnp.uint32)[..., None])
        x = lax.bitcast_convert_type(words, jnp.uint8)
    else:
        x = _channels_last(x)
    return x.reshape(*leading, height // stride, width // stride, channels * stride * stride)


class Conv(eqx.Module):
    """The parameters of one convolution, in the order in which the product reads them.

    In any other order, weights and gradients would be put into this one and back at every update. Outputs come first,
    as the gradient's product gives them: on a CPU the other order is up to twice as slow.
    """

    weight: Array  # [outputs, n, n, s * s * inputs]
    bias: Array  # [outputs]

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        key: Array,
        initialiser: str = "glorot",
        pixels_last: bool = False,
    ) -> None:
        """With `pixels_last`, inputs come before the pixels of a block, as in `prepare`; otherwise after them."""
        # The layer counts as one from k * k * inputs to k * k * outputs; for fan_in only the former matters.
        matrix = INITIALISERS[initialiser](key, (kernel, kernel, inputs, outputs), jnp.float32)
        n = kernel // stride
        blocks = matrix.reshape(n, stride, n, stride, inputs, outputs)
        blocks = blocks.transpose(5, 0, 2, 4, 1, 3) if pixels_last else blocks.transpose(5, 0, 2, 1, 3, 4)
        self.weight = lax.collapse(blocks, 3)
        self.bias = jnp.zeros(outputs)


class ConvTorso(eqx.Module):
    """DQN's three convolutions, each with ReLU. Parameters are float32 at every precision."""

    layers: tuple[Conv, ...]
    padding: str = eqx.field(static=True)
    precision: str = eqx.field(static=True)  # "auto" stays so, for a network may move from one machine to another
    leak: float = eqx.field(static=True)  # slope of the ReLU below zero
    alone: bool = eqx.field(static=True)  # whether it is the only one, or one of several seeds' side by side

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        padding: str,
        key: Array,
        precision: str = "float32",
        initialiser: str = "glorot",
        leak: float = 0.0,
        alone: bool = True,
    ) -> None:
        channels, height, width = image_shape
        _check_image(padding, height, width)
        if precision not in PRECISIONS:
            raise ValueError(f"Unknown precision {precision!r}; there are {', '.join(PRECISIONS)}.")
        layers: list[Conv] = []
        for (filters, kernel, stride), layer_key in zip(LAYERS, jax.random.split(key, len(LAYERS)), strict=True):
            layers.append(Conv(channels, filters, kernel, stride, layer_key, initialiser, pixels_last=not layers))
            channels = filters
        self.layers = tuple(layers)
        self.padding, self.precision, self.leak, self.alone = padding, precision, leak, alone

    def __call__(self, prepared: Array) -> Array:
        """[..., rows, columns, 16 * C] from `prepare` to features [..., F], in the dtype they are computed in.

        On a CPU, several batches are faster one after the other (`lax.map`) than at once: the activations of one fit
        into the cache.
        """
        dtype = _compute_dtype(self.precision)
        leading = prepared.shape[:-3]
        x = prepared.reshape(-1, *prepared.shape[-3:])
        # Several seeds' would be a convolution in groups, and those are not fast.
        is_fast = self.alone and len(x) >= MANY and jax.default_backend() != "cpu"
        convolve = _as_convolution if is_fast else _as_product
        for layer, (_, kernel, stride) in zip(self.layers, LAYERS, strict=True):
            weight = layer.weight
            if layer is self.layers[0]:
                weight = weight / 255  # is to divide the pixels by it
            else:
                x = _fit(x, kernel, stride, self.padding, axis=-3)
                x = _space_to_depth(x, stride)
            x = convolve(x, weight.astype(dtype)) + layer.bias.astype(dtype)
            x = jax.nn.leaky_relu(x, self.leak) if self.leak else jax.nn.relu(x)
        return x.reshape(*leading, math.prod(x.shape[1:]))


def num_features(image_shape: tuple[int, int, int], padding: str) -> int:
    """What comes out for images [C, H, W]."""
    _, *sizes = image_shape
    for _, kernel, stride in LAYERS:
        sizes = [_outputs(size, kernel, stride, padding) for size in sizes]
    return LAYERS[-1][0] * sizes[0] * sizes[1]


def _as_product(x: Array, weight: Array) -> Array:
    """[N, h, w, c] with [outputs, n, n, c] to [N, h - n + 1, w - n + 1, outputs], as one product of two matrices."""
    x = _shifted(x, weight.shape[1]).astype(weight.dtype)
    rows = product(x.reshape(-1, x.shape[-1]), lax.collapse(weight, 1), 1, 1)
    return rows.reshape(*x.shape[:-1], weight.shape[0])


def _as_convolution(x: Array, weight: Array) -> Array:
    """The same, as XLA does it."""
    dimensions = ("NHWC", "OHWI", "NHWC")
    return lax.conv_general_dilated(x.astype(weight.dtype), weight, (1, 1), "VALID", dimension_numbers=dimensions)


def _shifted(x: Array, n: int) -> Array:
    """[N, h, w, c] to [N, h - n + 1, w - n + 1, n * n * c]: every pixel with those right of and below it."""
    height, width = x.shape[1] - n + 1, x.shape[2] - n + 1
    return jnp.concatenate([x[:, i : i + height, j : j + width] for i in range(n) for j in range(n)], axis=-1)


def _space_to_depth(x: Array, stride: int) -> Array:
    """[N, h, w, c] to [N, h / stride, w / stride, stride * stride * c]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // stride, stride, width // stride, stride, channels).swapaxes(2, 3)
    return x.reshape(batch, height // stride, width // stride, stride * stride * channels)


def _channels_last(x: Array) -> Array:
    """[..., C, rows, s, columns, t] to [..., rows, columns, C, s, t]."""
    return jnp.moveaxis(x, (-4, -2), (-5, -4))


def _outputs(size: int, kernel: int, stride: int, padding: str) -> int:
    """How many pixels a layer has after an axis of `size`."""
    return -(-size // stride) if padding == "dopamine" else (size - kernel) // stride + 1


def _fit(x: Array, kernel: int, stride: int, padding: str, axis: int) -> Array:
    """Pads or crops two axes, from `axis` on, to what the layer reads: a multiple of its stride."""
    config = [(0, 0, 0)] * x.ndim
    for one in (axis, axis + 1):
        size = x.shape[one]
        missing = (_outputs(size, kernel, stride, padding) - 1) * stride + kernel - size
        # TensorFlow's SAME has the odd pixel after the image. Without padding, what no kernel reaches is cut off there.
        before = missing // 2 if padding == "dopamine" else 0
        config[one] = (before, missing - before, 0)
    return lax.pad(x, jnp.zeros((), x.dtype), config)


def _compute_dtype(precision: str) -> jnp.dtype:
    if precision == "auto":
        precision = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    return jnp.dtype(precision)


def _check_image(padding: str, height: int, width: int) -> None:
    if padding not in PADDINGS:
        raise ValueError(f"Unknown padding {padding!r}; there are {' and '.join(PADDINGS)}.")
    if padding == "nature" and min(height, width) < SMALLEST:
        raise ValueError(
            f"Images of {height}x{width} are too small for the 'nature' torso, which needs {SMALLEST}x{SMALLEST}."
        )
