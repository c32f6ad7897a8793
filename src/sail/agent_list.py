"""What `sail agents` shows: every agent, its parts, and the source of its numbers."""

from __future__ import annotations

from typing import Any

from sail import rules
from sail.agents import names
from sail.config import config_to_tree, make_config
from sail.presets import source

NOT_THE_PAPERS = {"munchausen": "alpha, tau and clip: Vieillard et al., 2020"}
"""Where the numbers of a rule come from that is not in the paper."""


def agent_list(env: str = "atari:Pong", preset: str | None = None) -> list[dict[str, Any]]:
    """One row for each agent, with the numbers it has in an environment under a preset."""
    preset = preset or ("paper" if env.startswith("atari:") else "small")
    rows = []
    for name in names.all_names():
        config = make_config(env, name, preset=preset)
        base, tree = names.bases()[config.agent.base], config_to_tree(config)
        rows.append(
            {
                "name": name,
                "base": config.agent.base,
                "rule": config.rule.name,
                "parts": base.parts,
                "published": base.source,
                "rule_says": _first_sentence(rules.known()[config.rule.name].bracket.__doc__),
                "n_step": config.replay.n_step,
                "prioritised": config.replay.prioritised,
                "optimiser": tree["optimiser"],
                "agent_settings": tree["agent"],
                "rule_settings": tree["rule"],
                "preset": preset,
                "numbers_from": source(preset, config.agent.base),
                "rule_numbers_from": NOT_THE_PAPERS.get(config.rule.name),
            }
        )
    return rows


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())
