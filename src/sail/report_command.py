"""`sail report` and `sail watch`: run folders to a page, tables and figures, once or live."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sail.errors import BadInputError, unknown_name
from sail.files import check_can_be_made

FORMATS = ("html", "md", "csv", "png", "svg")


def report(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Writes the report in every format that was asked for."""
    import json

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
    return chosen


def watch(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Serves the page, live, until it is interrupted."""
    from sail.analysis.watch import Server, Watcher, check_folders

    watcher = Watcher(check_folders(options.paths))
    server = Server(watcher, options.port)
    print(f"{server.url} shows {', '.join(options.paths)}, live; Ctrl-C ends it.", flush=True)
    if options.open:
        import webbrowser

        webbrowser.open(server.url)
    watcher.start()
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        return 0  # that is how one ends it
    finally:
        server.server_close()
        watcher.stop()
    return 0
