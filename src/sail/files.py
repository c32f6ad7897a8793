"""Files and folders that are there as a whole or not at all, and whose fault it is where they cannot be."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from sail.errors import BadInputError, SailError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when there is no room: on the disk, or for this user."""


def disk_error(sentence: str, error: OSError) -> SailError:
    """The error for what cannot be had from a disk: the machine's fault if it is full, else of whoever named it."""
    return SailError(sentence) if error.errno in FULL else BadInputError(sentence)


def check_can_be_made(path: str | os.PathLike[str]) -> Path:
    """The path, if a file can be written there: asked before the work that is to be written."""
    path = Path(path)
    try:
        if not path.is_dir() and path.absolute().parent.is_dir():
            return path
    except OSError:  # no name for a file
        pass
    raise BadInputError(f"{path} cannot be written: name a file in a folder that exists.")


def write_whole(path: Path, content: str | bytes, durable: bool = False) -> None:
    """Writes beside `path` and renames: a kill, a full disk or a reader never sees half of it.

    `durable` waits until it is on the disk. Text that UTF-8 cannot say (a folder's odd name) is escaped.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    encoded = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        with temporary.open("wb") as file:
            file.write(encoded)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # a full disk does not say where
        raise


class NewFolder:
    """A folder that is made if need be; `undo`, or a block that fails, leaves things as they were before.

    What was put into a folder that was not empty stays there, since it may stand for what was there before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._was_empty = not path.exists() or (path.is_dir() and not any(path.iterdir()))
        self._made = [one for one in (path, *path.parents) if not one.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except BaseException:
            self.undo()
            raise

    def __enter__(self) -> NewFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.undo()

    def undo(self) -> None:
        """Takes away what is in it, itself, and the folders above it that were made for it and hold nothing else."""
        if self._was_empty:
            self._clear()
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def _clear(self) -> None:
        with suppress(OSError):
            for inside in self.path.iterdir():
                if inside.is_dir() and not inside.is_symlink():
                    shutil.rmtree(inside, ignore_errors=True)
                else:
                    inside.unlink(missing_ok=True)
