"""`compile-il evaluate`: all scores of a model on unseen levels of a world, or on demonstrations in files."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from compile_il.cli.console import check_numbers, say
from compile_il.cli.generate import WorldName
from compile_il.cli.segment import BestOption, DecoderOption
from compile_il.evaluate import TEST_SEED, Evaluation
from compile_il.report.scores import LABEL_HEADINGS, SCORE_HEADINGS
from compile_il.worlds import make_world, with_num_tasks

if TYPE_CHECKING:
    from compile_il.demos import Demonstrations
    from compile_il.worlds import World

PAPER_ROW = "  in the paper"


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained model on unseen levels of a world, or on demonstrations.

    compile-il evaluate runs/pickup --num-tasks 3 5 10

    compile-il evaluate runs/mine --demos test.npz
    """

    model: Annotated[Path, tyro.conf.arg(metavar="MODEL"), tyro.conf.Positional]
    """The folder of a model, or of the run that made it."""
    world: Annotated[WorldName | None, tyro.conf.arg(metavar="WORLD", help_behavior_hint="(default: its own)")] = None
    """grid-pickup, grid-visit (each also with -window), reacher or symbols; by default the one it was trained in."""
    demos: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DEMOS...", help_behavior_hint="(default: none)")] = ()
    """Files of demonstrations with their truth, in place of levels of a world."""
    num_tasks: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT...")] = (3, 5)
    """Lengths of task lists; one column of scores for each."""
    num_demos: int = 1024
    """Number of levels for each length of task lists."""
    seed: int = TEST_SEED
    """Seed of the levels."""
    count_unknown: bool = False
    """Do not tell the model how many segments there are."""
    decoder: DecoderOption = None
    """`exact` sums over all segmentations; `recognition` asks the recognition model, which relaxed training makes."""
    best: BestOption = None
    """With `exact`: find the `boundaries` of which most should be right, or the most probable `path`."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A file for the scores, as JSON."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Scores, prints a table and writes the file."""
        from compile_il.evaluate import evaluate
        from compile_il.files import check_target
        from compile_il.model_files import load
        from compile_il.results import Measurement

        check_numbers(self.num_demos, self.seed)
        if not self.num_tasks or len(set(self.num_tasks)) < len(self.num_tasks):
            raise ValueError("--num-tasks: give lengths of task lists, each once, such as 3 5.")
        if self.demos and self.world is not None:
            raise ValueError("--demos and --world: score the model on one or on the other.")
        if self.out is not None:
            check_target(self.out, overwrite=self.overwrite)
        model, measurement, scores = load(self.model), Measurement(), {}
        levels = self._files() if self.demos else self._worlds(model.world)
        how: dict[str, Any] = {"decoder": self.decoder, "best": self.best}
        count: Literal["unknown", "true"] = "unknown" if self.count_unknown else "true"
        for name, place in levels.items():
            with console.status(name):
                scores[name] = evaluate(model, place, num_demos=self.num_demos, seed=self.seed, count=count, **how)
        console.print(score_table(scores))
        say(console, f"The model was {'not ' if self.count_unknown else ''}told how many segments there are.")
        if self.out is not None:
            config = {
                "settings": model.settled.to_json(),
                "levels": {name: str(place) for name, place in levels.items()},
                "count": count,
                **({} if self.demos else self._of_levels()),
                "decoder": model.choose_decoder(self.decoder, self.best),
                "best": self.best,
            }
            figures = {name: score._asdict() for name, score in scores.items()}
            measurement.write(self.out, config=config, seeds=[model.config.seed], figures=figures)
            say(console, "Saved to ", (str(self.out), "bold"))

    def _files(self) -> "dict[str, Demonstrations]":
        """Returns the demonstrations in the files, by the files' names."""
        from compile_il.demos import Demonstrations

        names = [path.stem for path in self.demos]
        if len(set(names)) < len(names):
            names = [str(path) for path in self.demos]
        return {name: Demonstrations.load(path) for name, path in zip(names, self.demos, strict=True)}

    def _worlds(self, trained_in: str | None) -> "dict[str, World]":
        """Returns the world with task lists of each length, by name."""
        name = self.world or trained_in
        if name is None:
            raise ValueError(
                "The model was trained on data: say in which world to score it (--world), or on which data (--demos)."
            )
        return {f"{name}, {tasks} tasks": with_num_tasks(make_world(name), tasks) for tasks in self.num_tasks}

    def _of_levels(self) -> dict[str, Any]:
        """Returns the settings that fresh levels depend on."""
        return {"num_tasks": list(self.num_tasks), "num_demos": self.num_demos, "test_seed": self.seed}


def score_table(scores: dict[str, Evaluation], paper: dict[str, str] | None = None) -> Table:
    """Returns scores in per cent, a column per set of levels; the paper's boundary accuracy below ours, if given."""
    table = Table("per cent")
    for name in scores:
        table.add_column(name.replace(", ", "\n"), justify="right")
    for name, field in (SCORE_HEADINGS | LABEL_HEADINGS).items():
        values = [getattr(score, field) for score in scores.values()]
        if any(value is not None for value in values):
            table.add_row(name, *("-" if value is None else f"{100 * value:.1f}" for value in values))
        if field == "boundary_accuracy" and paper is not None:
            table.add_row(PAPER_ROW, *(paper.get(name, "-") for name in scores))
    return table
