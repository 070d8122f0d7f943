"""All scores of a model on unseen levels of a world, or on demonstrations whose truth is known."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from compile_il.config import TEST_SEED, Best, Decoder
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.segment_counts import whole_counts
from compile_il.data.segments import Segments
from compile_il.evaluation.execute import reconstruct, run_all
from compile_il.evaluation.metrics import Labels, Scores, score, score_labels, step_labels, unknown_truth
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
    """Share of levels solved by running the found skills in the world."""
    agreement: float | None = None
    """Agreement of skills with the things that tasks are about; this and all below as in `metrics.LabelScores`."""
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
    """Scores a model on levels it has not seen, or on demonstrations whose truth is known.

    Args:
      model: trained in the same world, or on such demonstrations.
      world: the world, or its name; or demonstrations, whose labels are not looked at. There is no world to play in
        then, and so no `online`.
      num_tasks: of a world, tasks of each demonstration; as many as the world has if None. Where each thing is picked
        up or touched only once, there are at least as many things.
      num_demos: of a world, how many demonstrations to make.
      seed: of a world, what its levels are drawn with.
      count: how many segments to find: "true" for as many as there are, or what else `Model.segment` takes.
      decoder: how to find them, as for `Model.segment`; by default as the model was trained.
      best: what an exact decoder returns, as for `Model.segment`.
    """
    if not isinstance(model, Model):
        raise DemonstrationError(
            f"A model is needed, and this is a {type(model).__name__}: read one with cil.load(folder)."
        )
    model.choose_decoder(decoder, best)  # refused before levels are made, and so is what follows
    played: World | None = None
    if isinstance(world, Demonstrations):
        if num_tasks is not None:
            raise DemonstrationError("num_tasks is for worlds, and these are demonstrations: leave it out.")
        _check_count(count, len(world))
        demos = world.with_labels()
        if demos.truth.boundaries is None:
            raise unknown_truth()
    else:
        _check_count(count, num_demos)
        played = make_world(world) if isinstance(world, str) else world
        if num_tasks is not None:
            played = with_num_tasks(played, num_tasks)
        model.check_spaces(demonstrate(played, num_demos=1, seed=seed))
        demos = demonstrate(played, num_demos=num_demos, seed=seed)
    told = true_counts(demos) if isinstance(count, str) and count == "true" else count
    found = model.segment(demos, told, decoder=decoder, best=best)
    scores = evaluate_found(model, found, demos)
    if not hasattr(played, "step"):
        return scores
    return scores._replace(online=_online(model, played, found.skills, num_demos, seed))


def evaluate_found(model: Model, found: Segments, demos: Demonstrations) -> Evaluation:
    """Returns all scores of what a model found in demonstrations, but for those that take a world to act in."""
    again = None if demos.action_kind == "continuous" else reconstruct(model.skills, demos, found)
    return Evaluation(
        *score(found, demos),
        reconstruction=again.accuracy if again else None,
        exact_match=again.exact_match if again else None,
        online=None,
        **({} if model.config.codes == "gaussian" else label_fields(found.labels, demos)),
    )


def _check_count(count: SegmentCount | Literal["true"], num_demos: int) -> None:
    """Refuses what says no number of segments; whether it fits the demonstrations is checked once they are there."""
    if count is None or (isinstance(count, str) and count in ("true", "unknown")):
        return
    if isinstance(count, str):
        raise DemonstrationError(
            f'count is {count!r}: use "true" for as many segments as there are, "unknown" to find their number too, a '
            "number, or a list with one for each demonstration."
        )
    whole_counts(count, num_demos, name="count")


def label_fields(labels: Labels, demos: Demonstrations) -> dict[str, float]:
    """The scores among `label_scores` that are fields of an `Evaluation`, by name."""
    return {name: value for name, value in label_scores(labels, demos).items() if name in Evaluation._fields}


def label_scores(labels: Labels, demos: Demonstrations) -> dict[str, float]:
    """Scores by name of how skills agree with the things that tasks are about; none where those are not known."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return {}
    return score_labels(labels, step_labels(truth.boundaries, truth.codes, demos.lengths))._asdict()


def true_counts(demos: Demonstrations) -> list[int]:
    """The true number of segments of each demonstration."""
    counts = demos.truth.num_segments
    assert counts is not None, "it is looked at before"
    return counts.tolist()


def _online(model: Model, world: Any, skills: list[np.ndarray], num_demos: int, seed: int) -> float:
    longest = max(map(len, skills))
    codes = np.stack([np.concatenate([s, np.repeat(s[:1], longest - len(s), axis=0)]) for s in skills])
    levels = draw_levels(world, key_of(seed), num_demos)
    num_codes = jnp.array([len(s) for s in skills])
    return float(np.mean(run_all(model.skills, world, levels, jnp.asarray(codes), num_codes)))


def score_model(
    model: Model,
    demos: Demonstrations,
    num_segments: SegmentCount = None,
    *,
    decoder: Decoder | None = None,
    best: Best | None = None,
    max_segments: int | None = None,
) -> Scores:
    """Scores the segmentation that a model finds without the labels of demonstrations whose truth is known.

    The arguments are those of `Model.segment`.
    """
    plain = demos.with_labels()
    found = model.segment(plain, num_segments, decoder=decoder, best=best, max_segments=max_segments)
    return score(found, demos)
