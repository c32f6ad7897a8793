"""What XLA is asked for beside its defaults."""

from __future__ import annotations

import warnings
from functools import lru_cache

import jax

GPU_OPTIONS = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE",
}
"""Of updates: small programs that do not need each other's results run side by side, and the loop over a block's
updates is handed to the GPU as a whole instead of turn by turn (WHILE; the others are XLA's default)."""


def update_options() -> dict[str, str] | None:
    """The options for updates on this backend, if its XLA knows them."""
    if jax.default_backend() != "gpu":
        return None
    refusal = _refusal(tuple(GPU_OPTIONS.items()))
    if refusal is None:
        return GPU_OPTIONS
    warnings.warn(
        f"This version of JAX ({jax.__version__}) does not take the options that make updates faster on a GPU, so they "
        f"run without ({refusal}).",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


@lru_cache
def _refusal(options: tuple[tuple[str, str], ...]) -> str | None:
    """What XLA says against them: options have no version, and what it does not know it refuses to compile."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=dict(options)).lower(0.0).compile()
    except jax.errors.JaxRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        return str(error).splitlines()[0]
    return None
