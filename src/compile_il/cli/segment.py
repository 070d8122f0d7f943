"""`compile-il segment`: boundaries and skills of demonstrations, in a file."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from compile_il.cli.console import say
from compile_il.decoders import Best, Decoder

if TYPE_CHECKING:
    from compile_il.segments import SegmentRow, Segments

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
        from compile_il.demos import Demonstrations
        from compile_il.evaluate import label_fields, score_model, true_counts
        from compile_il.files import check_target, replace_file
        from compile_il.model_files import load
        from compile_il.segments import score

        target = check_target(self.out, overwrite=self.overwrite)
        model, demos = load(self.model), Demonstrations.load(self.demos)
        how: Any = {"decoder": self.decoder, "best": self.best, "max_segments": self.max_segments}
        with console.status("segmenting"):
            found = model.segment(demos, self.num_segments, **how)
        with replace_file(target) as temporary:
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
            # Of skills that labels told it would say nothing.
            if demos.labels is None and demos.truth.codes is not None and model.config.codes == "categorical":
                agree = label_fields(found.labels, demos)
                say(
                    console,
                    f"skills agree with true codes in {100 * agree['agreement']:.1f} % of steps, and by chance in "
                    f"{100 * agree['agreement_by_chance']:.1f} %",
                )
            told, true = model.settled.num_segments, true_counts(demos)
            if self.num_segments is None and told is not None and true.count(told) < len(true) / 2:
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
    """Writes what was found as one JSON object a line for each demonstration."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records_of(found)))


def records_of(found: "Segments") -> list[dict[str, Any]]:
    """Returns what was found as plain values, one record per demonstration."""
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
