"""docs/extending.md, done word for word from outside the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sail import rules
from sail.agents import names
from sail.errors import BadInputError

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()


def written_down(language: str) -> dict[str, str]:
    """The page's blocks of code, by the file that their first line names."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return {re.match(r"# (\S+)|", block)[1] or "": block for block in blocks}  # type: ignore[index]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package, as it lies on a path once it is installed, but for its entry points."""
    for name, text in written_down("python").items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "my_sail" / "__init__.py").touch()
    return tmp_path


def with_entry_points(package: Path) -> Path:
    """What pip makes of the page's pyproject.toml."""
    info = package / "my_sail-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-sail\nVersion: 1.0\n")
    toml = written_down("toml")[""]
    lines = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml).replace('"', "")
    (info / "entry_points.txt").write_text(lines)
    return package


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=package, env=environment, capture_output=True, text=True, timeout=300
    )


def test_entry_points_make_agents_of_every_combination(package: Path) -> None:
    with_entry_points(package)
    listed = run(package, "-m", "sail", "agents", "--json")
    found = {row["name"]: row for row in json.loads(listed.stdout)}
    assert {"average", "margin-average", "sail-average", "margin-iqn", "margin-full-rainbow"} <= set(found)
    assert found["margin-average"]["n_step"] == 3 and found["margin-average"]["published"] == "this page"
    assert found["margin-dqn"]["rule_says"].startswith("SAIL, but only returns that beat the expectation")

    train = ["train", "probe-chain", "--agent", "margin-average", "--steps", "3000", "--out", "run", "--json"]
    trained = run(package, "-m", "sail", *train)
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["agent"] == "margin-average"
    played = run(package, "-m", "sail", "eval", "run", "--json")
    assert json.loads(played.stdout)["mean_return"] == 1.0  # the end of the chain
    elsewhere = subprocess.run(
        [sys.executable, "-m", "sail", "eval", str(package / "run")], capture_output=True, text=True, timeout=60
    )
    assert elsewhere.returncode == 2 and "no rule 'margin'" in elsewhere.stderr


def test_a_program_can_register_them(package: Path) -> None:
    done = run(package, "program.py")
    assert done.returncode == 0, done.stderr
    assert (package / "runs").is_dir()


def test_an_entry_point_that_cannot_be_imported_is_named(package: Path) -> None:
    with_entry_points(package)
    (package / "my_sail" / "rules.py").write_text("import nothing_of_the_kind")
    refused = run(package, "-m", "sail", "train", "kdt", "--agent", "margin-dqn")
    assert refused.returncode == 2
    assert "my-sail" in refused.stderr and "nothing_of_the_kind" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_names_that_cannot_be() -> None:
    base, rule = names.BASES["dqn"], rules.RULES["sail"]
    for name, what in (("dqn", "already"), ("Mine", "small letters"), ("sail-mine", "taken for a rule"), ("", "small")):
        with pytest.raises(BadInputError, match=what):
            names.register(name, base)
    for name, what in (("sail", "already"), ("my-rule", "small letters"), ("", "small letters")):
        with pytest.raises(BadInputError, match=what):
            rules.register(name, rule)
    with pytest.raises(BadInputError, match=r"must be a sail\.Base, not a Rule"):
        names.register("mine", rule)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match=r"must be a sail\.rules\.Rule, not a Base"):
        rules.register("mine", base)  # type: ignore[arg-type]
    assert "mine" not in names.BASES and "mine" not in rules.RULES
