"""The picture of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sail.analysis.pictures import summary_figure
from sail.config import make_config
from sail.training.run_folder import RunFolder


@pytest.mark.parametrize(("agent", "named"), [("dqn", "DQN"), ("sail-iqn", "SAIL-IQN"), ("al-dqn+rnd", "AL-DQN+RND")])
def test_it_names_the_agent_as_the_command_line_does(tmp_path: Path, agent: str, named: str) -> None:
    run = RunFolder.create(tmp_path / "run", make_config("kdt", agent, {}), {})
    run.append("metrics.jsonl", [{"step": step, "seed": 0, "eval_return": 0.5} for step in (100, 200)])
    assert summary_figure(run.path).get_suptitle() == f"{named} on kdt"
