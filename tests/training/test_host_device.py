"""How the device's part of the host loop is compiled."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from sail.training import compiling
from sail.training.compiling import GPU_OPTIONS
from sail.training.host_device import DeviceSide

pytest.importorskip("gymnasium")

from host_training import program_of, tiny

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


def test_the_options_for_gpus_are_options() -> None:
    """As far as can be told without one: names and values are known to XLA on every device."""
    assert jax.jit(lambda x: x + 1, compiler_options=GPU_OPTIONS)(1) == 2
    for name in GPU_OPTIONS:
        with pytest.raises(jax.errors.JaxRuntimeError, match="valid"):
            jax.jit(lambda x: x + 1, compiler_options={name: "SIDE_BY_SIDE"})(1)


@pytest.mark.parametrize(("backend", "expected"), [("gpu", GPU_OPTIONS), ("cpu", None), ("tpu", None)])
def test_updates_have_options_on_a_gpu(monkeypatch: pytest.MonkeyPatch, backend: str, expected: Any) -> None:
    program = program_of(tiny("Ragged"))
    options: dict[str, Any] = {}
    jit = jax.jit

    def noticed(function: Any, **more: Any) -> Any:
        options[getattr(function, "__name__", "")] = more.get("compiler_options")
        return jit(function, **more)

    monkeypatch.setattr(jax, "jit", noticed)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    DeviceSide(program.config, program.env, program.agent)
    program.close()
    assert options["update"] == options["finish"] == expected


def test_options_that_are_refused_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of jaxlib that has renamed one: updates compile all the same, and a warning says why."""
    monkeypatch.setattr(compiling, "GPU_OPTIONS", GPU_OPTIONS | {"xla_gpu_no_such_option": "true"})
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.warns(RuntimeWarning, match=r"does not take the options.*xla_gpu_no_such_option"):
        options = compiling.update_options()
    assert options is None
    monkeypatch.setattr(compiling, "GPU_OPTIONS", {})
    assert compiling.update_options() == {}  # the next version's may be known again
