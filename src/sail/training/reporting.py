"""Who hears how a run goes."""

from __future__ import annotations

from typing import Any, Protocol

from sail.training.run_folder import RunFolder


class Reporter(Protocol):
    """Who hears how a run goes."""

    def begun(self, run: RunFolder) -> None:
        """Training begins, or goes on, in this folder."""
        ...

    def advanced(self, step: int) -> None:
        """`step` steps are done."""
        ...

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """A phase was evaluated: a row for each seed."""
        ...

    def note(self, sentence: str) -> None:
        """Something worth a sentence."""
        ...

    def ended(self) -> None:
        """Training has ended, well or not."""
        ...


class Silent:
    """Nobody listens; to extend where only some of it is of interest."""

    def begun(self, run: RunFolder) -> None:
        """Nothing."""

    def ended(self) -> None:
        """Nothing."""

    def advanced(self, step: int) -> None:
        """Nothing."""

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """Nothing."""

    def note(self, sentence: str) -> None:
        """Nothing."""
