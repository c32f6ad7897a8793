"""The Atari games of the paper, and the groups that they are studied in."""

from __future__ import annotations

# The 60 games of Dopamine; the paper's 59 leave out ElevatorAction.
_SIXTY = """
AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling Boxing Breakout
Carnival Centipede ChopperCommand CrazyClimber DemonAttack DoubleDunk ElevatorAction Enduro FishingDerby Freeway
Frostbite Gopher Gravitar Hero IceHockey Jamesbond JourneyEscape Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman
NameThisGame Phoenix Pitfall Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris
SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor YarsRevenge Zaxxon
"""
GAMES = tuple(_SIXTY.split())
_HARD = """
Alien Amidar BankHeist Freeway Frostbite Gravitar Hero MontezumaRevenge MsPacman Pitfall PrivateEye Qbert Solaris
Venture WizardOfWor Zaxxon
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "hard-exploration": tuple(_HARD.split()),
    "sparse": ("Freeway", "Gravitar", "MontezumaRevenge", "Pitfall", "PrivateEye", "Solaris", "Venture"),
    "paper": tuple(game for game in GAMES if game != "ElevatorAction"),
    "all": GAMES,
}
"""Atari games that are studied together: the paper's hard-exploration games (Bellemare et al., 2016), the sparse ones
among them, the paper's 59, and Dopamine's 60."""
