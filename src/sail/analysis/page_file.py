"""The report as one HTML file that needs nothing else: no server, no network, no fonts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"


def page_html(page: dict[str, Any]) -> str:
    """The page. Whatever a run calls itself is data in it: no name can end the script or begin a tag."""
    data = json.dumps(page, separators=(",", ":"), allow_nan=False)
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    filling = {"CSS": (PAGE / "page.css").read_text(), "DATA": data, "JS": (PAGE / "page.js").read_text()}
    template = (PAGE / "page.html").read_text()
    # One pass: what has been filled in is not looked at again.
    return re.sub(r"\{\{(CSS|DATA|JS)\}\}", lambda match: filling[match[1]], template)
