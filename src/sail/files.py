"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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
