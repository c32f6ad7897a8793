"""`sail watch`: the report's page, live. A small read-only web server for this machine alone."""

from __future__ import annotations

import gzip
import json
import re
import secrets
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sail.analysis.page_file import page_html
from sail.analysis.report import Memo, report_of
from sail.analysis.runs import Known, read_runs
from sail.analysis.video_part import KINDS
from sail.errors import BadInputError

REPS = 500
"""Resamples of a live interval: it is made anew every second or so."""
PERIOD = 0.5
"""Seconds between two looks at the folders; longer where a look takes long."""


class Watcher:
    """Looks at folders in a thread of its own and keeps the newest page; requests never wait for it."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self._known: dict[Path, Known] = {}
        self._memo = Memo()
        self._seen: Any = None
        self._prefix = secrets.token_hex(4)  # a page that was left open must not take another server's data for its own
        self._stop = threading.Event()
        self.version = 0
        self.page: dict[str, Any] = {}
        self.data = b""
        self.videos: list[Path] = []
        self.look()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._stop.set()
        self._thread.join(10)

    def look(self) -> bool:
        """Reads what has changed, and makes the page anew if something has."""
        runs, left_out = read_runs(self.paths, self._known)
        seen = (tuple((run.path, self._known[run.path].signature) for run in runs), tuple(left_out))
        if seen == self._seen:
            return False
        videos: list[Path] = []

        def address(path: Path) -> str:
            videos.append(path)
            return f"video/{len(videos) - 1}"

        page = report_of(runs, left_out, self.paths, None, None, REPS, address, self._memo).page
        page |= {"live": True, "version": f'"{self._prefix}-{self.version + 1}"', "made": "Live, by sail watch."}
        data = _packed(page)
        # One after the other, so that whoever sees the new version sees the new page.
        self._seen, self.page, self.data, self.videos = seen, page, data, videos
        self.version += 1
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.look()
            except Exception as error:
                # A folder that vanished while it was read, or a fault of ours: the page stays, and says so.
                self._fail(error)
            self._stop.wait(max(PERIOD - (time.monotonic() - began), 0.1))

    def _fail(self, error: Exception) -> None:
        sentence = (
            f"The folders cannot be shown as they are now ({type(error).__name__}: {error}); this is from before."
        )
        if self.page.get("subtitle") != sentence:
            self.version += 1
            self.page = {**self.page, "subtitle": sentence, "version": f'"{self._prefix}-{self.version}"'}
            self.data = _packed(self.page)
            self._seen = None


def _packed(page: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(page, separators=(",", ":"), allow_nan=False).encode(), 1)


class Server(ThreadingHTTPServer):
    """Serves a watcher's page on the loopback interface, and nothing from the disk but the videos it names."""

    daemon_threads = True
    timeout = 0.2  # of handle_request, so that whoever serves can look at something else
    request_queue_size = 128

    def __init__(self, watcher: Watcher, port: int) -> None:
        self.watcher = watcher
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInputError(f"Port {port} cannot be used: {reason}; choose another with --port.") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a browser that goes away in mid-answer is no news."""

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """The page, its data, or a video by its number; nothing else has an address here."""
        watcher = self.server.watcher
        path = self.path.partition("?")[0]
        if not self._is_local():
            self._answer(HTTPStatus.FORBIDDEN, b"sail watch is for this machine only.\n", "text/plain")
        elif path == "/":
            self._answer(HTTPStatus.OK, page_html(watcher.page).encode(), "text/html; charset=utf-8")
        elif path == "/data.json":
            version, data = watcher.page["version"], watcher.data
            if self.headers.get("If-None-Match") == version:
                self._answer(HTTPStatus.NOT_MODIFIED, b"", "application/json")
            else:
                self._answer(HTTPStatus.OK, data, "application/json", {"Content-Encoding": "gzip", "ETag": version})
        elif path.startswith("/video/"):
            self._video(path.removeprefix("/video/"), watcher.videos)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"There is nothing here.\n", "text/plain")

    do_HEAD = do_GET

    def _video(self, number: str, videos: list[Path]) -> None:
        try:
            path = videos[int(number)] if number.isascii() and number.isdigit() and len(number) < 9 else None
            content = path.read_bytes() if path is not None else None
        except (IndexError, OSError):
            path, content = None, None
        if path is None or content is None:
            self._answer(HTTPStatus.NOT_FOUND, b"There is no such video.\n", "text/plain")
            return
        wanted = re.fullmatch(r"bytes=(\d{1,15})-(\d{0,15})", self.headers.get("Range") or "")
        if wanted and int(wanted[1]) < len(content):  # some browsers play nothing else
            first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            span = {"Content-Range": f"bytes {first}-{last}/{len(content)}", "Accept-Ranges": "bytes"}
            self._answer(HTTPStatus.PARTIAL_CONTENT, content[first : last + 1], KINDS[path.suffix], span)
        else:
            self._answer(HTTPStatus.OK, content, KINDS[path.suffix], {"Accept-Ranges": "bytes"})

    def _is_local(self) -> bool:
        """Whether the browser was told this machine's own name: other sites must not look through it."""
        host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host") or ""
        return host in ("127.0.0.1", "localhost", "[::1]")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Nothing: a page asks every second."""


def check_folders(paths: Sequence[str]) -> list[Path]:
    """The folders, if they are there."""
    for path in paths:
        if not Path(path).is_dir():
            raise BadInputError(f"{path} is no folder: name run folders, study folders, or folders of them.")
    return [Path(path) for path in paths]
