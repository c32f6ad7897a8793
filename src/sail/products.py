"""Products of two matrices, as a GPU likes them.

A product with few outputs and a long sum has work for few of a GPU's processors, so the sum is taken in parts, side by
side. XLA does that too, but in 2, 4, 8, ... parts only, and where they do not come out even it first copies both
matrices with zeros behind. The parts here come out even. Their gradients are products of the same kind, so on a GPU
there is no forward-mode differentiation (jvp).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

FEW_OUTPUTS = 2**16
LONG_SUM = 1024
SHORTEST_PART = 128
MOST_PARTS = 32
EVEN = 8
"""Numbers that are read at once, at 16 bits."""


def product(a: Array, b: Array, i: int, j: int) -> Array:
    """The sum over axis `i` of one matrix and axis `j` of the other, which are as long: [a's other axis, b's]."""
    return (_product if jax.default_backend() == "gpu" else _at_once)(a, b, i, j)


def parts(length: int) -> int:
    """Into how many equal parts a long sum is divided."""
    fitting = (n for n in range(2, MOST_PARTS + 1) if length % (EVEN * n) == 0 and length // n >= SHORTEST_PART)
    return max(fitting, default=1)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(a: Array, b: Array, i: int, j: int) -> Array:
    length, outputs = a.shape[i], a.shape[1 - i] * b.shape[1 - j]
    number = parts(length) if length >= LONG_SUM and outputs <= FEW_OUTPUTS else 1
    if number == 1:
        return _at_once(a, b, i, j)
    a, b = (x.reshape(*x.shape[:axis], number, length // number, *x.shape[axis + 1 :]) for x, axis in ((a, i), (b, j)))
    dimensions = (((i + 1,), (j + 1,)), ((i,), (j,)))
    sums = lax.dot_general(a, b, dimensions, preferred_element_type=jnp.promote_types(a.dtype, jnp.float32))
    return sums.sum(0).astype(a.dtype)


def _at_once(a: Array, b: Array, i: int, j: int) -> Array:
    return lax.dot_general(a, b, (((i,), (j,)), ((), ())))


def _forward(a: Array, b: Array, i: int, j: int) -> tuple[Array, Any]:
    return _product(a, b, i, j), (a, b)


def _backward(i: int, j: int, factors: Any, gradient: Array) -> tuple[Array, Array]:
    """Products again, whose sums may be long or short; the outputs in the order of the factors' axes."""
    a, b = factors
    of_a = _product(gradient, b, 1, 1 - j) if i == 1 else _product(b, gradient, 1 - j, 1)
    of_b = _product(a, gradient, 1 - i, 0) if j == 0 else _product(gradient, a, 0, 1 - i)
    return of_a, of_b


_product.defvjp(_forward, _backward)
