"""Scores a model (`compile-il evaluate`), draws what it finds (`report`), and runs an agent (`play`)."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from compile_il.cli.console import check_numbers, say
from compile_il.cli.data import BestOption, DecoderOption, SegmentOption, WorldName
from compile_il.config import MAX_SEED, TEST_SEED

if TYPE_CHECKING:
    from compile_il.data import Demonstrations
    from compile_il.evaluation.evaluate import Evaluation
    from compile_il.evaluation.metrics import Scores
    from compile_il.rl.player import Player, PlayerScores
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
        from compile_il.data.files import check_target
        from compile_il.evaluation.evaluate import evaluate
        from compile_il.evaluation.results import Measurement
        from compile_il.model.files import load

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
        say(console, f"The number of segments was {'not ' if self.count_unknown else ''}given.")
        if self.out is not None:
            config = {
                "settings": model.resolved.to_json(),
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
        from compile_il.data import Demonstrations

        names = [path.stem for path in self.demos]
        if len(set(names)) < len(names):
            names = [str(path) for path in self.demos]
        return {name: Demonstrations.load(path) for name, path in zip(names, self.demos, strict=True)}

    def _worlds(self, trained_in: str | None) -> "dict[str, World]":
        """Returns the world with task lists of each length, by name."""
        from compile_il.worlds import make_world, with_num_tasks

        name = self.world or trained_in
        if name is None:
            raise ValueError(
                "The model was trained on data: say in which world to score it (--world), or on which data (--demos)."
            )
        return {f"{name}, {tasks} tasks": with_num_tasks(make_world(name), tasks) for tasks in self.num_tasks}

    def _of_levels(self) -> dict[str, Any]:
        """Returns the settings that fresh levels depend on."""
        return {"num_tasks": list(self.num_tasks), "num_demos": self.num_demos, "test_seed": self.seed}


def score_table(scores: "dict[str, Evaluation]", paper: dict[str, str] | None = None) -> Table:
    """Returns scores in per cent, a column per set of levels; the paper's boundary accuracy below ours, if given."""
    from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS

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


@dataclasses.dataclass(frozen=True)
class Report:
    """Show what a model finds in demonstrations, on one self-contained page.

    compile-il report runs/pickup pickup.npz --out report.html
    """

    model: Annotated[Path, tyro.conf.arg(metavar="MODEL"), tyro.conf.Positional]
    """The folder of a model, or of the run that made it."""
    demos: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(metavar="DEMOS...", help_behavior_hint="(at least one)"),
        tyro.conf.Positional,
    ]
    """Files of demonstrations."""
    out: Path = Path("report.html")
    """The page to write."""
    num_segments: SegmentOption = None
    """Segments of each demonstration, or `unknown` to find their number too."""
    decoder: DecoderOption = None
    """`exact` sums over all segmentations; `recognition` asks the recognition model, which relaxed training makes."""
    best: BestOption = None
    """With `exact`: find the `boundaries` of which most should be right, or the most probable `path`."""
    overwrite: bool = False
    """Replace the page if it exists."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then segments, then writes."""
        from compile_il.data import Demonstrations
        from compile_il.data.files import check_target
        from compile_il.evaluation.evaluate import evaluate_segments, score_model
        from compile_il.model.files import load
        from compile_il.report.page import write_report
        from compile_il.report.summary import Shown
        from compile_il.training.log import read_log

        check_target(self.out, overwrite=self.overwrite)
        if not self.demos:
            raise ValueError("There are no demonstrations to show: name at least one file.")
        model, sets = load(self.model), []
        how: Any = {"decoder": self.decoder, "best": self.best}
        for path in self.demos:
            demos = Demonstrations.load(path)
            found = model.segment(demos, self.num_segments, **how)
            scores: Evaluation | Scores | None = None
            if demos.truth.boundaries is not None and demos.labels is not None:
                scores = score_model(model, demos, self.num_segments, **how)
            elif demos.truth.boundaries is not None:
                scores = evaluate_segments(model, found, demos)
            sets.append(Shown(path.stem, demos, found, scores))
        title = f"Skills of {self.model.name}"
        write_report(self.out, model, sets, title=title, history=read_log(self.model), overwrite=self.overwrite)
        say(console, "Written: ", (str(self.out), "bold"))


WAYS = {"drawn": True, "most probable": False}
"""Ways to choose options, by heading, each with the argument `sample` of `Player.evaluate` that means it."""


@dataclasses.dataclass(frozen=True)
class Play:
    """Let an agent that has learned play on levels that it has not seen.

    compile-il play runs/agent --watch 1
    """

    agent: Annotated[Path, tyro.conf.arg(metavar="AGENT"), tyro.conf.Positional]
    """The folder of a run of `compile-il rl`, or of an agent that was saved."""
    num_tasks: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: as it learned)")] = None
    """Number of tasks in each level."""
    num_levels: int = 1024
    """Number of levels."""
    seed: int = TEST_SEED
    """Seed of the levels."""
    watch: int = 0
    """Number of episodes to show as text, step by step."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A file for the scores, as JSON."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Plays, prints a table and writes the file."""
        from compile_il.data.files import check_target
        from compile_il.evaluation.results import Measurement
        from compile_il.rl.player import load_player

        if self.watch < 0 or not 0 <= self.seed <= MAX_SEED:
            raise ValueError(
                f"--watch is {self.watch} and --seed {self.seed}: use 0 or more, and a seed up to {MAX_SEED}."
            )
        if self.out is not None:
            check_target(self.out, overwrite=self.overwrite)
        player, measurement = with_tasks(load_player(self.agent), self.num_tasks), Measurement()
        for number in range(self.watch):
            show_episode(player, self.seed + number, console)
        with console.status(f"{self.num_levels} levels"):
            found = {
                way: player.evaluate(num_levels=self.num_levels, seed=self.seed, sample=sample)
                for way, sample in WAYS.items()
            }
        console.print(played_table(found))
        if self.out is not None:
            config = {"settings": player.config.to_json(), "world": str(player.world), "test_seed": self.seed}
            measurement.write(
                self.out,
                config=config | {"num_levels": self.num_levels},
                seeds=[player.config.seed],
                figures={way: played._asdict() for way, played in found.items()},
            )
            say(console, "Saved to ", (str(self.out), "bold"))


def with_tasks(player: "Player", num_tasks: int | None) -> "Player":
    """Returns the same agent on lists of so many tasks; as it is if None."""
    from compile_il.worlds import GridWorld, with_num_tasks

    if num_tasks is None:
        return player
    if player.config.agent == "bc":
        raise ValueError("This agent reads lists of as many tasks as it learned with: leave out --num-tasks.")
    if not isinstance(player.world, GridWorld):
        raise ValueError("This agent acts in an environment of its own: leave out --num-tasks.")
    return dataclasses.replace(player, world=with_num_tasks(player.world, num_tasks))


def show_episode(player: "Player", seed: int, console: Console) -> None:
    """Prints one episode as text: each option that is drawn, and where it led."""
    import numpy as np

    from compile_il.worlds.drawing import OBJECT_LETTERS
    from compile_il.worlds.grid import ACTION_NAMES

    env, rng = player.make_env("ansi"), np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    tasks = " ".join(OBJECT_LETTERS[task] for task in info["tasks"])
    say(console, (f"Level {seed}", "bold"), f": {tasks}")
    say(console, str(env.render()))
    over = False
    while not over:
        task = f"{info['task_name']} ({OBJECT_LETTERS[info['task']]})"
        option = player.choose(observation, info["tasks"][info["task_index"] :], rng=rng)
        observation, _, terminated, truncated, info = env.step(option)
        over = terminated or truncated
        what = ACTION_NAMES[option] if option < len(ACTION_NAMES) else f"skill {option - len(ACTION_NAMES)}"
        num_steps = info.get("num_steps", 1)
        say(console, f"\n{task}: ", (what, "bold"), "" if num_steps == 1 else f", {num_steps} steps")
        say(console, str(env.render()))
    say(console, "all done" if info["success"] else "not all done", "\n")


def played_table(found: "dict[str, PlayerScores]") -> Table:
    """Returns a table of scores with one column for each way to choose options."""
    table = Table("options", *found)
    for column in table.columns[1:]:
        column.justify = "right"
    for heading, field, factor in (
        ("levels solved, %", "success", 100),
        ("reward", "reward", 1),
        ("steps", "num_steps", 1),
        ("decisions", "num_decisions", 1),
        ("of these skills, %", "skill_share", 100),
    ):
        table.add_row(heading, *(f"{factor * getattr(played, field):.1f}" for played in found.values()))
    return table
