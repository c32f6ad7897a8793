"""docs/results.md as a page for a browser: the same words, with verdicts in colour, a tally, and tables that filter.

Only what that file uses of Markdown is understood. What is not understood stays as it is written, so nothing is lost.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

TEMPLATE = Path(__file__).with_name("report.html")
KINDS = {"holds": "good", "inside": "good", "within": "good", "does not": "bad", "no$": "bad", "not tested": "open"}
"""How verdicts look, by how they begin; any other is neither good nor bad."""


def write(page: Path, markdown: Path) -> None:
    """The page of a Markdown file beside it: links and pictures stay relative."""
    page.write_text(to_html(markdown.read_text()))


def to_html(text: str) -> str:
    """The whole page."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    title, *blocks = re.split(r"\n\s*\n", text.strip())
    headings = [block[3:].strip() for block in blocks if block.startswith("## ")]
    filling = {
        "TITLE": _inline(title.removeprefix("# ")),
        "LINKS": " ".join(f'<a href="#{_anchor(heading)}">{_inline(heading)}</a>' for heading in headings),
        "BODY": "\n".join(_block(block) for block in blocks),
    }
    return re.sub(r"\{\{(TITLE|LINKS|BODY)\}\}", lambda match: filling[match[1]], TEMPLATE.read_text())


def _block(block: str) -> str:
    if heading := re.fullmatch(r"(##|###) (.*)", block.strip()):
        tag = f"h{len(heading[1])}"
        return f'<{tag} id="{_anchor(heading[2])}">{_inline(heading[2])}</{tag}>'
    if block.startswith("- "):
        items = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
        return "<ul>" + "".join(f"<li>{_inline(item.strip())}</li>" for item in items) + "</ul>"
    if block.startswith("|"):
        return _table([_cells(line) for line in block.splitlines()])
    if picture := re.fullmatch(r"!\[(.*)\]\((\S+)\)", block.strip()):
        what = html.escape(picture[1])
        return f'<figure><img src="{html.escape(picture[2])}" alt="{what}"><figcaption>{what}</figcaption></figure>'
    return f"<p>{_inline(block)}</p>"


def _table(rows: list[list[str]]) -> str:
    """A table; one with verdicts has a tally of them above it, and each is a button that shows those rows alone."""
    head, _, *body = rows
    judged = next((i for i, name in enumerate(head) if name in ("verdict", "agrees?")), None)
    parts = []
    if judged is not None:
        tally = Counter(row[judged] for row in body)
        chips = (
            f'<button class="{_kind(verdict)}" data-verdict="{html.escape(verdict)}" aria-pressed="false">'
            f"{_inline(verdict)} <b>{number}</b></button>"
            for verdict, number in tally.most_common()
        )
        parts.append(f'<div class="tally">{" ".join(chips)}</div>')
    parts.append(f'<div class="scroll"><table class="of-{_anchor(head[0])}"><thead><tr>')
    parts += [f"<th>{_inline(name)}</th>" for name in head]
    parts.append("</tr></thead><tbody>")
    for row in body:
        verdict = None if judged is None else row[judged]
        parts.append("<tr>" if verdict is None else f'<tr data-verdict="{html.escape(verdict)}">')
        for i, cell in enumerate(row):
            shown = _inline(cell)
            parts.append(f'<td><span class="{_kind(cell)}">{shown}</span></td>' if i == judged else f"<td>{shown}</td>")
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    return "".join(parts)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _kind(verdict: str) -> str:
    return next((kind for begin, kind in KINDS.items() if re.match(begin, verdict)), "other")


def _inline(text: str) -> str:
    """Code, bold, emphasis, links; all else is text."""
    parts = re.split(r"(`[^`]+`)", html.escape(text, quote=False))
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"<code>{part[1:-1]}</code>"
        else:
            part = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", part, flags=re.DOTALL)
            part = re.sub(r"\*(\w[^*]*)\*", r"<em>\1</em>", part)
            parts[i] = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', part)
    return "".join(parts)


def _anchor(heading: str) -> str:
    """What links name behind #, as where the Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
