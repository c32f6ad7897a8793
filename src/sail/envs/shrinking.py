"""Screens made grey and small on the device, with the bits that OpenCV's area interpolation has on a CPU.

To shrink a screen takes an emulator a good part of its time, and a GPU next to none. Each pixel of the small screen
is the mean of the pixels it covers, in part or as a whole. Sums are rounded at the same places as there, so that not
even the rare mean that lies halfway between two greys comes out otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def pooled(colours: Array, palette: Array) -> Array:
    """Two screens in colours [..., 2, H, W] to one in grey [..., H, W]: of each pixel the lighter one."""
    return palette.at[colours].get(mode="promise_in_bounds").max(axis=-3)


def shrink(screens: Array, height: int, width: int, zero: Array) -> Array:
    """[..., H, W] uint8 to [..., height, width].

    `zero` is an integer 0 that the compiler does not know to be one: see `_product`.
    """
    narrow = _weighted_sum(screens.astype(jnp.float32), *taps(screens.shape[-1], width), zero)
    small = _weighted_sum(narrow.swapaxes(-1, -2), *taps(screens.shape[-2], height), zero).swapaxes(-1, -2)
    return jnp.round(small).astype(jnp.uint8)  # a half to the even neighbour, as there


def taps(size: int, to: int) -> tuple[Any, Any]:
    """Which of `size` pixels each of `to` covers [to, most], and their weights, 0 where it covers fewer."""
    scale = size / to
    covered: list[list[tuple[int, float]]] = []
    for i in range(to):
        begin, end = i * scale, (i + 1) * scale
        cell = min(scale, size - begin)
        first, last = math.ceil(begin), min(math.floor(end), size - 1)
        first = min(first, last)
        one = [(first - 1, (first - begin) / cell)] if first - begin > 1e-3 else []
        one += [(pixel, 1.0 / cell) for pixel in range(first, last)]
        if end - last > 1e-3:
            one.append((last, min(end - last, 1.0, cell) / cell))
        covered.append(one)
    most = max(map(len, covered))
    padded = [[*one, *[(0, 0.0)] * (most - len(one))] for one in covered]
    pixels, weights = np.array(padded).transpose(2, 0, 1)
    return pixels.astype(np.int32), weights.astype(np.float32)


def _weighted_sum(values: Array, pixels: Any, weights: Any, zero: Array) -> Array:
    """Along the last axis, from left to right."""
    total = _product(values[..., pixels[:, 0]], weights[:, 0], zero)
    for k in range(1, pixels.shape[1]):
        total = total + _product(values[..., pixels[:, k]], weights[:, k], zero)
    return total


def _product(values: Array, weights: Any, zero: Array) -> Array:
    """The product, rounded to a float before it is added to anything.

    Compilers fuse a product and a sum into one operation, which rounds only once and so has other bits. The xor with a
    zero that they cannot know keeps them from it.
    """
    bits = lax.bitcast_convert_type(values * weights, jnp.int32)
    return lax.bitcast_convert_type(bits ^ zero, jnp.float32)
