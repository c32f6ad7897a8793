"""Videos of an episode: what is in the files, and what is drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sail.analysis import film, video
from sail.analysis.film import PANEL, Film
from sail.analysis.video import Recording, draw_grid_frame, save_video
from sail.errors import BadInputError, SailError

STEPS = 12


def recording(steps: int = STEPS, **changes: Any) -> Recording:
    """Random screens of Atari's size and few colours, and a value, a bonus and a reward for each."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (8, 3), dtype=np.uint8)
    given = Recording(
        screens=colours[rng.integers(0, 8, (steps, 21, 16))].repeat(10, axis=1).repeat(10, axis=2),
        values=rng.normal(size=steps),
        bonuses=rng.normal(size=steps),
        rewards=rng.integers(-1, 2, steps).astype(float),
        title="sail-dqn on atari:Pong, step 2,000,000",
        frames_per_second=15,
    )
    return given._replace(**changes)


def enlarged(screen: Any, scale: int) -> Any:
    return np.kron(screen, np.ones((scale, scale, 1), np.uint8))


def panels(given: Recording) -> list[Any]:
    drawn = Film(given)
    return [drawn.frame(k)[-PANEL:] for k in range(len(drawn))]


@pytest.mark.parametrize("fps", [15, 12.5])
def test_mp4_has_every_frame_for_as_long_as_it_should_be_seen(tmp_path: Path, fps: float) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = save_video(recording(frames_per_second=fps), tmp_path / "episode.mp4")
    assert path == tmp_path / "episode.mp4"
    frames, seconds = ffmpeg.count_frames_and_secs(str(path))
    assert (frames, seconds) == (STEPS, pytest.approx(STEPS / fps, abs=0.011))
    about = next(ffmpeg.read_frames(str(path)))
    assert about["size"] == (480, 630 + PANEL)
    assert about["codec"] == "h264" and about["pix_fmt"].startswith("yuv420p")
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_with_a_colon_is_no_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of environments have one, and so may those of runs."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    Path("atari:Pong-dqn").mkdir()
    for name in ("atari:Pong.mp4", "atari:Pong-dqn/episode.mp4"):
        assert save_video(recording(), name) == Path(name)
        assert ffmpeg.count_frames_and_secs(str(tmp_path / name))[0] == STEPS


@pytest.mark.parametrize("suffix", [".webp", ".gif", ".GIF"])
def test_webp_and_gif_have_every_frame_for_as_long_as_it_should_be_seen(tmp_path: Path, suffix: str) -> None:
    path = save_video(recording(), str(tmp_path / f"episode{suffix}"))
    assert list(tmp_path.iterdir()) == [path]
    with Image.open(path) as picture:
        assert (picture.n_frames, picture.size) == (STEPS, (480, 630 + PANEL))
        assert picture.info["loop"] == 0
        milliseconds = 0
        for k in range(STEPS):
            picture.seek(k)
            picture.load()
            milliseconds += picture.info["duration"]
    assert milliseconds == pytest.approx(1000 * STEPS / 15, abs=1)


def test_webp_loses_nothing(tmp_path: Path) -> None:
    given = recording()
    drawn = Film(given)
    with Image.open(save_video(given, tmp_path / "episode.webp")) as picture:
        for k in range(STEPS):
            picture.seek(k)
            assert np.array_equal(np.asarray(picture.convert("RGB")), drawn.frame(k))


@pytest.mark.parametrize("screens", ["flat", "moving"])
def test_gif_shows_each_frame_though_it_holds_only_what_changed(tmp_path: Path, screens: str) -> None:
    pictures = np.full((STEPS, 84, 84, 3), 90, np.uint8)
    if screens == "moving":
        for k in range(STEPS):
            pictures[k, 5 * k : 5 * k + 4, 40:44] = (200, 40, 40)
    given = recording(screens=pictures)
    drawn = Film(given)
    with Image.open(save_video(given, tmp_path / "episode.gif")) as picture:
        for k in range(STEPS):
            picture.seek(k)
            gap = np.asarray(picture.convert("RGB")).astype(int) - drawn.frame(k)
            assert abs(gap[:-PANEL]).max() <= 4
            assert abs(gap).max() <= 32


@pytest.mark.parametrize("suffix", [".mp4", ".webp", ".gif"])
def test_an_episode_of_one_step(tmp_path: Path, suffix: str) -> None:
    assert save_video(recording(1), tmp_path / f"episode{suffix}").stat().st_size > 0


@pytest.mark.parametrize("missing", ["module", "program"])
def test_without_ffmpeg_an_mp4_becomes_a_webp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "module":
        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    else:
        ffmpeg = pytest.importorskip("imageio_ffmpeg")

        def not_there() -> str:
            raise RuntimeError("No ffmpeg exe could be found.")

        monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", not_there)
    path = save_video(recording(), tmp_path / "episode.mp4")
    assert path == tmp_path / "episode.webp"
    assert list(tmp_path.iterdir()) == [path]
    with Image.open(path) as picture:
        assert (picture.format, picture.n_frames) == ("WEBP", STEPS)


def test_without_pillow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film.pillow.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInputError, match=r"Videos need Pillow: pip install 'sail-rl\[video\]'"):
        save_video(recording(), tmp_path / "episode.gif")


@pytest.mark.parametrize("name", ["episode.avi", "episode", "mp4"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match=r"\.mp4, \.webp or \.gif"):
        save_video(recording(), tmp_path / name)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no folder .*nowhere"):
        save_video(recording(), tmp_path / "nowhere" / "episode.gif")


@pytest.mark.parametrize("suffix", [".mp4", ".webp", ".gif"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    path = tmp_path / f"episode{suffix}"
    path.write_text("older")
    draw = Film.frame

    def fail(self: Film, k: int) -> Any:
        if k == 5:
            raise RuntimeError("in the middle")
        return draw(self, k)

    monkeypatch.setattr(Film, "frame", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        save_video(recording(), path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "older"


def test_a_folder_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "episode.gif").mkdir()
    with pytest.raises(SailError, match=r"could not be written: [^\n]*\.$"):
        save_video(recording(2), tmp_path / "episode.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["episode.gif"]


def test_ffmpeg_that_stops_short_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(ffmpeg, "count_frames_and_secs", lambda _: (3, 0.2))
    with pytest.raises(SailError, match="3 of 12 frames"):
        save_video(recording(), tmp_path / "episode.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("one\n[out#0] Error: No space left on device\nConversion failed!", "No space left on device"),
        ("one\ntwo: it broke.\n\n", "two: it broke"),
        ("", "ffmpeg ended without a reason"),
    ],
)
@pytest.mark.parametrize("takes", [False, True], ids=["takes nothing", "takes all"])
def test_an_ffmpeg_that_fails_says_why_in_our_sentence_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, says: str, reason: str, takes: bool
) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    fake = tmp_path / "ffmpeg"
    fake.write_text(f"#!/bin/sh\n{'cat > /dev/null' if takes else ''}\nprintf '%s' '{says}' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", lambda: str(fake))
    with pytest.raises(SailError) as error:
        save_video(recording(), tmp_path / "episode.mp4")
    assert str(error.value) == f"The video '{tmp_path / 'episode.mp4'}' could not be written: {reason}."
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == [fake]


@pytest.mark.parametrize(
    ("height", "width", "scale"),
    [(210, 160, 3), (84, 84, 6), (7, 5, 96), (400, 600, 1), (333, 401, 1), (100, 20, 7), (41, 13, 17), (900, 700, 1)],
)
def test_the_screen_is_the_enlarged_input_in_a_frame_with_even_sides(height: int, width: int, scale: int) -> None:
    screens = np.random.default_rng(1).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    drawn = Film(recording(2, screens=list(screens)))
    assert drawn.size[0] % 2 == 0 and drawn.size[1] % 2 == 0
    assert drawn.size[0] >= 480
    frame = drawn.frame(1)
    assert frame.dtype == np.uint8 and frame.shape == (*drawn.size[::-1], 3)
    left = (drawn.size[0] - scale * width) // 2
    shown = frame[: height * scale, left : left + width * scale]
    assert np.array_equal(shown, enlarged(screens[1], scale))


def test_values_and_bonuses_change_the_panel_and_nothing_else() -> None:
    given = recording()
    for other in (given._replace(values=given.values[::-1]), given._replace(bonuses=2 * given.bonuses)):
        one, two = Film(given).frame(7), Film(other).frame(7)
        assert np.array_equal(one[:-PANEL], two[:-PANEL])
        assert not np.array_equal(one[-PANEL:], two[-PANEL:])


def test_the_line_is_bright_up_to_now() -> None:
    """As a share of the chart: none at first, half in the middle, all at the end."""
    chart = slice(*film.VALUE_ROWS)
    bright = [
        np.flatnonzero((abs(panel[chart].astype(int) - film.VALUE).max(axis=-1) < 30).any(axis=0))
        for panel in panels(recording(21, rewards=np.zeros(21)))
    ]
    start, end = bright[-1].min(), bright[-1].max()
    for k, expected in ((0, 0.0), (10, 0.5), (20, 1.0)):
        assert (bright[k].max() - start) / (end - start) == pytest.approx(expected, abs=0.02)


def test_gains_and_losses_are_marked_apart() -> None:
    rewards = np.zeros(STEPS)
    rewards[3], rewards[8] = 10, -1
    strip = panels(recording(rewards=rewards))[-1][slice(*film.REWARD_ROWS)]
    columns = [np.flatnonzero((strip == colour).all(axis=-1).any(axis=0)) for colour in (film.GAIN, film.LOSS)]
    assert [len(found) for found in columns] == [2, 2]
    assert columns[0].max() < columns[1].min()


def test_the_score_is_the_sum_so_far() -> None:
    drawn = Film(recording(4, rewards=[1, np.nan, -3, 0.5]))
    assert drawn.score.tolist() == [1, 1, -2, -1.5]


@pytest.mark.parametrize("steps", [1, 2, STEPS])
@pytest.mark.parametrize("constant", [0.0, 3.0, -1e-7, 1e9, np.nan, np.inf])
@pytest.mark.filterwarnings("error")
def test_constant_and_unknown_values_can_be_drawn(steps: int, constant: float) -> None:
    panels(recording(steps, values=np.full(steps, constant), bonuses=np.full(steps, constant)))


@pytest.mark.filterwarnings("error")
def test_unknown_values_are_gaps() -> None:
    values = np.full(21, 1.0)
    values[[0, 8, 9, 10, 11, 12]] = np.nan
    chart = panels(recording(21, values=values))[-1][slice(*film.VALUE_ROWS)]
    drawn = (abs(chart.astype(int) - film.VALUE).max(axis=-1) < 60).any(axis=0)
    columns = np.flatnonzero(drawn)
    # Half the dot at the end, and half the line's width at the start, are beyond the points of steps 2 and 21.
    start, end = columns.min(), columns.max() - 3
    inside = np.flatnonzero(~drawn[start : end - 5]) / (end - start)
    assert inside.min() == pytest.approx(6 / 19, abs=0.03)
    assert inside.max() == pytest.approx(12 / 19, abs=0.03)


def test_a_long_title_is_cut() -> None:
    margin = panels(recording(1, title="long " * 100))[0][:24, -film.MARGIN + 2 :]
    assert (margin == film.PAPER).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"values": np.zeros(STEPS - 1)},
        {"bonuses": np.zeros(STEPS + 1)},
        {"rewards": []},
        {"screens": np.zeros((STEPS, 4, 4, 3))},
        {"screens": np.zeros((STEPS, 4, 4), np.uint8)},
        {"screens": [np.zeros((4, 4 + k, 3), np.uint8) for k in range(STEPS)]},
        {"frames_per_second": 0},
    ],
)
def test_recordings_that_do_not_fit_together_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        save_video(recording(**changes), tmp_path / "episode.gif")
    assert not list(tmp_path.iterdir())


def test_a_recording_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="0 screens"):
        save_video(recording(0), tmp_path / "episode.gif")


GRID = ["#####", "#S.K#", "#D#T#", "#..a#", "#####"]


def test_the_agent_is_drawn_in_its_cell_only() -> None:
    here, elsewhere = draw_grid_frame(GRID, (3, 1)), draw_grid_frame(GRID, (3, 2))
    side = here.shape[1] // 5
    assert here.dtype == np.uint8 and here.shape == (5 * side, 5 * side, 3)
    assert 480 <= here.shape[1] <= 640
    changed = np.argwhere((here != elsewhere).any(axis=-1)) // side
    assert {tuple(cell) for cell in changed.tolist()} == {(3, 1), (3, 2)}
    assert tuple(here[3 * side + side // 2, side + side // 2]) == video._rgb(video.ROUTE)


def test_an_agent_outside_the_map_is_not_drawn() -> None:
    """DeepSea's last step leads below its last row."""
    empty = draw_grid_frame(["...."] * 4, (4, 1))
    assert not (empty == video._rgb(video.ROUTE)).all(axis=-1).any()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (13, 13), (50, 50), (3, 200), (400, 3)])
def test_maps_of_any_size_can_be_drawn(rows: int, columns: int) -> None:
    height, width = draw_grid_frame(["." * columns] * rows, (0, 0)).shape[:2]
    assert height % 2 == width % 2 == 0
    assert height * columns == width * rows


def test_colours_are_those_of_the_pictures() -> None:
    pytest.importorskip("matplotlib")
    from sail.analysis import pictures

    assert {sign: colour for sign, (_, colour) in pictures.THINGS.items()} == video.THINGS
    assert (pictures.WALL, pictures.FLOOR, pictures.ROUTE) == (video.WALL, video.FLOOR, video.ROUTE)


def test_nothing_else_is_imported() -> None:
    """Neither jax nor what only the writing needs."""
    code = (
        "import sys, types; sail = types.ModuleType('sail'); sail.__path__ = [sys.argv[1]]; sys.modules['sail'] = sail;"
        "import sail.analysis.video; print(*sorted(name for name in sys.modules if name.partition('.')[0] in"
        " ('sail', 'jax', 'PIL', 'matplotlib', 'imageio_ffmpeg')))"
    )
    source = str(Path(video.__file__).parents[1])
    found = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True, check=True).stdout
    own = [
        "sail.analysis",
        *(f"sail.analysis.{name}" for name in ("film", "mp4", "video")),
        "sail.errors",
        "sail.files",
    ]
    assert found.split() == ["sail", *own]
