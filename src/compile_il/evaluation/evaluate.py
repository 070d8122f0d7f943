"""Scores a model on unseen levels of a world, or on demonstrations with known truth."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from compile_il.config import TEST_SEED, Best, Decoder
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.segment_counts import whole_counts
from compile_il.data.segments import Segments
from compile_il.data.spaces import check_space
from compile_il.evaluation.execute import reconstruct, repeat_first, run_all
from compile_il.evaluation.metrics import Labels, Scores, score, score_labels, step_labels, true_boundaries
from compile_il.model.model import Model, SegmentCount
from compile_il.worlds import World, make_world, with_num_tasks
from compile_il.worlds.demonstrate import demonstrate, draw_levels
from compile_il.worlds.world import key_of


class Evaluation(NamedTuple):
    """Scores of a model, shares between 0 and 1; None where a score has no meaning for the world."""

    boundary_accuracy: float
    f1: float
    f1_tolerance_1: float
    count_accuracy: float
    reconstruction: float | None
    exact_match: float | None
    online: float | None
    """Share of levels solved by running the inferred skills in the world."""
    agreement: float | None = None
    """Agreement of skills with the things that tasks are about; this and those below as in `metrics.LabelScores`."""
    nmi: float | None = None
    mean_iou: float | None = None
    segmental_f1_50: float | None = None
    agreement_by_chance: float | None = None
    nmi_by_chance: float | None = None


def evaluate(
    model: Model,
    world: str | World | Demonstrations,
    *,
    num_tasks: int | None = None,
    num_demos: int = 1024,
    seed: int = TEST_SEED,
    count: SegmentCount | Literal["true"] = "true",
    decoder: Decoder | None = None,
    best: Best | None = None,
) -> Evaluation:
    """Scores a model on levels it has not seen, or on demonstrations with known truth.

    Args:
      model: trained in the same world, or on such demonstrations.
      world: the world, or its name; or demonstrations, whose labels are not looked at. Without a world to act in, there
        is no `online`.
      num_tasks: of a world, tasks of each demonstration; as many as the world has if None. Where each thing is picked
        up or touched only once, there are at least as many things.
      num_demos: of a world, how many demonstrations to make.
      seed: of a world, what its levels are drawn with.
      count: how many segments to find: "true" for as many as there are, or what else `Model.segment` takes.
      decoder: how to find them, as for `Model.segment`; by default as the model was trained.
      best: what an exact decoder returns, as for `Model.segment`.
    """
    # All that can be refused is refused before levels are made.
    if not isinstance(model, Model):
        raise DemonstrationError(
            f"A model is needed, and this is a {type(model).__name__}: read one with cil.load(folder)."
        )
    model.choose_decoder(decoder, best)
    if not (count is None or (isinstance(count, str) and count in ("true", "unknown"))):
        counts: Any = count
        whole_counts(counts, len(world) if isinstance(world, Demonstrations) else num_demos, name="count")
    if isinstance(world, Demonstrations):
        if num_tasks is not None:
            raise DemonstrationError("num_tasks is for worlds, and these are demonstrations: leave it out.")
        true_boundaries(world)
        demos = world.with_labels()
    else:
        world = make_world(world) if isinstance(world, str) else world
        if num_tasks is not None:
            world = with_num_tasks(world, num_tasks)
        check_space(demonstrate(world, num_demos=1, seed=seed), model.skills.space)
        demos = demonstrate(world, num_demos=num_demos, seed=seed)
    num_segments = true_counts(demos) if isinstance(count, str) and count == "true" else count
    segments = model.segment(demos, num_segments, decoder=decoder, best=best)
    scores = evaluate_segments(model, segments, demos)
    return scores._replace(online=_online(model, world, segments, seed)) if hasattr(world, "step") else scores


def true_counts(demos: Demonstrations) -> list[int]:
    """Returns the true number of segments of each demonstration."""
    return [len(inner) + 1 for inner in true_boundaries(demos)]


def evaluate_segments(model: Model, segments: Segments, demos: Demonstrations) -> Evaluation:
    """Computes all scores of a model's segmentation, but for those that take a world to act in."""
    repeated = None if demos.action_kind == "continuous" else reconstruct(model.skills, demos, segments)
    return Evaluation(
        *score(segments, demos),
        reconstruction=repeated and repeated.accuracy,
        exact_match=repeated and repeated.exact_match,
        online=None,
        **({} if model.config.codes == "gaussian" else label_scores(segments.labels, demos)),
    )


def label_scores(labels: Labels, demos: Demonstrations) -> dict[str, float]:
    """Scores how skills agree with true codes, as fields of `Evaluation`; empty without true codes."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return {}
    return score_labels(labels, step_labels(truth.boundaries, truth.codes, demos.lengths))._asdict()


def _online(model: Model, world: Any, segments: Segments, seed: int) -> float:
    counts = segments.num_segments
    codes = np.stack([repeat_first(skills, max(counts)) for skills in segments.skills])
    levels = draw_levels(world, key_of(seed), len(codes))
    return float(np.mean(run_all(model.skills, world, levels, jnp.asarray(codes), jnp.asarray(counts))))


def score_model(model: Model, demos: Demonstrations, num_segments: SegmentCount = None, **options: Any) -> Scores:
    """Scores the boundaries that `Model.segment`, with the same arguments, finds without the labels."""
    return score(model.segment(demos.with_labels(), num_segments, **options), demos)
