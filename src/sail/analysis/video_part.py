"""The videos that runs have, for the page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sail.analysis.groups import Group

KINDS = {".mp4": "video/mp4", ".webp": "image/webp", ".gif": "image/gif"}
MOST_BYTES = 8_000_000
"""Of one video inside a page; larger ones are left where they are."""


def inline(path: Path) -> str | None:
    """A video as part of the page itself."""
    try:
        content = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError:
        return None
    return None if content is None else f"data:{KINDS[path.suffix]};base64,{base64.b64encode(content).decode()}"


def video_part(groups: Sequence[Group], source: Callable[[Path], str | None] = inline) -> list[dict[str, Any]]:
    """A part with every video for which `source` gives an address; none where there are none."""
    items, larger = [], 0
    for group in groups:
        for run in group.runs:
            for path in run.videos:
                address = source(path)
                larger += address is None
                if address is not None:
                    kind = "video" if path.suffix == ".mp4" else "image"
                    label = f"{group.env}, {group.variant}: {path.stem}"
                    item = {"env": group.env, "agent": group.variant, "label": label, "kind": kind, "src": address}
                    items.append(item)
    if not items and not larger:
        return []
    about = "As 'sail play' recorded them into the runs' video folders, with value and bonus under the screen."
    about += f" {larger} of more than {MOST_BYTES // 10**6} MB are left where they are." if larger else ""
    return [{"kind": "videos", "id": "videos", "title": "Videos", "about": about, "items": items}]
