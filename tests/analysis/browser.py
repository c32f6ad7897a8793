"""A real browser for tests: Chromium without a window, spoken to through a pipe (the DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `errors` has what its console complained about, `requests` what it asked the network for."""

    def __init__(self, folder: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        arguments = f"--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir='{folder}/profile'"
        line = f"exec {CHROMIUM} {arguments} --remote-debugging-pipe about:blank 3<&{commands} 4>&{answers}"
        self._process = subprocess.Popen(
            ["bash", "-c", line],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._number, self._buffer, self._session = 0, b"", None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        behaviour = {"behavior": "allow", "downloadPath": str(self.downloads), "eventsEnabled": True}
        self.call("Browser.setDownloadBehavior", **behaviour)

    def call(self, method: str, **parameters: Any) -> Any:
        """Sends a command and waits for its answer; events on the way are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
        return message

    def open(self, url: str) -> None:
        """Goes to a page and waits until it has drawn itself."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelectorAll('section').length > 0")

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, code: str, seconds: float = 15.0) -> None:
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(code):
            assert time.monotonic() < until, code
            time.sleep(0.05)

    def size(self, width: int, height: int, phone: bool = False) -> None:
        """The size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def picture(self, to: Path) -> None:
        """What is to be seen now."""
        to.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A movement, press or release of the left button."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def close(self) -> None:
        """Ends it, with everything it started."""
        os.killpg(self._process.pid, 9)
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
