"""The rooms of the design: who may know whom, and how big a file may get."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sail"

# A room may import itself and these. TOOLS know nothing, and all may know them.
MAY_KNOW = {
    "rules": {"plugins"},
    "losses": set(),
    "tabular": set(),
    "errors": set(),
    "jsonl": set(),
    "machine": set(),
    "arguments": set(),
    "files": set(),
    "interrupts": set(),
    "games": set(),
    "wording": set(),
    "products": set(),
    "networks": {"products"},
    "replay": set(),
    "plugins": set(),
    "exploration": {"networks", "convolution"},
    "envs": set(),
    "convolution": {"networks", "products"},
    "agents": {"rules", "losses", "networks", "convolution", "plugins"},
    "settings": {"envs", "rules"},
    "presets": set(),
    "config": {"agents", "envs", "presets", "rules", "settings"},
    "settings_help": {"config"},
    "bench_store": set(),
    "training": {"bench_store", "agents", "analysis", "rules", "replay", "envs", "exploration", "config", "settings"},
    "analysis": set(),
    "agent_list": {"agents", "config", "presets", "rules"},
    "console": {"analysis", "config"},
    "draw_command": {"analysis", "envs", "training"},
    "commands": {"agent_list", "analysis", "config", "console", "draw_command", "envs", "integrations", "settings_help"}
    | {"training"},
    "integrations": {"config", "training"},
    "studies": {"agents", "bench_store", "config", "envs", "integrations", "training"},
    "study_command": {"studies"},
    "report_command": {"analysis"},
    "cli": {"commands", "draw_command", "envs", "report_command", "study_command"},
    "__init__": {"agents", "config", "envs", "replay", "rules", "tabular", "training"},
    "__main__": {"cli"},
}
TOOLS = {"arguments", "errors", "files", "games", "interrupts", "jsonl", "machine", "wording"}
# Modules that answer before jax is there: names and settings, the command line, and everything after training.
WITHOUT_JAX = [
    "sail",
    "sail.cli",
    "sail.commands",
    "sail.agent_list",
    "sail.config",
    "sail.settings_help",
    "sail.console",
    "sail.rules",
    "sail.tabular",
]
WITHOUT_JAX += ["sail.envs", "sail.agents.names", "sail.analysis.drawing", "sail.analysis.pictures"]
WITHOUT_JAX += ["sail.training.run_folder", "sail.study_command", "sail.studies.driver", "sail.studies.console"]
WITHOUT_JAX += ["sail.report_command", "sail.analysis.report", "sail.analysis.report_files", "sail.analysis.figures"]
WITHOUT_JAX += ["sail.studies.local", "sail.studies.on_ray", "sail.studies.worker"]


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sail.")}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sail":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path} imports relatively"
    return rooms - {"__version__"}


def test_every_file_belongs_to_a_known_room() -> None:
    assert {room_of(path) for path in SOURCE.rglob("*.py")} == set(MAY_KNOW)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_do_not_know_what_they_must_not(path: Path) -> None:
    room = room_of(path)
    assert imported_rooms(path) - {room} - TOOLS <= MAY_KNOW[room]


def test_the_import_reader_sees_every_form(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import sail.config\nfrom sail import rules\nfrom sail.envs.kdt import x\nimport jax\n")
    assert imported_rooms(file) == {"config", "rules", "envs"}


def test_files_fit_in_one_sitting() -> None:
    long = {str(path): n for path in SOURCE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 300}
    assert not long


def test_no_pickle_and_no_eval() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not {"pickle", "cloudpickle", "dill", "shelve", "marshal"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path


def test_what_must_answer_fast_does_not_import_jax() -> None:
    code = f"import sys, importlib\nfor m in {WITHOUT_JAX}: importlib.import_module(m)\nprint('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
