"""The paper's quantitative claims, in its order, each with the command that makes our number."""

from __future__ import annotations

from typing import NamedTuple

from evidence.claims import solved, undervalued, update_rates
from evidence.game_scores import ahead, as_in_the_paper, normalised, reaches
from evidence.improvements import improvement
from evidence.verdicts import Measure, no_rise
from sail.games import GROUPS

HARD, ALL = GROUPS["hard-exploration"], GROUPS["paper"]
FOUR = ("Frostbite", "Gravitar", "Venture", "PrivateEye")
STALE = "kdt/stale_returns.csv"
HERE, FURTHER = "sail study run evidence/atari", "sail study run evidence/atari-further"


class Claim(NamedTuple):
    """A claim, the paper's number, and how ours is found."""

    what: str
    theirs: str
    ours: Measure
    command: str


CLAIMS = [
    Claim(
        "The scores of DQN, AL-DQN and SAIL-DQN, 16 hard-exploration games",
        "the first table",
        as_in_the_paper(("dqn", "al-dqn", "sail-dqn"), HARD, 200),
        "sail study run paper/dqn",
    ),
    Claim(
        "SAIL-DQN over DQN, 16 hard-exploration games",
        "average +654.3 %, median +71.8 %",
        improvement("sail-dqn", "dqn", HARD, 10),
        HERE,
    ),
    Claim("the same on four of them, further", "in the above", improvement("sail-dqn", "dqn", FOUR, 40), FURTHER),
    Claim(
        "SAIL-DQN over AL-DQN, hard-exploration games",
        "average +361.6 %, median +24.9 %",
        improvement("sail-dqn", "al-dqn", HARD, 10),
        HERE,
    ),
    Claim("the same on four of them, further", "in the above", improvement("sail-dqn", "al-dqn", FOUR, 40), FURTHER),
    Claim(
        "SAIL-DQN over AL-DQN, all 59 games",
        "average +101.4 %, median +6.7 %",
        improvement("sail-dqn", "al-dqn", ALL, 200),
        "sail study run paper/dqn",
    ),
    Claim(
        "SAIL-DQN over DQN, all 59 games",
        "positive, in a figure",
        improvement("sail-dqn", "dqn", ALL, 200),
        "sail study run paper/dqn",
    ),
    Claim(
        "SAIL-DQN beats C51 on Frostbite and PrivateEye",
        "SAIL-DQN 7912 and 10068, C51 4250 and 4000",
        ahead(("sail-dqn", "c51"), ("Frostbite", "PrivateEye"), 200),
        "sail study run paper/human-normalised",
    ),
    Claim(
        "SAIL-DQN beats IQN on PrivateEye",
        "SAIL-DQN 10068, IQN in a figure",
        ahead(("sail-dqn", "iqn"), ("PrivateEye",), 200),
        "sail study run paper/human-normalised",
    ),
    Claim(
        "SAIL-IQN over Rainbow, all games",
        "average +80.3 %, median +4 %",
        improvement("sail-iqn", "rainbow", ALL, 200),
        "sail study run paper/iqn",
    ),
    Claim(
        "SAIL-IQN over IQN, all games",
        "positive, in a figure",
        improvement("sail-iqn", "iqn", ALL, 200),
        "sail study run paper/iqn",
    ),
    Claim(
        "the same on two games",
        "in the above",
        improvement("sail-iqn", "iqn", ("Frostbite", "Gravitar"), 10),
        HERE,
    ),
    Claim(
        "SAIL-IQN over AL-IQN, all games",
        "positive, in a figure",
        improvement("sail-iqn", "al-iqn", ALL, 200),
        "sail study run paper/iqn",
    ),
    Claim(
        "The scores of IQN, AL-IQN and SAIL-IQN, 16 games",
        "the second table",
        as_in_the_paper(("iqn", "al-iqn", "sail-iqn"), HARD, 200),
        "sail study run paper/iqn",
    ),
    *(
        Claim(
            f"SAIL-IQN gains much over {other} on Montezuma's Revenge, PrivateEye and Gravitar",
            "in a figure, and the second table",
            ahead(("sail-iqn", agent), ("MontezumaRevenge", "PrivateEye", "Gravitar"), 200),
            "sail study run paper/iqn",
        )
        for other, agent in (("IQN", "iqn"), ("AL-IQN", "al-iqn"))
    ),
    Claim(
        "Human-normalised median: SAIL-IQN above Rainbow above IQN",
        "in a figure",
        normalised(("sail-iqn", "rainbow", "iqn"), ALL, 200),
        "sail study run paper/human-normalised",
    ),
    Claim(
        "Human-normalised median: SAIL-DQN above C51 above DQN",
        "in a figure",
        normalised(("sail-dqn", "c51", "dqn"), ALL, 200),
        "sail study run paper/human-normalised",
    ),
    Claim(
        "SAIL-IQN over RND-IQN, all games",
        "average +72.2 %, median +28.2 %",
        improvement("sail-iqn", "iqn+rnd", ALL, 200),
        "sail study run paper/rnd",
    ),
    Claim(
        "RND raises IQN on Montezuma's Revenge and Venture",
        "not shown; Montezuma's Revenge 161 against 0",
        ahead(("iqn+rnd", "iqn"), ("MontezumaRevenge", "Venture"), 200),
        "sail study run paper/rnd, and paper/iqn",
    ),
    Claim(
        "RND does not raise IQN's median (over hard-exploration games, it seems)",
        "median -0.2 %",
        no_rise(improvement("iqn+rnd", "iqn", HARD, 200)),
        "sail study run paper/rnd, and paper/iqn",
    ),
    Claim(
        "Montezuma's Revenge, final and average score: SAIL-IQN; RND-IQN; IQN",
        "833, 513; 161, 45; 0, 0",
        ahead(("sail-iqn", "iqn+rnd", "iqn"), ("MontezumaRevenge",), 200),
        "sail study run paper/rnd, and paper/iqn",
    ),
    Claim(
        "Montezuma's Revenge: SAIL-IQN with RND and n = 3, as good as RND-Rainbow",
        "5180",
        reaches("sail-iqn+rnd,replay.n_step=3", "MontezumaRevenge", 5180, 200),
        "sail study run paper/rnd",
    ),
    Claim(
        "Frames a second: IQN, SAIL-IQN, RND-IQN; SAIL more than twice as fast as RND",
        "100, 95, 45",
        update_rates("updates_h200_rnd_period_1.json", ("iqn", "sail-iqn", "iqn+rnd"), 2.0),
        "python benchmarks/updates.py, at the commit in updates_h200_rnd_period_1.json",
    ),
    Claim(
        "the same where RND learns with every fourth update, our default",
        "in the above",
        update_rates("updates_h200.json", ("iqn", "sail-iqn", "iqn+rnd"), 2.0),
        "python benchmarks/updates.py, at the commit in updates_h200.json",
    ),
    Claim(
        "SAIL-DQN over AL-DQN without sticky actions, all games",
        "average +222.6 %, median +11.7 % (caption); +231.6 %, +12.7 % (text)",
        improvement("sail-dqn,env.sticky=0.0", "al-dqn,env.sticky=0.0", ALL, 200),
        "sail study run paper/sticky",
    ),
    Claim(
        "More stickiness (0, 0.25, 0.5) takes from SAIL-DQN's human-normalised median",
        "in a figure",
        normalised(("sail-dqn,env.sticky=0.0", "sail-dqn", "sail-dqn,env.sticky=0.5"), HARD, 200),
        "sail study run paper/sticky",
    ),
    Claim(
        "SAIL-DQN with more stickiness (0.5) is still above DQN at 0.25",
        "in a figure",
        normalised(("sail-dqn,env.sticky=0.5", "dqn"), HARD, 200),
        "sail study run paper/sticky",
    ),
    Claim(
        "SAIL-DQN over strSIL-DQN, hard-exploration games",
        "average +72.2 %, median +45.2 %",
        improvement("sail-dqn", "strsil-dqn", HARD, 200),
        "sail study run paper/strsil",
    ),
    Claim(
        "the same on four of them",
        "in the above",
        improvement("sail-dqn", "strsil-dqn", FOUR, 10),
        HERE,
    ),
    Claim(
        "SAIL-IQN over strSIL-IQN, hard-exploration games",
        "average +16.0 %, median +22.3 %",
        improvement("sail-iqn", "strsil-iqn", HARD, 200),
        "sail study run paper/strsil",
    ),
    Claim(
        "Key-Door-Treasure: with strSIL stale returns undervalue taking the key",
        "a drawing, no number",
        # The treasure comes 14 steps after the one that takes the key.
        undervalued(STALE, "kdt", ("strsil-dqn", "sail-dqn"), "env.slip=0.0", 100_000, 0.99**14),
        "sail study run paper/stale-returns",
    ),
]
OWN = [
    Claim(
        f"{env}: more seeds of SAIL-DQN than of {other} take the treasure, halfway",
        "-",
        solved(STALE, env, ("sail-dqn", other), "env.slip=0.0", 150_000),
        "sail study run paper/stale-returns",
    )
    for env in ("kdt", "apple-kdt")
    for other in ("dqn", "al-dqn", "strsil-dqn", "munchausen-dqn")
]
"""Not the paper's: our own questions on the same ground."""
