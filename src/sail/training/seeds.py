"""One function for one seed, run for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def map_seeds(function: Callable[[Any], Any], state: Any) -> Any:
    """`function` for every seed of a state.

    An accelerator wants all seeds at once. A CPU core wants one after the other, each in its cache: with 100 seeds
    this is 1.15 times the steps per second of vmap.
    """
    return lax.map(function, state) if jax.default_backend() == "cpu" else jax.vmap(function)(state)


def over_seeds(
    function: Callable[..., Any], num_seeds: int, num_mapped: int, *, one_by_one: bool = False
) -> Callable[..., Any]:
    """`function` with a leading axis of seeds on its first `num_mapped` arguments and on its result.

    A single seed gets no axis inside: XLA has faster programs for matrices than for stacks of one matrix. Several are
    run at once; `one_by_one` lets a CPU take turns, which copies the arguments of each, so they must not hold a ring.
    """

    def mapped(*arguments: Any) -> Any:
        own, shared = arguments[:num_mapped], arguments[num_mapped:]
        if num_seeds == 1:
            result = function(*jax.tree.map(lambda x: x[0], own), *shared)
            return jax.tree.map(lambda x: x[None], result)
        if one_by_one:
            return map_seeds(lambda own: function(*own, *shared), own)
        return jax.vmap(lambda *own: function(*own, *shared))(*own)

    return mapped


class Shares:
    """Seeds spread over devices, the same number on each.

    Where they do not come out even, the last seed is there more than once: five seeds on two cores are three on each,
    and the sixth is a repeat. That takes no longer than shares of three and two would. What became of repeats is
    dropped before anyone sees it, so nothing outside depends on the number of devices.
    """

    def __init__(self, num_seeds: int, devices: Sequence[Any] | None = None) -> None:
        devices = jax.devices() if devices is None else devices
        self.num_seeds = num_seeds
        self.each = -(-num_seeds // len(devices))
        self.devices = devices[: -(-num_seeds // self.each)]  # no more of them than finish sooner for it

    @property
    def num_places(self) -> int:
        """Seeds and repeats."""
        return self.each * len(self.devices)

    @property
    def are_even(self) -> bool:
        """Whether there are no repeats."""
        return self.num_places == self.num_seeds

    def pad(self, tree: Any) -> Any:
        """[seeds, ...] with the last one repeated: [places, ...]."""
        if self.are_even:
            return tree
        places = np.minimum(np.arange(self.num_places), self.num_seeds - 1)
        return jax.tree.map(lambda x: x[places], tree)

    def cut(self, tree: Any) -> Any:
        """[places, ...] without the repeats: [seeds, ...]."""
        return tree if self.are_even else jax.tree.map(lambda x: x[: self.num_seeds], tree)

    def fetch(self, tree: Any) -> Any:
        """The same in this machine's memory, where it does not lie on one device.

        Nothing outside may work on arrays that lie on several. Each such operation is a program in which the devices
        wait for each other, and two of these at a time, on two cores, may wait for ever.
        """
        return tree if len(self.devices) == 1 else self.cut(jax.tree.map(_fetched, tree))

    def spread(self, function: Callable[..., Any], num_shared: int) -> Callable[..., Any]:
        """The function on all devices: a share of its first argument's leading axis [places] each, the others whole."""
        if len(self.devices) == 1:
            return function
        specs, mesh = (PartitionSpec("seeds"), *[PartitionSpec()] * num_shared), self._mesh
        return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=PartitionSpec("seeds"), check_vma=False)

    def place(self, tree: Any) -> Any:
        """[places, ...] where a function that was spread leaves it: such a function would be compiled once more."""
        if len(self.devices) == 1:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec("seeds")))

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("seeds",))


def _fetched(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):  # numpy has none: back on one device
        return jax.random.wrap_key_data(jnp.asarray(np.asarray(jax.random.key_data(x))), impl=jax.random.key_impl(x))
    return np.asarray(x)
