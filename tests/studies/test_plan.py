"""What a study costs, from measurements made up here so that everything can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import pytest

from sail.bench_store import remember, remembered
from sail.cli import main
from sail.errors import BadInputError
from sail.studies.cells import Cell
from sail.studies.plan import checkpoint_bytes, read_benches, study_plan, wall_seconds
from sail.training.program import make_program


def bench(agent: str, env: str, achieved: int, frames: int = 1, **more: Any) -> dict[str, Any]:
    return {"agent": agent, "env": env, "achieved": achieved, "frames_a_step": frames, "device": "H200", **more}


def cell(agent: str, env: str = "probe-chain", seed: int = 0, seeds: int = 1, steps: int = 256_000) -> Cell:
    return Cell(f"{env}/{agent}/seed{seed}", env, agent, None, {"steps": steps}, seed, seeds)


def test_hours_are_steps_over_rate() -> None:
    cells = [cell("dqn"), cell("dqn", seed=1), cell("sail-dqn", steps=512_000)]
    benches = [bench("dqn", "probe-chain", 2_000, seconds_to_compile=2.0), bench("sail-dqn", "probe-chain", 1_000)]
    plan = study_plan("x", cells, benches, devices=(1, 2))
    # dqn: 2 x (256,000 / 2,000 + 2) = 260 s; sail-dqn: 512,000 / 1,000 = 512 s, which two devices cannot shorten.
    assert [row["hours"] for row in plan["rows"]] == pytest.approx([260 / 3600, 512 / 3600])
    assert plan["hours"] == pytest.approx(772 / 3600)
    assert plan["wall_seconds"] == pytest.approx({"1": 772.0, "2": 512.0})
    assert (plan["cells"], plan["runs"], plan["steps"], plan["frames"]) == (3, 3, 1_024_000, 0)
    assert plan["missing"] == []


def test_cells_are_not_cut_in_pieces() -> None:
    # Nine cells of an hour on eight devices: one of them has two.
    assert wall_seconds([3600.0] * 9, 8) == 7200 and wall_seconds([3600.0] * 9, 9) == 3600
    assert wall_seconds([5.0, 4.0, 3.0, 3.0, 3.0], 2) == 10  # 5 + 3, and 4 + 3 + 3
    assert wall_seconds([], 3) == 0


def test_frames_of_a_game_are_four_to_a_step() -> None:
    pytest.importorskip("ale_py")
    cells = [cell("dqn", "atari:Pong", steps=250_000), cell("dqn", "atari:Breakout", steps=250_000)]
    plan = study_plan("x", cells, [bench("dqn", "atari:Pong", 80_000, 4)])
    assert plan["frames"] == 2_000_000 and plan["hours"] == pytest.approx(2_000_000 / 80_000 / 3600)


def test_the_nearest_measurement_is_taken_and_named() -> None:
    benches = [
        bench("sail-dqn", "probe-chain", 1_000),
        bench("al-dqn", "probe-chain", 900),
        bench("dqn+rnd", "probe-chain", 10),
        bench("dqn", "probe-action", 5),
        bench("dqn", "probe-chain", 7_000, seeds=8),
    ]
    row = study_plan("x", [cell("dqn")], benches)["rows"][0]
    assert row["steps_per_second"] == 900 and row["rate_from"].startswith("al-dqn, probe-chain, H200")
    assert study_plan("x", [cell("dqn", seeds=4)], benches)["rows"][0]["steps_per_second"] == 7_000
    plan = study_plan("x", [cell("iqn"), cell("dqn")], benches)
    assert plan["hours"] is None and plan["missing"] == ["sail bench probe-chain --agent iqn --seeds 1"]


def test_a_checkpoint_is_as_large_as_reckoned() -> None:
    config = cell("sail-dqn").config()
    program = make_program(config)
    state = program.saved(program.init())
    leaves = [
        jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in jax.tree.leaves(state)
    ]
    assert checkpoint_bytes(config) == sum(x.nbytes for x in leaves)


def test_what_bench_found_is_remembered_for_plan(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert remembered() == []
    file = tmp_path / "study.yaml"
    file.write_text("environments: [probe-chain]\nagents: [dqn]\nsteps: 1000\nsettings: {agent.hidden: [8]}\n")
    assert main(["study", "plan", str(file)]) == 0
    assert "sail bench probe-chain --agent dqn" in capsys.readouterr().out
    assert main(["bench", "probe-chain", "--agent", "dqn", "--seconds", "1", "--agent.hidden", "8"]) == 0
    capsys.readouterr()
    assert main(["study", "plan", str(file), "--json", "--devices", "3"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["rows"][0]["steps_per_second"] == remembered()[0]["achieved"]
    assert list(plan["wall_seconds"]) == ["3"] and plan["disk_bytes"] > 0
    assert main(["study", "plan", str(file)]) == 0
    assert "hours of one cpu" in capsys.readouterr().out
    remember(bench("dqn", "probe-chain", 5, seeds=1))
    assert len(remembered()) == 2  # another device


def test_bench_files_of_other_machines(tmp_path: Path) -> None:
    one, many, none = tmp_path / "one.json", tmp_path / "many.json", tmp_path / "none.json"
    first, second = bench("dqn", "atari:Pong", 1, 4), bench("iqn", "atari:Pong", 2, 4)
    one.write_text(json.dumps(first))
    many.write_text(json.dumps({"results": [first, {"x": [second]}], "other": 3}))
    none.write_text("[1, 2]")
    assert read_benches([str(one)]) == [first]
    assert read_benches([str(many), str(one)]) == [first, second, first]
    with pytest.raises(BadInputError, match="has no result of 'sail bench'"):
        read_benches([str(none)])
