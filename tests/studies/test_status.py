"""How far a study is, read from folders in any state."""

from __future__ import annotations

from pathlib import Path

from sail.studies.folder import open_or_create
from sail.studies.marked import Marked
from sail.studies.status import study_status


def test_broken_lines_of_metrics_are_passed_over(tmp_path: Path) -> None:
    study = open_or_create(tmp_path / "study", Marked("x.yaml", "environments: [kdt]\nagents: [dqn]\n"), "x")
    run = study.run_path(study.cells[0])
    run.mkdir(parents=True)
    lines = ['{"step": 1, "seed": 0, "eval_return": 0.5}', "garbage{", "[1]", '{"step": 2, "se']
    (run / "metrics.jsonl").write_text("\n".join(lines))
    assert study_status(study)["cells"][0]["mean_return"] == 0.5
    (run / "metrics.jsonl").write_text('{"step": 1, "seed": 0, "eval_return": "much"}\n')
    assert study_status(study)["cells"][0]["mean_return"] is None
