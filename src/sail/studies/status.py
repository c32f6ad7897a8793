"""How far a study is, read from its folder alone: nothing is asked of whoever runs it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from sail.envs.atari_settings import FRAME_SKIP
from sail.jsonl import read_rows
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.records import STALE_SECONDS, age
from sail.studies.supervisor import newest_step


def study_status(study: StudyFolder) -> dict[str, Any]:
    """One object: how many cells there are in each state, the rate, the time left, and a row for each cell."""
    rows = [cell_status(study, cell) for cell in study.cells]
    counts = {state: sum(row["state"] == state for row in rows) for state in ("done", "running", "failed", "waiting")}
    rates = _rates(rows)
    frames = [row["steps_per_second"] * FRAME_SKIP for row in rows if _is_running(row) and _is_atari(row)]
    return {
        "study": study.name,
        "folder": str(study.path),
        "total": len(rows),
        **counts,
        "driver": study.driver_age() < STALE_SECONDS,
        "steps_per_second": round(sum(row["steps_per_second"] for row in rows if _is_running(row))) or None,
        "frames_per_second": round(sum(frames)) or None,
        "seconds_left": _seconds_left(rows, rates),
        "cells": rows,
    }


def cell_status(study: StudyFolder, cell: Cell) -> dict[str, Any]:
    """A cell's row. Steps are those of one seed; the rate is over all seeds of the cell."""
    row: dict[str, Any] = {
        "cell": cell.name,
        "env": cell.env,
        "agent": cell.agent,
        "state": "waiting",
        "step": 0,
        "steps": None,
        "seeds": cell.seeds,
        "steps_per_second": None,
        "seconds": 0.0,
        "mean_return": None,
        "error": None,
    }
    run = study.run_path(cell)
    summary = _read(run / "DONE")
    record = study.record(cell)
    row["seconds"] = round(record.seconds, 1)
    if summary is not None:
        keys = ("steps_per_second", "mean_return")
        step = summary.get("steps")
        return row | {"state": "done", "step": step, "steps": step} | {key: summary.get(key) for key in keys}
    row |= {"state": record.state, "error": record.error, "step": newest_step(run)}
    if record.state == "running" and age(study.state_path(cell)) > STALE_SECONDS:
        row["state"] = "waiting"  # whoever watched over it is dead
    if row["state"] == "running":
        file = study.state_path(cell, ".progress")
        progress = _read(file) or {}
        rate = progress.get("steps_per_second") if age(file) < STALE_SECONDS else None  # it may hang
        row |= {"step": progress.get("step", row["step"]), "steps": progress.get("steps")}
        row["steps_per_second"] = round(rate * cell.seeds) if rate else None
    with suppress(TypeError, OSError):
        last = read_rows(run / "metrics.jsonl")[0][-cell.seeds :]
        returns = [v for one in last if (v := one.get("eval_return", one.get("train_return"))) is not None]
        row["mean_return"] = sum(returns) / len(returns) if returns else None
    return row


def _read(path: Path) -> dict[str, Any] | None:
    try:
        tree = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def _is_running(row: dict[str, Any]) -> bool:
    return row["state"] == "running" and bool(row["steps_per_second"])


def _is_atari(row: dict[str, Any]) -> bool:
    return str(row["env"]).startswith("atari:")


def _rates(rows: list[dict[str, Any]]) -> list[float]:
    """Steps per second of each cell that runs; where one has only begun, as those that are done, start and all."""
    done = [row["step"] * row["seeds"] / row["seconds"] for row in rows if row["state"] == "done" and row["seconds"]]
    usual = sum(done) / len(done) if done else 0.0
    return [row["steps_per_second"] or usual for row in rows if row["state"] == "running"]


def _seconds_left(rows: list[dict[str, Any]], rates: list[float]) -> float | None:
    """What is left at the rate of the cells that run now, if the others are as long as those that have begun."""
    known = [row["steps"] for row in rows if row["steps"]]
    if not sum(rates) or not known:
        return None
    typical = sum(known) / len(known)
    left = sum(
        ((row["steps"] or typical) - row["step"]) * row["seeds"]
        for row in rows
        if row["state"] in ("running", "waiting")
    )
    return max(left, 0) / sum(rates)
