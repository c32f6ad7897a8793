"""Every example and every Python block of the README and the docs is run."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sail.rules

ROOT = Path(__file__).parents[1]
# extending.md has tests of its own, since its code belongs into files.
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "extending.md"})]


def run(*arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rules_alone(tmp_path: Path) -> None:
    out = run(str(ROOT / "examples/rules_alone.py"), cwd=tmp_path).splitlines()
    rows = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in out[1:]}
    # By hand: V = 1; Q(s, 1) = 0.4, Q(s, 2) = 0.7; alpha = 0.9. Lucky: 1.5 - 1. Stale: 0.4 - 1. Running: 0.7 - 1.
    assert rows["sail"] == [0.45, -0.54, -0.27]
    assert rows["al"] == [-0.54, -0.54, -0.27]
    assert rows["strsil"] == [0.45, 0.0, 0.0]
    assert rows["bellman"] == [0.0, 0.0, 0.0]


def test_ring_alone(tmp_path: Path) -> None:
    out = run(str(ROOT / "examples/ring_alone.py"), cwd=tmp_path)
    assert "[-inf -inf]" in out
    ended = re.search(r"when it ended: \[(.*)\]", out)
    assert ended and [round(float(x), 4) for x in ended[1].split()] == [0.729, 0.81, 0.9, 1.0]


def test_tabular_lab(tmp_path: Path) -> None:
    assert "SAIL" in run(str(ROOT / "examples/tabular_lab.py"), cwd=tmp_path)


def test_train_and_play(tmp_path: Path) -> None:
    out = run(str(ROOT / "examples/train_and_play.py"), "--steps", "4000", "--out", "run", cwd=tmp_path)
    assert "One greedy episode: 100 steps, return 0.00." in out  # 4,000 steps are too few to learn anything
    assert (tmp_path / "run" / "DONE").is_file()


def test_doctests() -> None:
    results = doctest.testmod(sail.rules)
    assert results.attempted >= 4 and results.failed == 0


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        if page.is_file():
            for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
                found.append((f"{page.name}-{i}", code))
    return found


@pytest.mark.parametrize("code", [code for _, code in blocks()], ids=[name for name, _ in blocks()])
def test_python_in_the_docs_runs(code: str, tmp_path: Path) -> None:
    """Long trainings are cut short: a page says what a reader would run, and this checks that it would."""
    prelude = (
        "import sail.training.api as api\n"
        "def short(*a, **k):\n    return whole(*a, **{**k, 'steps': 2000})\n"
        "whole, api.train = api.train, short\n"
    )
    file = tmp_path / "block.py"
    file.write_text(prelude + code)
    run(str(file), cwd=tmp_path)


def test_there_are_python_blocks_to_run() -> None:
    assert any(name.startswith("README") for name, _ in blocks())
