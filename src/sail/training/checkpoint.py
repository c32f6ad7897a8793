"""Checkpoints: `checkpoints/STEP/{state.safetensors, meta.json}`, whole or not there at all, and never code.

A checkpoint is written to a temporary folder, flushed to the disk and renamed, so a kill at any moment leaves the ones
before it as they were. One of the same step is replaced where a run was stopped and goes on: it steps aside until the
new one is in its place, and counts for as long as nothing is. `meta.json` carries the digest of the state, so that a
damaged one is known for what it is.

One process writes, and others may read meanwhile: they change nothing, and look again where they were overtaken.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sail.errors import BadInputError
from sail.training.checkpoint_list import ASIDE, WRITING, folders, step_name
from sail.training.checkpoint_list import list_checkpoints as list_checkpoints
from sail.training.checkpoint_list import step_of as step_of

SCHEMA = 1
State = TypeVar("State")


class DamagedCheckpointError(Exception):
    """This checkpoint cannot be used; an older one may."""


class NoCheckpointError(BadInputError):
    """None of a run's checkpoints can be used."""


def save_checkpoint(folder: Path, step: int, state: Any, meta: dict[str, Any], keep: int) -> None:
    """Writes a checkpoint for `step`, then removes all but the `keep` newest up to there.

    Later ones go as well: they are damaged, or the run would not have been resumed from one before them.
    """
    name = f"{step:012d}"
    final, temporary, aside = folder / name, folder / f"{WRITING}{name}", folder / f"{ASIDE}{name}"
    _tidy(folder)
    temporary.mkdir(parents=True)
    content = save({name: _to_numpy(leaf) for name, leaf in _named_leaves(state)})
    _write(temporary / "state.safetensors", content)
    meta = {"schema": SCHEMA, "step": step, "sha256": hashlib.sha256(content).hexdigest(), **meta}
    _write(temporary / "meta.json", json.dumps(meta, indent=1).encode())
    if final.exists():  # written when the run was stopped here, or before it was resumed from an older one
        os.rename(final, aside)
    os.rename(temporary, final)
    _sync_folder(folder)
    there = list_checkpoints(folder)
    so_far = [path for path in there if step_of(path) <= step]
    for old in (aside, *there[len(so_far) :], *so_far[:-keep]):
        shutil.rmtree(old, ignore_errors=True)


def _tidy(folder: Path) -> None:
    """Half a checkpoint that a kill has left goes; one that was aside comes back, if nothing is in its place."""
    for half in folder.glob(f"{WRITING}*"):
        shutil.rmtree(half, ignore_errors=True)
    for aside in folder.glob(f"{ASIDE}*"):
        final = folder / step_name(aside.name)
        if final.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            os.rename(aside, final)


def load_newest(folder: Path, like: State) -> tuple[State, dict[str, Any], list[str]]:
    """The newest usable checkpoint, shaped like `like`; its meta data; and a sentence for each one passed over."""
    passed_over: list[str] = []
    before = folders(folder)
    for path in reversed(list_checkpoints(folder)):
        try:
            state, meta = _load(path, like)
            return state, meta, passed_over
        except DamagedCheckpointError as error:
            if folders(folder) != before:  # not damaged, but replaced or removed while it was read
                return load_newest(folder, like)
            name = step_name(path.name)
            passed_over.append(f"Checkpoint {name} is damaged ({error}): falling back to the one before it.")
    found = f"all {len(passed_over)} in it are damaged" if passed_over else "it holds none"
    raise NoCheckpointError(f"There is no usable checkpoint in {folder}: {found}; start the run anew.")


def _load(path: Path, like: State) -> tuple[State, dict[str, Any]]:
    try:
        meta: dict[str, Any] = json.loads((path / "meta.json").read_text())
        content = (path / "state.safetensors").read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
        raise DamagedCheckpointError(f"cannot be read: {error}") from None
    if not isinstance(meta, dict) or not isinstance(meta.get("step"), int):
        raise DamagedCheckpointError("meta.json is not what sail writes")
    if meta.get("schema") != SCHEMA:
        raise BadInputError(
            f"{path} has checkpoint schema {meta.get('schema')}, and this version of sail reads {SCHEMA}."
        )
    if hashlib.sha256(content).hexdigest() != meta.get("sha256"):
        raise DamagedCheckpointError("its state is not the one that was written")
    try:
        arrays = load(content)
    except SafetensorError as error:
        raise DamagedCheckpointError(str(error)) from None
    return _restore(arrays, like, path), meta


def _restore(arrays: dict[str, Any], like: State, path: Path) -> State:
    misfit = f"{path} does not fit its config.yaml, or another version of sail has written it:"
    expected = dict(_named_leaves(like))
    if arrays.keys() != expected.keys():
        odd = sorted(arrays.keys() ^ expected.keys())[0]
        raise BadInputError(f"{misfit} '{odd}' is {'not known' if odd in arrays else 'missing'}.")
    leaves = []
    for name, leaf in expected.items():
        array = arrays[name]
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        shape, dtype = (array.shape[:-1], np.dtype(np.uint32)) if is_key else (array.shape, leaf.dtype)
        if shape != leaf.shape or array.dtype != dtype:
            raise BadInputError(
                f"{misfit} '{name}' is {array.dtype}{list(shape)}, and should be {dtype}{list(leaf.shape)}."
            )
        leaves.append(jax.random.wrap_key_data(array) if is_key else jnp.asarray(array))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in leaves]


def _to_numpy(leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf, order="C")


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
