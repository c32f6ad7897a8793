"""MP4 files, by the ffmpeg that comes with imageio-ffmpeg. What ffmpeg says is kept, to be said where it fails."""

from __future__ import annotations

import importlib
import os
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

from sail.files import FULL


def find_ffmpeg() -> Any:
    """imageio_ffmpeg, or None where it or its program is missing."""
    try:
        module = importlib.import_module("imageio_ffmpeg")
        module.get_ffmpeg_exe()
    except (ImportError, RuntimeError, OSError):
        return None
    return module


def write_mp4(path: Path, frames: Iterable[Any], number: int, size: tuple[int, int], frames_per_second: float) -> None:
    """H.264 as every browser plays it, with the index in front so that it starts before it is all there.

    There are `number` frames, of bytes [height, width, 3], with even sides. Raises OSError with the reason.
    """
    path = path.absolute()  # ffmpeg takes what comes before a colon for a protocol, as in atari:Pong.mp4
    ffmpeg = find_ffmpeg()
    # Not by imageio_ffmpeg's own writer: that leaves the terminal to ffmpeg, which repeats what we say in five lines.
    process = subprocess.Popen(
        _command(ffmpeg.get_ffmpeg_exe(), path, size, frames_per_second),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,  # Ctrl-C is for us: an ffmpeg that ended by itself would be taken for one that failed
    )
    given, telling = process.stdin, process.stderr
    assert given is not None and telling is not None
    said: list[bytes] = []
    listener = threading.Thread(target=lambda: said.extend(telling), daemon=True)
    listener.start()
    try:
        broken = _feed(given, frames)
        code = process.wait()
    finally:
        process.kill()  # nothing, where it has ended
        process.wait()
        listener.join()
        for pipe in (given, telling):
            with suppress(OSError):  # what was not taken cannot be handed over any more
                pipe.close()
    if broken or code:
        raise OSError(_reason([line.decode(errors="replace").strip() for line in said]))
    _check_number(ffmpeg, path, number)


def _command(exe: str, path: Path, size: tuple[int, int], frames_per_second: float) -> list[str]:
    rate = str(Fraction(frames_per_second).limit_denominator())
    return [
        *(exe, "-y", "-v", "error", "-nostats"),
        *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", rate, "-i", "-", "-an"),
        *("-vcodec", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "veryfast"),
        *("-movflags", "+faststart", str(path)),
    ]


def _feed(given: IO[bytes], frames: Iterable[Any]) -> bool:
    """Hands over every frame; whether ffmpeg would not take them all."""
    try:
        for frame in frames:
            given.write(frame)
        given.close()
    except BrokenPipeError:
        return True
    return False


def _reason(said: list[str]) -> str:
    """Why ffmpeg has failed: that the disk is full, if it says so, or else the last thing that it said."""
    lines = [line for line in said if line]
    for reason in map(os.strerror, FULL):
        if any(reason in line for line in lines):
            return reason
    return lines[-1].rstrip(".") if lines else "ffmpeg ended without a reason"


def _check_number(ffmpeg: Any, path: Path, number: int) -> None:
    """A failure after the last frame, such as a full disk, is not always said by ffmpeg."""
    try:
        written = ffmpeg.count_frames_and_secs(str(path))[0]
    except RuntimeError:
        written = 0
    if written != number:
        raise OSError(f"ffmpeg wrote {written} of {number} frames")
