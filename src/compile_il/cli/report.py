"""`compile-il report`: a page that shows what a model found."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from compile_il.cli.console import say
from compile_il.cli.segment import BestOption, DecoderOption, SegmentOption

if TYPE_CHECKING:
    from compile_il.evaluate import Evaluation
    from compile_il.metrics import Scores


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
        from compile_il.demos import Demonstrations
        from compile_il.evaluate import evaluate_found, score_model
        from compile_il.files import check_target
        from compile_il.model_files import load
        from compile_il.report.page import Shown, write_report
        from compile_il.training_log import read_log

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
                scores = evaluate_found(model, found, demos)
            sets.append(Shown(path.stem, demos, found, scores))
        title = f"Skills of {self.model.name}"
        write_report(self.out, model, sets, title=title, history=read_log(self.model), overwrite=self.overwrite)
        say(console, "Written: ", (str(self.out), "bold"))
