"""A report as files: the page, a text with pictures, a table or a figure each for a paper."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sail.analysis.page_file import page_html
from sail.analysis.report import Report
from sail.errors import BadInputError
from sail.files import NewFolder, write_whole


def write_report(report: Report, out: Path, formats: Sequence[str]) -> list[Path]:
    """Writes `out` (the page) and, for other formats, files in a folder NAME-files beside it."""
    others = [name for name in formats if name != "html"]
    folder = out.with_name(f"{out.stem}-files")
    if others and os.path.lexists(folder) and not folder.is_dir():  # before there is a page without its files
        raise BadInputError(f"{folder} is no folder, and the report's files belong into it: give --out another name.")
    written: list[Path] = []
    if "html" in formats:
        write_whole(out, page_html(report.page))
        written.append(out)
    if not others:
        return written
    with NewFolder(folder):
        return [*written, *_write_others(report, folder, others)]


def _write_others(report: Report, folder: Path, others: Sequence[str]) -> list[Path]:
    """Tables, figures and the text that shows them, into a folder."""
    written: list[Path] = []
    if "csv" in others:
        written += [_write(folder / f"{part['id']}.csv", table_csv(part)) for part in tables(report)]
        written.append(_write(folder / "curves.csv", curves_csv(report)))
    pictures = [name for name in others if name in ("png", "svg")] or (["png"] if "md" in others else [])
    drawn: list[Path] = []
    if pictures:
        try:
            from sail.analysis.figures import draw_figures
        except ImportError:
            raise BadInputError("Figures need matplotlib: pip install 'sail-rl[report]'.") from None
        drawn = draw_figures(report, folder, pictures, file_name)
    if "md" in others:
        written.append(_write(folder / "report.md", markdown(report, [path for path in drawn])))
    return [*written, *drawn]


def tables(report: Report) -> list[dict[str, Any]]:
    """The parts that are tables."""
    return [part for part in report.page["parts"] if part["kind"] == "table"]


def _write(path: Path, text: str) -> Path:
    path = path.with_name(file_name(path.stem) + path.suffix)
    write_whole(path, text)
    return path


def file_name(text: str) -> str:
    """A part's name as that of a file."""
    plain = re.sub(r"[^A-Za-z0-9.+_-]+", "-", text)
    return (
        plain if len(plain) <= 100 else f"{plain[:80]}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:12]}"
    )


def table_csv(part: dict[str, Any]) -> str:
    """A table for other programs: a score is four columns."""
    columns, scores = part["columns"], ("", " low", " high", " seeds", " at")
    names = [
        name
        for column in columns
        for name in ([column["name"] + end for end in scores] if column["kind"] == "score" else [column["name"]])
    ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_harmless, names))
    for row in part["rows"]:
        line: list[Any] = []
        usual = next((c for c, k in zip(row["cells"], columns, strict=True) if k["name"] == "at"), None)
        for column, cell in zip(columns, row["cells"], strict=True):
            if column["kind"] == "score":
                values = [cell[key] for key in ("value", "low", "high", "seeds")] if cell else []
                line += [*values, cell.get("at", usual)] if cell else [None] * 5
            else:
                line.append(_harmless(cell))
        writer.writerow(line)
    return file.getvalue()


def _harmless(cell: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets a quote in front."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def curves_csv(report: Report) -> str:
    """Every score of every seed: environment, agent, seed, step, frames, score."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["environment", "agent", "seed", "step", "frames", "score"])
    for group in report.groups:
        for curve in group.curves:
            for step, score in zip(curve.steps.tolist(), curve.column(group.score_column).tolist(), strict=True):
                frames = step * group.frames_a_step if group.frames_a_step > 1 else None
                shown = score if score == score else None
                writer.writerow([_harmless(group.env), _harmless(group.variant), curve.seed, step, frames, shown])
    return file.getvalue()


def markdown(report: Report, pictures: Sequence[Path]) -> str:
    """The tables and pictures as text for a README."""
    page = report.page
    lines = [f"# {_plain(page['title'])}", "", _plain(page["subtitle"]), ""]
    by_part = {path.stem: path.name for path in reversed(pictures)}
    for part in page["parts"]:
        picture = by_part.get(file_name(part["id"]))
        if part["kind"] not in ("table", "list") and picture is None:
            continue
        lines += [f"## {_plain(part['title'])}", "", _plain(part["about"]), ""]
        if part["kind"] == "table":
            lines += [*_markdown_table(part), ""]
        elif part["kind"] == "list":
            lines += [*(f"- {_plain(item)}" for item in part["items"]), ""]
        else:
            lines += [f"![{_plain(part['title'])}]({picture})", ""]
    return "\n".join([*lines, _plain(page["made"]), ""])


def _markdown_table(part: dict[str, Any]) -> list[str]:
    head = [_plain(column["name"]) for column in part["columns"]]
    rows = [
        [_text(cell, column["kind"]) for cell, column in zip(row["cells"], part["columns"], strict=True)]
        for row in part["rows"]
    ]
    rule = ["---" if column["kind"] == "text" else "---:" for column in part["columns"]]
    return [f"| {' | '.join(line)} |" for line in (head, rule, *rows)]


def _text(cell: Any, kind: str) -> str:
    if cell is None:
        return ""
    if kind == "score":
        value = f"**{cell['value']:g}**" if cell.get("best") else f"{cell['value']:g}"
        interval = "" if cell["low"] is None else f" [{cell['low']:g}, {cell['high']:g}]"
        seeds = f"{cell['seeds']} of {cell['of']}" if "of" in cell else f"{cell['seeds']}"
        return f"{value}{interval} x {seeds}" + (f" @{cell['at']:,}" if "at" in cell else "")
    if kind == "share":
        return f"{100 * cell:+.1f} %"
    return _plain(f"{cell:,}" if isinstance(cell, int) else f"{cell:g}" if isinstance(cell, float) else str(cell))


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave alone."""
    flat = " ".join(str(text).split()).replace("\\", "\\\\")
    return re.sub(r"([|`*_\[\]<>])", r"\\\1", flat)
