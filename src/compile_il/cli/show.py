"""Segments demonstrations with a model (`compile-il segment`), scores it (`evaluate`), writes a page (`report`)."""

import csv
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Column, Table

import compile_il as cil
from compile_il.cli.console import WorldName, check_numbers, option, say
from compile_il.config import TEST_SEED, Best, CompileError, Decoder

SegmentOption = Annotated[int | Literal["unknown"] | None, option("INT|unknown", "as the model was trained")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of all commands that segment with a trained model."""

    model: Annotated[Path, tyro.conf.arg(metavar="MODEL"), tyro.conf.Positional]
    """The folder of a model, or of the run that made it."""
    decoder: Annotated[Decoder | None, option("exact|recognition", "as the model was trained")] = None
    """`exact` sums over all segmentations; `recognition` uses the recognition model of relaxed training."""
    best: Annotated[Best | None, option("boundaries|path", "boundaries")] = None
    """With `exact`: the `boundaries` most likely to be right, or the most probable segmentation (`path`)."""
    overwrite: bool = False
    """Replace the file if it exists."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment(ModelOptions):
    """Segment demonstrations with a trained model.

    compile-il segment runs/pickup pickup.npz --out segments.jsonl
    """

    demos: Annotated[Path, tyro.conf.arg(metavar="DEMOS"), tyro.conf.Positional]
    """A file of demonstrations."""
    out: Path
    """The file to write: a JSON line for each demonstration or, where its name ends in .csv, a row for each segment."""
    num_segments: SegmentOption = None
    """Segments of each demonstration, or `unknown` to infer their number too."""
    max_segments: int | None = None
    """The most segments to consider where their number is unknown; by default as in training."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then segments, then writes."""
        from compile_il.data.files import check_target, write_atomically
        from compile_il.evaluation.evaluate import label_scores, score_model

        target = check_target(self.out, overwrite=self.overwrite, suffix=".jsonl")
        if target.suffix.lower() not in (".jsonl", ".json", ".csv"):
            raise CompileError(f"{target} has the ending {target.suffix}: use .jsonl, .json (JSON lines too) or .csv.")
        model, demos = cil.load(self.model), cil.Demonstrations.load(self.demos)
        how: Any = {"decoder": self.decoder, "best": self.best, "max_segments": self.max_segments}
        with console.status("segmenting"):
            segments = model.segment(demos, self.num_segments, **how)
        with write_atomically(target) as temporary:
            write_segments(segments, temporary, as_table=target.suffix.lower() == ".csv")
        say(console, (str(target), "bold"), f"  {segments.num_segments.sum()} segments in {len(demos)} demonstrations")
        truth, labelled = demos.truth, demos.labels is not None
        if truth.boundaries is None:
            return
        scores = score_model(model, demos, self.num_segments, **how) if labelled else cil.score(segments, demos)
        hit, f1, _, right = (f"{100 * share:.1f} %" for share in scores)
        say(console, f"{hit} of true boundaries hit, F1 {f1}, number of segments right in {right}")
        # Agreement says nothing of skills that labels give.
        if not labelled and truth.codes is not None and model.config.codes == "categorical":
            shares = {name: f"{100 * share:.1f} %" for name, share in label_scores(segments.labels, demos).items()}
            words = f"{shares['agreement']} of steps, and by chance in {shares['agreement_by_chance']}"
            say(console, f"skills agree with true codes in {words}")


def write_segments(segments: "cil.Segments", path: Path, *, as_table: bool) -> None:
    """Writes a JSON object a line for each demonstration, or `Segments.rows` as CSV.

    In the table a Gaussian code has a column for each of its numbers: skill_0, skill_1, ...
    """
    with open(path, "w", newline="", encoding="utf-8") as file:
        if as_table:
            rows: list[dict[str, Any]] = [dict(row) for row in segments.rows()]
            for row in rows:
                if isinstance(row["skill"], list):
                    row |= {f"skill_{i}": number for i, number in enumerate(row.pop("skill"))}
            table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
            return
        for i, skills in enumerate(segments.skills):
            record = {
                "boundaries": segments.boundaries[i].tolist(),
                "skills": skills.tolist(),
                "num_segments": len(skills),
                "labels": segments.labels[i].tolist(),
                "count_probs": [round(float(p), 6) for p in segments.count_probs[i]],
                "log_likelihood": float(segments.log_likelihood[i]),
                "boundary_probs": [round(float(p), 6) for p in segments.boundary_probs[i]],
            }
            file.write(json.dumps(record) + "\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(ModelOptions):
    """Score a trained model on unseen levels of a world, or on demonstrations.

    compile-il evaluate runs/pickup --num-tasks 3 5 10

    compile-il evaluate runs/mine --demos test.npz
    """

    world: Annotated[WorldName | None, option("WORLD", "its own")] = None
    """grid-pickup, grid-visit (each also with -window), reacher or symbols; by default the one it was trained in."""
    demos: Annotated[tuple[Path, ...], option("DEMOS...", "none")] = ()
    """Files of demonstrations with their truth, in place of levels of a world."""
    num_tasks: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT...")] = (3, 5)
    """Lengths of task lists; one column of scores for each."""
    num_demos: int = 1024
    """Number of levels for each length of task lists."""
    seed: int = TEST_SEED
    """Seed of the levels."""
    count_unknown: bool = False
    """Do not give the model the number of segments."""
    out: Annotated[Path | None, option("PATH", "none")] = None
    """A file for the scores, as JSON."""

    def run(self, console: Console) -> None:
        """Scores, prints a table and writes the file."""
        from compile_il.data.files import check_target
        from compile_il.evaluation.results import Measurement
        from compile_il.worlds import with_num_tasks

        check_numbers(self.num_demos, self.seed)
        if not self.num_tasks:
            raise CompileError("--num-tasks: give lengths of task lists, such as 3 5.")
        if self.demos and self.world is not None:
            raise CompileError("--demos and --world: score the model on one or on the other.")
        if self.out is not None:
            check_target(self.out, overwrite=self.overwrite)
        model, measurement = cil.load(self.model), Measurement()
        levels: dict[str, Any] = load_sets(self.demos)
        if not self.demos:
            if (name := self.world or model.world) is None:
                raise CompileError(
                    "The model was trained on data: say where to score it, with --world or with --demos."
                )
            world = cil.make_world(name)
            levels = {f"{name}, {tasks} tasks": with_num_tasks(world, tasks) for tasks in self.num_tasks}
        how: Any = {"decoder": self.decoder, "best": self.best, "count": "unknown" if self.count_unknown else "true"}
        scores = {}
        for name, place in levels.items():
            with console.status(name):
                scores[name] = cil.evaluate(model, place, num_demos=self.num_demos, seed=self.seed, **how)
        console.print(score_table(scores))
        say(console, f"The number of segments was {'not ' if self.count_unknown else ''}given.")
        if self.out is not None:
            drawn = {"num_tasks": list(self.num_tasks), "num_demos": self.num_demos, "test_seed": self.seed}
            config = how | {
                "settings": model.resolved.to_json(),
                "levels": {name: str(place) for name, place in levels.items()},
                "decoder": model.choose_decoder(self.decoder, self.best),
                **({} if self.demos else drawn),
            }
            figures = {name: score._asdict() for name, score in scores.items()}
            measurement.write(self.out, config=config, seeds=[model.config.seed], figures=figures)
            say(console, "Saved to ", (str(self.out), "bold"))


def load_sets(paths: Iterable[Path]) -> "dict[str, cil.Demonstrations]":
    """Reads files of demonstrations, by their names without folders where these are distinct."""
    sets = {path: cil.Demonstrations.load(path) for path in paths}
    distinct = len({path.stem for path in sets}) == len(sets)
    return {path.stem if distinct else str(path): demos for path, demos in sets.items()}


def score_table(scores: "dict[str, cil.Evaluation]", paper: dict[str, str] | None = None) -> Table:
    """Returns scores in per cent, a column per set of levels, with the paper's boundary accuracy below, if given."""
    from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS

    table = Table("per cent", *(Column(name.replace(", ", "\n"), justify="right") for name in scores))
    for name, field in (SCORE_HEADINGS | LABEL_HEADINGS).items():
        values = [getattr(score, field) for score in scores.values()]
        if any(value is not None for value in values):
            table.add_row(name, *("-" if value is None else f"{100 * value:.1f}" for value in values))
        if field == "boundary_accuracy" and paper is not None:
            table.add_row("  in the paper", *(paper.get(name, "-") for name in scores))
    return table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report(ModelOptions):
    """Show the segments of demonstrations on one self-contained page.

    compile-il report runs/pickup pickup.npz --out report.html
    """

    demos: Annotated[tuple[Path, ...], option("DEMOS...", "none"), tyro.conf.Positional]
    """Files of demonstrations, at least one."""
    out: Path = Path("report.html")
    """The page to write."""
    num_segments: SegmentOption = None
    """Segments of each demonstration, or `unknown` to infer their number too."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then segments, then writes."""
        from compile_il.data.files import check_target
        from compile_il.evaluation.evaluate import evaluate_segments, score_model
        from compile_il.report.page import Shown, write_report
        from compile_il.training.runs import read_log

        check_target(self.out, overwrite=self.overwrite)
        if not self.demos:
            raise CompileError("There are no demonstrations to show: name at least one file.")
        model, sets = cil.load(self.model), []
        how: Any = {"decoder": self.decoder, "best": self.best}
        for name, demos in load_sets(self.demos).items():
            segments = model.segment(demos, self.num_segments, **how)
            scores: Any = None
            if demos.truth.boundaries is not None and demos.labels is not None:
                scores = score_model(model, demos, self.num_segments, **how)
            elif demos.truth.boundaries is not None:
                scores = evaluate_segments(model, segments, demos)
            sets.append(Shown(name, demos, segments, scores))
        title = f"Skills of {self.model.name}"
        write_report(self.out, model, sets, title=title, history=read_log(self.model), overwrite=self.overwrite)
        say(console, "Written: ", (str(self.out), "bold"))
