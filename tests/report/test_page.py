"""The report: complete, harmless, true to its numbers, whatever the demonstrations are."""

import dataclasses
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from compile_il.config import Config
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.segments import Segments
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.metrics import Scores, score_boundaries
from compile_il.model.model import Model
from compile_il.report.markup import ink_on, per_cent, skill_colors
from compile_il.report.page import Shown, in_groups, render_page, write_report
from compile_il.report.runs import NUM_SHOWN, certainty, choose, look_of, segment_runs
from tests.inference.exact.small import SMALL, model_for, small_model, vector_demos

VOID = {"meta", "img"}
MAZE = np.zeros((7, 7, 5), np.uint8)
MAZE[[0, -1], :, 3] = MAZE[:, [0, -1], 3] = 1
MAZE[2, 2, 0] = MAZE[4, 3, 2] = 1


class Balanced(HTMLParser):
    """Remembers open elements, and refuses an end that does not belong to the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def parse(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


def words_of(page: str) -> str:
    return " ".join(" ".join(parse(page).words).split())


def model_with(num_skills: int = 3) -> Model:
    return dataclasses.replace(small_model(), config=dataclasses.replace(SMALL, num_skills=num_skills))


def random_segments(demos: Demonstrations, num_skills: int = 3, num_segments: int = 3, seed: int = 0) -> Segments:
    """Random segments, with probabilities that fit them."""
    rng = np.random.default_rng(seed)
    boundaries, skills, probs, counts = [], [], [], []
    for length in demos.lengths.tolist():
        m = min(num_segments, length)
        inner = np.sort(rng.permutation(np.arange(1, length))[: m - 1]).astype(np.int32)
        p = np.zeros(length, np.float32)
        p[inner] = rng.uniform(0.5, 1, m - 1)
        boundaries.append(inner)
        skills.append(rng.integers(0, num_skills, m).astype(np.int32))
        probs.append(p)
        counts.append(np.eye(num_segments + 1, dtype=np.float32)[m])
    return Segments(boundaries, skills, probs, counts, np.zeros(len(demos), np.float32))


def with_truth_of(demos: Demonstrations, segments: Segments) -> Demonstrations:
    """The same demonstrations, with these segments as their truth."""
    return demos.with_truth(boundaries=segments.boundaries, codes=segments.skills)


def page_of(*sets: Shown, num_skills: int = 3, **options: object) -> str:
    return render_page(model_with(num_skills), sets, **{"title": "A title", **options})  # type: ignore[arg-type]


def maze_demos() -> Demonstrations:
    frames = np.stack([MAZE] * 6)
    frames[np.arange(6), [1, 1, 1, 2, 3, 3], [1, 2, 3, 3, 3, 3], 4] = 1
    return Demonstrations.from_arrays([frames], [[1, 1, 2, 2, 6]], num_actions=8)


def arm_demos() -> Demonstrations:
    rng = np.random.default_rng(0)
    targets = np.array([1, 0.1, 0.05, 0, 0, 0, 1, -0.1, 0.1])
    frames = np.concatenate([np.tile(targets, (13, 1)), rng.normal(size=(13, 2)).cumsum(0)], axis=1)
    return Demonstrations.from_arrays([frames], [rng.normal(size=(12, 2))])


def every_kind() -> dict[str, Demonstrations]:
    rng = np.random.default_rng(0)
    numbers, vectors = [rng.integers(0, 3, n) for n in (6, 9)], [rng.normal(size=(n, 2)) for n in (6, 9)]
    return {
        "maze": maze_demos(),
        "arm": arm_demos(),
        "image": Demonstrations.from_arrays([rng.random((n + 1, 5, 60, 3)) for n in (6, 9)], vectors),
        "lines": Demonstrations.from_arrays([rng.normal(size=(n + 1, 9)) for n in (6, 9)], numbers),
        "strip of symbols": Demonstrations.from_arrays([rng.integers(0, 5, n + 1) for n in (6, 9)], vectors),
        "strip of actions": Demonstrations.from_arrays(None, numbers),
        "lines of actions": Demonstrations.from_arrays(None, vectors),
        "lines of one step": Demonstrations.from_arrays(None, [np.zeros((1, 2))]),
    }


@pytest.mark.parametrize("kind", every_kind())
@pytest.mark.parametrize("truth", [True, False])
def test_every_kind_is_drawn_its_own_way(kind: str, truth: bool) -> None:
    demos = every_kind()[kind]
    assert kind.startswith(look_of(demos))
    segments = random_segments(demos)
    demos = with_truth_of(demos, segments) if truth else demos
    page = page_of(Shown("a set", demos, segments))
    parser = parse(page)
    assert parser.seen.count("article") == len(demos)
    assert ("true tasks" in page) == ("Which skill serves which task" in page) == truth
    assert "nan" not in page.lower()


def test_worlds_speak_with_their_own_words() -> None:
    demos = maze_demos()
    segments = random_segments(demos)
    page = page_of(Shown("maze", with_truth_of(demos, segments), segments))
    assert "step 4 · action pick south" in page
    for code in segments.skills[0]:
        assert ("heart", "tree", "star")[code] in words_of(page)


def test_nothing_is_fetched_from_elsewhere() -> None:
    sets = [Shown(name, demos, random_segments(demos)) for name, demos in every_kind().items()]
    page = page_of(*sets, history=[{"iteration": i, "seconds": i, "loss": 2.0 - i} for i in range(3)])
    for outside in ("http:", "https:", "url(", "@import", "<script", "<link", "xlink"):
        assert outside not in page
    assert set(re.findall(r'href="(.)', page)) == {"#"}
    assert set(re.findall(r'src="([^,"]*)', page)) == {"data:image/png;base64"}
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(identifiers)


def test_text_from_data_is_harmless() -> None:
    evil = "<script>alert('1')</script>\"&"
    demos, scores = vector_demos(), Scores(1.0, 1.0, 1.0, 1.0)
    page = page_of(Shown(evil, demos, random_segments(demos), scores, evil), title=evil)
    parser = parse(page)
    assert "script" not in parser.seen
    assert evil in "".join(parser.words)
    assert page.count("&lt;script&gt;") >= 5


def test_of_many_the_surprising_ones_are_shown() -> None:
    demos = vector_demos(500)
    segments = random_segments(demos)
    truth = [inner.copy() for inner in segments.boundaries]
    truth[7], truth[130] = truth[7][:1], truth[130][:0]
    demos = demos.with_truth(boundaries=truth)
    for i in (55, 56):
        segments.boundary_probs[i][segments.boundaries[i]] = 0.1
    chosen = choose(segments, demos)
    assert [index for index, why in chosen.items() if why == "wrong"] == [130, 7]
    assert {index for index, why in chosen.items() if why == "least certain"} == {55, 56}
    assert len(chosen) == NUM_SHOWN
    page = page_of(Shown("many", demos, segments))
    assert parse(page).seen.count("article") == NUM_SHOWN
    assert "Shown: 8 of 500. Some with wrong boundaries" in words_of(page)


@pytest.mark.parametrize("num_demos", [1, 2, 8, 9])
@pytest.mark.parametrize("right", ["all", "none", "unknown"])
def test_choices_fill_their_places(num_demos: int, right: str) -> None:
    demos = vector_demos(num_demos)
    segments = random_segments(demos)
    if right != "unknown":
        demos = with_truth_of(demos, segments if right == "all" else random_segments(demos, num_segments=1))
    assert len(choose(segments, demos)) == min(num_demos, NUM_SHOWN)


def test_certainty_is_that_of_the_weakest_step() -> None:
    demos = vector_demos(1)
    segments = dataclasses.replace(
        random_segments(demos),
        boundaries=[np.array([2], np.int32)],
        skills=[np.array([0, 1], np.int32)],
        boundary_probs=[np.array([0, 0, 0.9, 0.3, 0], np.float32)],
    )
    assert certainty(segments, 0) == pytest.approx(0.7)
    assert [tuple(run) for run in segment_runs(segments, 0)] == [(0, 2, 0), (2, 5, 1)]


@pytest.mark.parametrize("num_segments", [20, 1000])
def test_long_demonstrations_stay_small(num_segments: int) -> None:
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays([rng.normal(size=(5001, 4)).cumsum(0)] * 8, [rng.integers(0, 3, 5000)] * 8)
    segments = random_segments(demos, num_segments=num_segments)
    page = page_of(Shown("long", with_truth_of(demos, segments), segments))
    assert parse(page).seen.count("article") == 8
    assert len(page) < 900_000


def test_a_long_walk_stays_small() -> None:
    rng = np.random.default_rng(0)
    frames = np.zeros((5001, 7, 7, 5), np.uint8)
    frames[np.arange(5001), rng.integers(1, 6, 5001), rng.integers(1, 6, 5001), 4] = 1
    demos = Demonstrations.from_arrays([frames], [rng.integers(0, 8, 5000)], num_actions=8)
    assert look_of(demos) == "maze"
    assert len(page_of(Shown("walk", demos, random_segments(demos, num_segments=500)))) < 400_000


def test_each_skill_has_one_colour_all_over_the_page() -> None:
    demos = vector_demos(40)
    page = page_of(Shown("many skills", demos, random_segments(demos, num_skills=40)), num_skills=40)
    defined = re.findall(r"\.k(\d+)\{--c:(#\w{6});", page)
    assert [int(skill) for skill, _ in defined] == list(range(40))
    assert [color for _, color in defined] == skill_colors(40)
    bands = re.findall(r'class="band k(\d+)[^"]*"[^>]*><b>(\d+)</b>', page)
    ends = re.findall(r'<b class="chip k(\d+)">(\d+)</b>', page)
    assert len(bands) > 8
    assert len(ends) > 8
    assert all(colored == number for colored, number in bands + ends)


def test_colours_differ_and_can_be_written_on() -> None:
    colors = skill_colors(32)
    places = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in (*colors, "#ffffff", "#12161c")]
    assert min(np.abs(np.subtract(a, b)).sum() for a, b in itertools.combinations(places, 2)) > 60
    assert skill_colors(5) == colors[:5]
    assert skill_colors(40)[:32] == colors
    assert ink_on("#ffff00") != ink_on("#000080")


def test_numbers_are_those_of_the_scores() -> None:
    demos = vector_demos()
    scores = Evaluation(0.9876, 0.87654, 0.9123, 0.5, 0.3333, None, 0.04567)
    page = page_of(Shown("four", demos, random_segments(demos), scores, "62.0 ± 4.5"))
    rows = re.findall(r'<th scope="row">.*?</tr>', page)
    figures = {re.split("[<>]", row)[2]: re.findall(r'"ours">([^<]*)<', row) for row in rows}
    assert figures["Boundaries hit exactly"] == ["98.8\u00a0%"]
    assert figures["Boundary F1"] == ["87.7\u00a0%"]
    assert figures["Boundary F1, one step off allowed"] == ["91.2\u00a0%"]
    assert figures["Right number of segments"] == ["50.0\u00a0%"]
    assert figures["Actions reconstructed"] == ["33.3\u00a0%"]
    assert figures["Solved by running the skills"] == ["4.6\u00a0%"]
    assert "Whole demonstrations reconstructed" not in figures
    assert "paper 62.0 ± 4.5" in page
    assert "True boundaries hit exactly: 98.8 % in four." in words_of(page)


def test_almost_all_is_not_all() -> None:
    assert per_cent(1.0) == "100.0\u00a0%"
    assert per_cent(0.99999) == ">\u00a099.9\u00a0%"
    assert per_cent(0.9996, 0) == ">\u00a099\u00a0%"
    assert per_cent(None) == per_cent(float("nan")) == "–"


def test_usage_counts_all_demonstrations() -> None:
    demos = vector_demos(100)
    segments = random_segments(demos)
    words = words_of(page_of(Shown("a hundred", demos, segments)))
    skills = np.concatenate(segments.skills)
    for skill, used in enumerate(np.bincount(skills)):
        assert f" {skill} {used} times " in words
        steps = sum(int((labels == skill).sum()) for labels in segments.labels)
        assert per_cent(steps / demos.num_steps).replace("\u00a0", " ") in words


def test_matrix_shows_which_skill_serves_which_task() -> None:
    demos = vector_demos(20)
    segments = random_segments(demos)
    page = page_of(Shown("right", with_truth_of(demos, segments), segments))
    matrix = page[page.index("Which skill serves which task") :]
    matrix = matrix[: matrix.index("</table>")]
    shares = re.findall(r"--share:([\d.]+)", matrix)
    assert np.array(shares, float).reshape(3, 3).tolist() == np.eye(3).tolist()


def test_counts_are_drawn_where_they_were_not_given() -> None:
    demos = vector_demos()
    given = random_segments(demos)
    unknown = dataclasses.replace(given, count_probs=[np.array([0, 0.1, 0.2, 0.7], np.float32)] * 4)
    truth = demos.with_truth(boundaries=[given.boundaries[0], *(inner[:1] for inner in given.boundaries[1:])])
    assert "How many segments" not in page_of(Shown("given", demos, given))
    assert "The number of segments was not given" in page_of(Shown("not given", demos, unknown))
    words = words_of(page_of(Shown("not given", truth, unknown)))
    assert "The number is right in 25.0 % of demonstrations." in words
    assert score_boundaries(unknown.boundaries, truth.truth.boundaries or []).count_accuracy == 0.25


def test_training_is_drawn_from_what_the_log_holds() -> None:
    demos = vector_demos()
    shown = Shown("four", demos, random_segments(demos))
    history = [
        {"iteration": i, "seconds": 0.5 * i, "loss": None if i == 2 else 9.0 - i, "loss_codes": 0.25 * i}
        for i in range(5)
    ]
    history[4]["boundary_accuracy"] = 0.5
    page = page_of(shown, history=history)
    assert "Loss: from 9 to 5" in page
    assert "Loss of codes: from 0 to 1" in page
    assert "4 iterations in 2 seconds." in words_of(page)
    assert "Loss of boundaries" not in page
    assert "Boundary accuracy" not in page
    assert "Training" not in page_of(shown, history=history[:1])


def test_what_a_model_really_finds_is_drawn() -> None:
    demos = vector_demos()
    page = render_page(small_model(), [Shown("untrained", demos, small_model().segment(demos))], title="Untrained")
    assert parse(page).seen.count("article") == len(demos)


def test_files_are_whole_and_not_replaced_unasked(tmp_path: Path) -> None:
    demos = vector_demos()
    shown = Shown("four", demos, random_segments(demos))
    path = write_report(tmp_path / "report.html", model_with(), [shown])
    parse(path.read_text(encoding="utf-8"))
    with pytest.raises(FileExistsError, match="overwrite"):
        write_report(path, model_with(), [shown])
    assert write_report(path, model_with(), [shown], title="Other", overwrite=True) == path
    assert "<h1>Other</h1>" in path.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path / "nowhere" / "report.html", model_with(), [shown])
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_sets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DemonstrationError, match="at least one set"):
        page_of()
    with pytest.raises(DemonstrationError, match="do not belong"):
        page_of(Shown("mixed", vector_demos(3), random_segments(vector_demos(4))))


def test_codes_that_are_vectors_are_drawn_in_groups(tmp_path: Path) -> None:
    """Two groups far apart, of which the second has more segments, and then fewer codes than groups."""
    demos = vector_demos()
    model = model_for(demos)
    gaussian = dataclasses.replace(
        model, config=Config(inference="relaxed", num_segments=2, codes="gaussian", code_dim=2)
    )
    segments = model.segment(demos, 2)
    rng = np.random.default_rng(0)
    centres = np.full((len(demos), 2, 2), 9.0)
    centres[0, 0] = 0.0
    vectors = [
        centre[: len(row)] + 0.01 * rng.normal(size=(len(row), 2))
        for centre, row in zip(centres, segments.skills, strict=True)
    ]
    shown = Shown("some", demos, dataclasses.replace(segments, skills=vectors))
    (grouped,) = in_groups([shown], 2)
    assert [row.tolist() for row in grouped.segments.skills] == [[1, 0]] + [[0, 0]] * (len(demos) - 1)
    path = write_report(tmp_path / "page.html", gaussian, [shown])
    assert "codes of 2 numbers, drawn here in" in " ".join(parse(path.read_text()).words)
    one = dataclasses.replace(segments, skills=[np.ones((len(row), 2)) for row in segments.skills])
    (grouped,) = in_groups([dataclasses.replace(shown, segments=one)], 10)
    assert not np.concatenate(grouped.segments.skills).any()
