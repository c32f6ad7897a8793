"""The page in a real browser: it opens offline, filters, sorts, zooms, saves; and live, new points arrive."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from test_report import HOSTILE, write_run

from sail.analysis.page_file import page_html
from sail.analysis.report import build_report
from sail.analysis.watch import Server, Watcher
from sail.cli import main

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    one = Browser(tmp_path / "browser")
    yield one
    one.close()


def some_runs(folder: Path) -> Path:
    for game, base in (("Alien", 100.0), ("Pong", -20.0), ("Venture", 3.0), ("Frostbite", 50.0)):
        for agent, factor in (("dqn", 1.0), ("al-dqn", 1.5), ("sail-dqn", 2.0)):
            scores = {seed: [factor * base * (1 + i / 10) + seed for i in range(20)] for seed in range(3)}
            write_run(folder / game / agent, f"atari:{game}", agent, scores)
    return folder


@needs_browser
def test_the_page_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    report = build_report([some_runs(tmp_path / "runs")], reps=200)
    file = tmp_path / "report.html"
    file.write_text(page_html(report.page))
    browser.size(1200, 900)
    browser.open(file.as_uri())
    assert browser.errors == [] and [url for url in browser.requests if not url.startswith("file:")] == []
    charts = "[...document.querySelectorAll('#curves figure')]"
    assert browser.run(f"{charts}.length") == 4
    browser.run("document.getElementById('curves').scrollIntoView()")
    browser.wait(f"{charts}.every(f => f.querySelectorAll('path').length === 6)")  # a line and a band for each agent

    # Filters: by name, by group, by agent.
    browser.run("const f = document.getElementById('find'); f.value = 'ALI'; f.dispatchEvent(new Event('input'))")
    assert browser.run(f"{charts}.length") == 1
    browser.run("f.value = ''; f.dispatchEvent(new Event('input'))")
    browser.run("const g = document.getElementById('group'); g.value = 'sparse'; g.dispatchEvent(new Event('change'))")
    assert browser.run(f"{charts}.map(f => f.querySelector('figcaption span').textContent)") == ["atari:Venture"]
    browser.run("g.value = ''; g.dispatchEvent(new Event('change'))")
    heads = "[...document.querySelectorAll('#final-scores th')].map(th => th.textContent)"
    assert "al-dqn" in browser.run(heads)
    browser.run("[...document.querySelectorAll('.chip')].find(c => c.textContent === 'al-dqn').click()")
    assert "al-dqn" not in browser.run(heads) and "paper: al-dqn" in browser.run(heads)
    browser.run("[...document.querySelectorAll('.chip')].find(c => c.textContent === 'al-dqn').click()")

    # Sorting by DQN's score: once from the best, once more from the worst.
    rows = "[...document.querySelectorAll('#final-scores tbody tr')].map(tr => tr.cells[0].textContent)"
    click = "[...document.querySelectorAll('#final-scores th')].find(th => th.textContent.startsWith('dqn')).click()"
    browser.run(click)
    assert browser.run(rows) == ["atari:Alien", "atari:Frostbite", "atari:Venture", "atari:Pong"]
    browser.run(click)
    assert browser.run(rows) == ["atari:Pong", "atari:Venture", "atari:Frostbite", "atari:Alien"]

    # Zoom by dragging, and all again by double-clicking.
    browser.run("document.querySelector('#curves svg').scrollIntoView({block: 'center'})")
    browser.wait("document.querySelectorAll('#curves svg path').length > 0")
    box = browser.run(
        "(r => [r.x, r.y, r.width, r.height])(document.querySelector('#curves svg').getBoundingClientRect())"
    )
    x, y, width, height = box
    browser.mouse("mouseMoved", x + 0.5 * width, y + 0.4 * height)
    browser.wait("document.querySelector('.tip').style.display === 'block'")
    assert "sail-dqn" in browser.run("document.querySelector('.tip').textContent")
    browser.mouse("mousePressed", x + 0.4 * width, y + 0.4 * height)
    browser.mouse("mouseMoved", x + 0.7 * width, y + 0.4 * height)
    browser.mouse("mouseReleased", x + 0.7 * width, y + 0.4 * height)
    low, high = browser.run("Object.values(view.zoom)[0]")
    assert 1e6 < low < high < 20e6
    browser.run("document.querySelector('#curves svg').dispatchEvent(new MouseEvent('dblclick'))")
    assert browser.run("Object.keys(view.zoom).length") == 0

    # Downloads.
    browser.run("document.querySelector('#final-scores .head button').click()")
    browser.run("document.querySelector('#curves figcaption button:last-child').click()")
    until = time.monotonic() + 10
    while {path.name for path in browser.downloads.iterdir()} != {"final-scores.csv", "atari-Alien.svg"}:
        assert time.monotonic() < until, list(browser.downloads.iterdir())
        time.sleep(0.1)
    assert "environment,at,dqn,dqn low" in (browser.downloads / "final-scores.csv").read_text()
    assert (browser.downloads / "atari-Alien.svg").read_text().count("<path") == 6

    # Dark, and a phone: nothing is wider than the window.
    paper = "getComputedStyle(document.body).backgroundColor"
    before = browser.run(paper)
    browser.run("document.getElementById('theme').click()")
    assert {before, browser.run(paper)} == {"rgb(20, 25, 31)", "rgb(255, 255, 255)"}
    browser.size(390, 800, phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.errors == []


@needs_browser
def test_a_hostile_name_shows_as_text(tmp_path: Path, browser: Browser) -> None:
    run = write_run(tmp_path / "runs" / "x", "kdt", "dqn", {0: [1.0, 2.0]})
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("name: kdt", f"name: {json.dumps(HOSTILE)}"))
    file = tmp_path / "report.html"
    file.write_text(page_html(build_report([tmp_path / "runs"], title=HOSTILE, reps=100).page))
    browser.open(file.as_uri())
    assert browser.run("document.getElementById('title').textContent") == HOSTILE
    assert browser.run("document.querySelectorAll('img').length") == 0 and browser.errors == []


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Any]:
    folder = tmp_path / "runs"
    folder.mkdir()
    watcher = Watcher([folder])
    server = Server(watcher, 0)
    watcher.start()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server, folder
    server.shutdown()
    server.server_close()
    watcher.stop()


def get(server: Server, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)  # type: ignore[misc]
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


@needs_browser
def test_new_points_arrive_by_themselves(live: Any, browser: Browser) -> None:
    server, folder = live
    browser.open(server.url)
    assert "nothing to show yet" in browser.run("document.getElementById('subtitle').textContent")
    run = write_run(folder / "a", "kdt", "dqn", {0: [0.0]}, done=False)
    browser.wait("document.getElementById('subtitle').textContent.startsWith('1 run ')", seconds=4)
    line = {"step": 500_000, "seed": 0, "eval_return": 0.75, "seconds": 20.0}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    browser.wait("document.querySelector('#final-scores td:nth-child(3)').textContent.startsWith('0.75')", seconds=4)
    write_run(folder / "b", "kdt", "sail-dqn", {0: [1.0]})
    browser.wait("document.querySelectorAll('.chip').length === 2", seconds=4)
    (run / "config.yaml").unlink()  # a run that dies
    browser.wait("document.getElementById('left-out').textContent.includes('no config.yaml')", seconds=4)
    assert browser.errors == [] and all(url.startswith(server.url) for url in browser.requests)


def test_only_the_page_has_an_address(live: Any, tmp_path: Path) -> None:
    server, folder = live
    (tmp_path / "secret.txt").write_text("secret")
    run = write_run(folder / "a", "kdt", "dqn", {0: [0.0]})
    (run / "video").mkdir()
    (run / "video" / "play.webp").write_bytes(b"RIFF-a-video")
    until = time.monotonic() + 5
    while b'"videos"' not in get(server, "/data.json")[1]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert get(server, "/")[0] == 200 and get(server, "/video/0") == (200, b"RIFF-a-video")
    paths = [
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/secret.txt",
        "//etc/passwd",
        "/a/config.yaml",
    ]
    paths += ["/video/../../secret.txt", "/video/1", "/video/-1", "/video/0x0", "/video/", "/video/²"[:7] + "%C2%B2"]
    for path in paths:
        assert get(server, path)[0] == 404, path
    assert get(server, "/", Host="evil.example")[0] == 403
    assert get(server, "/data.json", Host="evil.example:80")[0] == 403
    version = json.loads(get(server, "/data.json")[1])["version"]
    assert get(server, "/data.json", **{"If-None-Match": version}) == (304, b"")
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.request("POST", "/", body="x")
    assert connection.getresponse().status == 501
    assert server.server_address[0] == "127.0.0.1"


def test_many_clients_and_many_runs(live: Any) -> None:
    """A thousand run folders, twenty clients: everyone is answered, with the same page."""
    server, folder = live
    for i in range(1_000):
        write_few(folder / f"{i}", i)
    until = time.monotonic() + 60
    while '"1,000 runs' not in get(server, "/data.json")[1].decode():
        assert time.monotonic() < until
        time.sleep(0.2)
    answers: list[tuple[int, bytes]] = []
    threads = [threading.Thread(target=lambda: answers.append(get(server, "/data.json"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [status for status, _ in answers] == [200] * 20 and len({body for _, body in answers}) == 1


CONFIG = "env: {name: 'atari:%s'}\nagent: {base: dqn}\nrule: {name: %s}\nseed: %d\n"


def write_few(folder: Path, i: int) -> None:
    """A run folder with as little as there can be."""
    folder.mkdir()
    game, rule = f"Game{i // 20}", ("bellman", "al", "sail", "strsil")[i % 4]
    (folder / "config.yaml").write_text(CONFIG % (game, rule, i % 20 // 4))
    rows = ({"step": 250_000 * k, "seed": i % 20 // 4, "train_return": float(k * i)} for k in range(1, 11))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_watch_says_what_is_wrong(tmp_path: Path, live: Any, capsys: Any) -> None:
    assert main(["watch", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--port", str(live[0].server_address[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--port", "99999"]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_says_where_as_json_and_ends_in_order(tmp_path: Path, number: int) -> None:
    write_few(tmp_path / "run", 0)
    command = [sys.executable, "-m", "sail", "watch", str(tmp_path), "--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told == {"url": told["url"], "paths": [str(tmp_path)]}
            with urllib.request.urlopen(told["url"] + "data.json", timeout=10) as answer:
                assert json.loads(gzip.decompress(answer.read()))["live"]
            process.send_signal(number)
            assert process.communicate(timeout=20) == ("", "") and process.returncode == 130
        finally:
            process.kill()
