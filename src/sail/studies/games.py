"""Groups of Atari games, for `group:NAME` in a study file."""

from __future__ import annotations

from sail.envs.atari_settings import GAMES

HARD = """
Alien Amidar BankHeist Freeway Frostbite Gravitar Hero MontezumaRevenge MsPacman Pitfall PrivateEye Qbert Solaris
Venture WizardOfWor Zaxxon
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "hard-exploration": tuple(HARD.split()),
    "sparse": ("Freeway", "Gravitar", "MontezumaRevenge", "Pitfall", "PrivateEye", "Solaris", "Venture"),
    "paper": tuple(game for game in GAMES if game != "ElevatorAction"),
    "all": GAMES,
}
"""Atari games that are studied together: the paper's hard-exploration games (Bellemare et al., 2016), the sparse ones
among them, the paper's 59, and Dopamine's 60."""
