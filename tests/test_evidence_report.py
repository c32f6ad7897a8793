"""docs/results.md as a page for a browser."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import report  # noqa: E402

PAGE = """# What & why

First words, with `code <b>`, **bold
words**, *new ones*, 2 * 3 * 4 and [a link](other.md).

## The paper's claims

<!-- claims -->
| claim | ours | verdict |
| --- | --- | --- |
| one <script> | 1 | holds |
| two | 2 | does not hold |
| three | 3 | leans to yes |
| four |  | not tested |
| five |  | not tested |
<!-- end of claims -->

### A smaller heading

- a point
  of two lines
- **another**

![A picture of "it"](images/it.png)

| game | agrees? |
| --- | --- |
| Pong | no |
"""


class Seen(HTMLParser):
    """What a browser would find: tags with their attributes, in order, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every such tag."""
        return [attributes for name, attributes in self.tags if name == tag]


def test_all_that_is_written_is_shown() -> None:
    seen = Seen(report.to_html(PAGE))
    for words in (
        "What & why",
        "code <b>",
        "bold\nwords",
        "a link",
        "The paper's claims",
        "one <script>",
        "leans to yes",
        "A smaller heading",
        "a point\n  of two lines",
        "new ones, 2 * 3 * 4",
    ):
        assert words in seen.text
    assert "<!--" not in seen.text and "**" not in seen.text and "|" not in seen.text
    assert {"href": "other.md"} in seen.of("a") and {"href": "#the-papers-claims"} in seen.of("a")
    assert {"id": "the-papers-claims"} in seen.of("h2")
    assert (len(seen.of("h3")), len(seen.of("ul")), len(seen.of("li"))) == (1, 1, 2)
    assert seen.of("img") == [{"src": "images/it.png", "alt": 'A picture of "it"'}]
    assert len(seen.of("script")) == 1  # ours


def test_verdicts_are_counted_and_coloured() -> None:
    seen = Seen(report.to_html(PAGE))
    first, *others = seen.of("button")
    assert (first["data-verdict"], first["class"]) == ("not tested", "open")
    assert "not tested 2" in seen.text and "holds 1" in seen.text
    kinds = {one["data-verdict"]: one["class"] for one in [first, *others]}
    assert kinds == {
        "not tested": "open",
        "holds": "good",
        "does not hold": "bad",
        "leans to yes": "other",
        "no": "bad",
    }
    assert [row.get("data-verdict") for row in seen.of("tr")] == [
        *(None, "holds", "does not hold", "leans to yes", "not tested", "not tested"),
        *(None, "no"),
    ]


def test_no_difference_seen_is_not_a_no() -> None:
    page = PAGE.replace("| Pong | no |", "| Pong | no difference seen |")
    assert [one["class"] for one in Seen(report.to_html(page)).of("button")][-1] == "other"


def test_the_committed_page_is_up_to_date() -> None:
    docs = ROOT / "docs"
    assert (docs / "results.html").read_text() == report.to_html((docs / "results.md").read_text()), (
        "run python -m evidence figures"
    )
    for image in Seen((docs / "results.html").read_text()).of("img"):
        assert (docs / str(image["src"])).is_file()


def test_links_within_the_page_lead_somewhere() -> None:
    """Of the real one: its smaller headings are linked as well."""
    seen = Seen((ROOT / "docs" / "results.html").read_text())
    places = {attributes.get("id") for _, attributes in seen.tags}
    named = {link[1:] for attributes in seen.of("a") if (link := attributes["href"] or "").startswith("#")}
    assert "before-the-first-reward" in named
    assert named <= places
