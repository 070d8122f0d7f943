"""Makes demonstrations of a world (`compile-il generate`), and segments demonstrations (`compile-il segment`)."""

import csv
import dataclasses
import functools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from compile_il.cli.console import check_numbers, say
from compile_il.config import Best, Decoder

if TYPE_CHECKING:
    from compile_il.data.segments import SegmentRow, Segments


WorldName = Literal["grid-pickup", "grid-visit", "reacher", "symbols", "grid-pickup-window", "grid-visit-window"]
"""Names of the worlds in `compile_il.worlds.WORLDS`, as a type that tyro reads."""


def _unset(metavar: str, default: str) -> Any:
    """Returns how help shows an option whose default depends on the world: what to type, and what holds otherwise."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclasses.dataclass(frozen=True)
class WorldOptions:
    """Options of worlds; each world takes those that it has."""

    max_steps: Annotated[int | None, _unset("INT", "200; reacher: 100")] = None
    """Cut demonstrations here; the paper trains its grid world with 42."""
    num_types: Annotated[int | None, _unset("INT", "10")] = None
    """Grids, reacher: types that objects or targets are drawn from."""
    num_objects: Annotated[int | None, _unset("INT", "6")] = None
    """Grids: objects in a level."""
    distinct_types: bool = False
    """Grids: no two objects of a level share a type."""
    size: Annotated[int | None, _unset("INT", "10")] = None
    """Grids: cells along a side, the border included."""
    wall_rate: Annotated[float | None, _unset("FLOAT", "0.2")] = None
    """Grids: probability that an inner wall of the maze is kept."""
    window: Annotated[int | None, _unset("INT", "5")] = None
    """Grids seen through a window: cells along a side of it."""
    max_targets: Annotated[int | None, _unset("INT", "6")] = None
    """Reacher: most targets in a level."""
    expert_gain: Annotated[float | None, _unset("FLOAT", "1.0")] = None
    """Reacher: how hard the expert pulls; at 1 it slows down before a target, at 4 it no longer does."""
    num_symbols: Annotated[int | None, _unset("INT", "5")] = None
    """Symbols: how many there are to draw from."""
    max_repeats: Annotated[int | None, _unset("INT", "4")] = None
    """Symbols: the most times that a symbol comes in a row."""

    def given(self) -> dict[str, Any]:
        """Returns the options that were typed."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


@dataclasses.dataclass(frozen=True)
class Generate:
    """Write expert demonstrations of a world to a file.

    compile-il generate grid-pickup --num-demos 1000 --num-tasks 3 --out pickup.npz
    """

    world: Annotated[WorldName, tyro.conf.arg(metavar="WORLD"), tyro.conf.Positional]
    """Which world: grid-pickup, grid-visit, reacher, symbols, or a grid seen through a window, such as
    grid-pickup-window."""
    out: Path
    """The file to write: an npz of plain arrays, which `compile_il.Demonstrations.load` reads."""
    num_demos: int = 1000
    """Number of demonstrations."""
    num_tasks: int = 3
    """Number of tasks in each demonstration."""
    seed: int = 0
    """Seed of the demonstrations."""
    overwrite: bool = False
    """Replace the file if it exists."""
    options: Annotated[WorldOptions, tyro.conf.arg(name="")] = WorldOptions()

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then generates, then writes."""
        from compile_il.data.files import SUFFIX, check_target
        from compile_il.worlds import make_world
        from compile_il.worlds.demonstrate import demonstrate

        target = check_target(self.out, overwrite=self.overwrite, suffix=SUFFIX)
        world = make_world(self.world, num_tasks=self.num_tasks, **self.options.given())
        check_numbers(self.num_demos, self.seed)
        began = time.perf_counter()
        times = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        with Progress(TextColumn("{task.description}"), BarColumn(), *times, console=console) as progress:
            bar = progress.add_task(f"{self.world}, {self.num_tasks} tasks", total=self.num_demos)
            shown = functools.partial(progress.update, bar)
            demos = demonstrate(
                world, num_demos=self.num_demos, seed=self.seed, on_progress=lambda made: shown(completed=made)
            )
        generated = time.perf_counter() - began
        with console.status("saving"):
            path = demos.save(target, overwrite=self.overwrite)
        say(console, (str(path), "bold"), f"  {path.stat().st_size / 1e6:.1f} MB, made in {generated:.1f} s")
        say(console, repr(demos))


SegmentOption = Annotated[
    int | Literal["unknown"] | None,
    tyro.conf.arg(metavar="INT|unknown", help_behavior_hint="(default: as the model was trained)"),
]


DecoderOption = Annotated[
    Decoder | None,
    tyro.conf.arg(metavar="exact|recognition", help_behavior_hint="(default: as the model was trained)"),
]


BestOption = Annotated[
    Best | None, tyro.conf.arg(metavar="boundaries|path", help_behavior_hint="(default: boundaries)")
]


@dataclasses.dataclass(frozen=True)
class Segment:
    """Find boundaries and skills in demonstrations with a trained model.

    compile-il segment runs/pickup pickup.npz --out segments.jsonl
    """

    model: Annotated[Path, tyro.conf.arg(metavar="MODEL"), tyro.conf.Positional]
    """The folder of a model, or of the run that made it."""
    demos: Annotated[Path, tyro.conf.arg(metavar="DEMOS"), tyro.conf.Positional]
    """A file of demonstrations."""
    out: Path
    """The file to write: a JSON line for each demonstration or, where its name ends in .csv, a row for each segment."""
    num_segments: SegmentOption = None
    """Segments of each demonstration, or `unknown` to find their number too."""
    max_segments: int | None = None
    """The most segments to consider where their number is unknown; by default as in training."""
    decoder: DecoderOption = None
    """`exact` sums over all segmentations; `recognition` asks the recognition model, which relaxed training makes."""
    best: BestOption = None
    """With `exact`: find the `boundaries` of which most should be right, or the most probable `path`."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then segments, then writes."""
        from compile_il.data import Demonstrations
        from compile_il.data.files import check_target, write_atomically
        from compile_il.evaluation.evaluate import label_fields, score_model, true_counts
        from compile_il.evaluation.metrics import score
        from compile_il.model.files import load

        target = check_target(self.out, overwrite=self.overwrite)
        model, demos = load(self.model), Demonstrations.load(self.demos)
        how: Any = {"decoder": self.decoder, "best": self.best, "max_segments": self.max_segments}
        with console.status("segmenting"):
            found = model.segment(demos, self.num_segments, **how)
        with write_atomically(target) as temporary:
            write = write_table if target.suffix.lower() == ".csv" else write_lines
            write(found, temporary)
        say(console, (str(target), "bold"), f"  {found.num_segments.sum()} segments in {len(demos)} demonstrations")
        if demos.truth.boundaries is not None:
            labelled = demos.labels is not None
            scores = score_model(model, demos, self.num_segments, **how) if labelled else score(found, demos)
            say(
                console,
                f"{100 * scores.boundary_accuracy:.1f} % of true boundaries hit, F1 {100 * scores.f1:.1f} %, number of "
                f"segments right in {100 * scores.count_accuracy:.1f} %",
            )
            # Agreement says nothing of skills that labels give.
            if demos.labels is None and demos.truth.codes is not None and model.config.codes == "categorical":
                agree = label_fields(found.labels, demos)
                say(
                    console,
                    f"skills agree with true codes in {100 * agree['agreement']:.1f} % of steps, and by chance in "
                    f"{100 * agree['agreement_by_chance']:.1f} %",
                )
            trained, true = model.resolved.num_segments, true_counts(demos)
            if self.num_segments is None and trained is not None and true.count(trained) < len(true) / 2:
                say(console, "The truth has other numbers of segments than the model was trained with: --num-segments")


def write_table(found: "Segments", path: Path) -> None:
    """Writes `Segments.rows` as CSV; a Gaussian code has a column for each of its numbers: skill_0, skill_1, ..."""
    rows = [_flat(row) for row in found.rows()]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _flat(row: "SegmentRow") -> dict[str, Any]:
    """Returns the record of a segment with one number in each field."""
    fields: dict[str, Any] = dict(row)
    if isinstance(row["skill"], list):
        fields.update({f"skill_{i}": number for i, number in enumerate(fields.pop("skill"))})
    return fields


def write_lines(found: "Segments", path: Path) -> None:
    """Writes one JSON object a line for each demonstration."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records_of(found)))


def records_of(found: "Segments") -> list[dict[str, Any]]:
    """Returns segments as plain values, one record per demonstration."""
    return [
        {
            "boundaries": found.boundaries[i].tolist(),
            "skills": found.skills[i].tolist(),
            "num_segments": len(found.skills[i]),
            "labels": found.labels[i].tolist(),
            "count_probs": [round(float(p), 6) for p in found.count_probs[i]],
            "log_likelihood": float(found.log_likelihood[i]),
            "boundary_probs": [round(float(p), 6) for p in found.boundary_probs[i]],
        }
        for i in range(len(found.skills))
    ]
