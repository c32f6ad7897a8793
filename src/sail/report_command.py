"""`sail report` and `sail watch`: run folders to a page, tables and figures, once or live."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from sail.errors import BadInputError, unknown_name
from sail.files import check_can_be_made
from sail.interrupts import stop_requests

FORMATS = ("html", "md", "csv", "png", "svg")
PAGES = (".html", ".htm", "")
"""What a page's name may end in."""


def report(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Writes the report in every format that was asked for."""
    out = Path(options.out)
    formats = _formats(options.format, out)
    check_can_be_made(out)
    for path in options.paths:
        if not Path(path).is_dir():
            raise BadInputError(f"{path} is no folder: name run folders, study folders, or folders of them.")
    from sail.analysis.report import build_report
    from sail.analysis.report_files import write_report

    found = build_report(options.paths, options.baseline, options.title)
    written = write_report(found, out, formats)
    left_out = next(part["items"] for part in found.page["parts"] if part["id"] == "left-out")
    if options.json:
        print(json.dumps({"files": [str(path) for path in written], "left_out": left_out}))
        return 0
    for line in left_out[:10]:
        print(f"Left out: {line}", file=sys.stderr)
    if len(left_out) > 10:
        print(f"... and {len(left_out) - 10} more: the report lists them all.", file=sys.stderr)
    print(found.page["subtitle"])
    for path in written:
        print(f"Wrote {path}.")
    return 0


def _formats(text: str | None, out: Path) -> list[str]:
    chosen = [name for name in (text or "html").split(",") if name]
    for name in chosen:
        if name not in FORMATS:
            raise unknown_name("format", name, FORMATS)
    if not chosen:
        raise BadInputError(f"--format must name at least one of {', '.join(FORMATS)}.")
    # Without a page, files are only named after it, and that may be the name of one of them.
    endings = PAGES if "html" in chosen else (*PAGES, *(f".{name}" for name in chosen))
    if out.suffix.lower() not in endings:
        usual = ", ".join(ending for ending in endings if ending)
        raise BadInputError(
            f"{out} is no name for {' and '.join(chosen)} (what --format says): end it in {usual}, or in nothing."
        )
    return chosen


def watch(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Serves the page, live, until it is asked to stop."""
    from sail.analysis.watch import Server, Watcher, check_folders

    watcher = Watcher(check_folders(options.paths))
    server = Server(watcher, options.port)
    watcher.start()
    try:
        with stop_requests(lambda: None) as stop:
            if options.json:
                print(json.dumps({"url": server.url, "paths": options.paths}), flush=True)
            else:
                print(f"{server.url} shows {', '.join(options.paths)}, live; Ctrl-C ends it.", flush=True)
            if options.open:
                import webbrowser

                webbrowser.open(server.url)
            while not stop.is_set():
                server.handle_request()  # one, or none within the server's timeout
    finally:
        server.server_close()
        watcher.stop()
    return 130
