"""Seeds spread over devices that they do not divide by: nobody can tell from the results."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import tiny_overrides

import sail
from sail.config import make_config
from sail.training import checkpoint
from sail.training.on_device import OnDeviceProgram
from sail.training.run_folder import RunFolder
from sail.training.seeds import Shares

OVERRIDES = tiny_overrides(seeds=5, seed=3, steps=800)
ON_DEVICES = """
import sys
from conftest import tiny_overrides
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
jax.devices()
from test_seeds import run_and_resume
run_and_resume(sys.argv[2], sys.argv[3])
"""


@pytest.mark.parametrize(
    ("seeds", "devices", "each", "used", "places"),
    [
        (5, 2, 3, 2, 6),
        (5, 4, 2, 3, 6),
        (7, 4, 2, 4, 8),
        (10, 4, 3, 4, 12),
        (4, 2, 2, 2, 4),
        (3, 8, 1, 3, 3),
        (1, 2, 1, 1, 1),
    ],
)
def test_shares(seeds: int, devices: int, each: int, used: int, places: int) -> None:
    shares = Shares(seeds, list(range(devices)))
    assert (shares.each, len(shares.devices), shares.num_places) == (each, used, places)
    padded = shares.pad(np.arange(seeds))
    assert padded.tolist() == [*range(seeds), *[seeds - 1] * (places - seeds)]
    assert shares.cut(padded).tolist() == shares.fetch(padded).tolist() == list(range(seeds))


def run_and_resume(out: str, copy: str) -> None:
    """Trains with the devices that there are; resumes another run, which was stopped; and says what they hold."""
    run = sail.train_config(make_config("kdt", overrides=OVERRIDES), out=out)
    program: Any = OnDeviceProgram(run.config)
    state = program.init()
    places = {len(leaf) for leaf in jax.tree.leaves(state)}
    state, diagnostics, episodes = program.advance_arrays(state, 0, 200)
    outside = jax.tree.leaves((diagnostics, episodes, program.saved(state), program.params(state)))
    seeds = {len(leaf) for leaf in outside}
    even = Shares(4)  # seeds that come out even are no exception
    doubled, keys = jax.jit(even.spread(lambda x: (2 * x, jax.vmap(jax.random.key)(x)), num_shared=0))(np.arange(4))
    fetched, same_keys = even.fetch((doubled, keys))
    assert fetched.tolist() == [0, 2, 4, 6] and (jax.random.key_data(same_keys) == jax.random.key_data(keys)).all()
    outside += [fetched, same_keys]
    devices = {1 if isinstance(leaf, np.ndarray) else len(leaf.sharding.device_set) for leaf in outside}
    used = len(state.key.sharding.device_set)
    again: Any = OnDeviceProgram(run.config)
    restored = again.restore(program.saved(state), {}, print)
    for step in (200, 400):
        restored, *_ = again.advance_arrays(restored, step, 200)
    (advance,) = again._advance.values()
    found = {"places": sorted(places), "seeds": sorted(seeds), "used": used, "compiled": advance._cache_size()}
    found["outside on"] = sorted(devices)
    print(json.dumps(found))
    sail.resume(copy)


def content(run: Path) -> list[Any]:
    """Everything that a run leaves behind, but for the time it took."""
    folder = RunFolder(run)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in folder.metrics()]
    summary = folder.summary()
    assert summary is not None
    numbers = {
        name: summary[name] for name in ("mean_return", "std_return_over_seeds", "seeds", "steps", "solved_seeds")
    }
    newest = checkpoint.list_checkpoints(folder.checkpoints)[-1] / "state.safetensors"
    route = (run / "route.json").read_text()
    return [rows, folder.episodes(), numbers, route, hashlib.sha256(newest.read_bytes()).hexdigest()]


def test_five_seeds_on_two_devices_are_the_five_seeds_of_one(tmp_path: Path) -> None:
    def on(devices: int, name: str, stopped: str) -> dict[str, Any]:
        paths = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
        code = f"import sys; sys.path[:0] = {paths!r}\n{ON_DEVICES}"
        command = [sys.executable, "-c", code, str(devices), str(tmp_path / name), str(tmp_path / stopped)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    # A run that another number of devices goes on with: here, whatever this process has.
    for name in ("stopped on one", "stopped on two"):
        run = sail.train_config(make_config("kdt", overrides=OVERRIDES), out=tmp_path / name)
        (run.path / "DONE").unlink()
        (checkpoint.list_checkpoints(run.checkpoints)[-1] / "meta.json").unlink()  # the last phase is to be done again
    one = on(1, "one", "stopped on one")
    two = on(2, "two", "stopped on two")
    assert one == {"places": [5], "seeds": [5], "used": 1, "compiled": 1, "outside on": [1]}
    assert two == {"places": [6], "seeds": [5], "used": 2, "compiled": 1, "outside on": [1]}
    expected = content(tmp_path / "one")
    assert len(expected[0]) == 2 * 5
    for name in ("two", "stopped on one", "stopped on two"):
        assert content(tmp_path / name) == expected, name
    # What two devices have written one reads, whole.
    player = sail.load(tmp_path / "two", seed=7)
    assert {len(leaf) for leaf in jax.tree.leaves(player.program.params(player.program.init()))} <= {5}
    assert len(player.evaluate(episodes=2)["mean_return_by_seed"]) == 5
