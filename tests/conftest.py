"""Shared by all tests: small, fast settings for real training runs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Programs are compiled once for all tests and workers of a session, not once for each test that needs them.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="sail-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# What tests measure is not for `sail study plan`.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="sail-tests-cache-")
# Most of the tests' time is compilation. What users get, optimised programs, is what test_atari_smoke.py runs.
# XLA's newer code for fused loops takes three times as long to compile as its older code, and both workers are busy
# without threads of the compiler. XLA ignores extra options that it does not know.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    " --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
)
# Its threads wait busily for each other: with two workers on two cores a small matrix takes seconds to factorise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sail

TINY: dict[str, Any] = {
    "steps": 1600,
    "agent": {"hidden": (16,)},
    "replay": {"capacity": 1600},
    "learning": {"num_envs": 4, "starts": 200, "update_period": 4, "target_period": 200},
    "exploration": {"decay_steps": 800},
    "evaluation": {"period": 400, "episodes": 2},
    "checkpoint": {"seconds": 0},
}


def tiny_overrides(**changes: Any) -> dict[str, Any]:
    """TINY with changes; sections are merged."""
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in TINY.items()}
    for key, value in changes.items():
        merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def tiny_flags(**changes: Any) -> list[str]:
    """The same as command-line flags."""
    flags = []
    for key, value in tiny_overrides(**changes).items():
        pairs = value.items() if isinstance(value, dict) else [(None, value)]
        for name, item in pairs:
            dotted = key if name is None else f"{key}.{name}"
            text = ",".join(map(str, item)) + "," if isinstance(item, tuple) else str(item)
            flags += [f"--{dotted.replace('_', '-')}", text]
    return flags


@pytest.fixture
def train_tiny(tmp_path: Path) -> Callable[..., sail.RunFolder]:
    """Trains a tiny run into a folder of its own."""

    def train(out: str = "run", **changes: Any) -> sail.RunFolder:
        config = sail.make_config("kdt", "sail-dqn", tiny_overrides(**changes))
        return sail.train_config(config, out=tmp_path / out)

    return train


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Waits for a condition, at most so long."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on a GPU: long sums of products are divided. The number of parts of each that was traced."""
    import jax

    from sail import products

    found: list[int] = []
    parts = products.parts
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(products, "parts", lambda length: found.append(parts(length)) or found[-1])
    return found
