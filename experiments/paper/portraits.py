"""Measures soft segments of models, and runs of each of their skills on levels (paper, "Qualitative results").

A skill runs in the grid world until its termination probability exceeds 0.5, or the episode ends.
"""

import dataclasses
from pathlib import Path
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from compile_il.config import TEST_SEED
from compile_il.data.batch import Batch, batch_of
from compile_il.evaluation.execute import Execution, run_codes
from compile_il.inference.exact.engine import make_priors, map_batch
from compile_il.inference.exact.likelihood import end_probs, forward
from compile_il.inference.exact.segment_scores import Priors, SegmentScores, point_mass
from compile_il.inference.records import Actor, Skills
from compile_il.inference.relaxed.recognition import Readout, infer_all
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.inference.relaxed.supervision import supervision_of_batch
from compile_il.model.model import Model
from compile_il.worlds import make_world
from compile_il.worlds.demonstrate import demonstrate, draw_levels
from compile_il.worlds.drawing import grid_text
from compile_il.worlds.grid import NUM_RL_STEPS, OBJECT_NAMES, GridWorld
from compile_il.worlds.world import key_of
from experiments.paper.parts import Part, Say, Scale

TASK = "heart"
"""Object that is picked up in the one demonstration whose inferred skill is reported, as in the paper."""
MOST_STEPS = NUM_RL_STEPS
"""Most steps of a skill: by then an agent's episode would be over. The grid has 64 cells to walk on."""
NUM_SEARCHED = 256
"""Number of demonstrations that are searched for one of `TASK`."""
EARLY = 100
"""Divisor of the number of training steps of models that are drawn early."""


@dataclasses.dataclass(frozen=True)
class DrawnPart(Part):
    """A model that is drawn rather than scored; `num_test` levels show where its skills stop."""

    early: bool = False
    """Whether the model is drawn early in training, with its soft segments alone."""

    def at_scale(self, scale: Scale) -> Self:
        """Trains one model, which is enough for drawings."""
        sized = super().at_scale(scale)
        # So early the rate has not begun to fall.
        few = max(sized.config.num_iterations // EARLY, 1)
        early: dict[str, Any] = {"num_iterations": few, "cooldown": 0.0} if self.early else {}
        return dataclasses.replace(sized, config=dataclasses.replace(sized.config, num_seeds=1, **early))

    def measure(self, models: list[Model], folder: Path, say: Say) -> dict[str, Any]:
        """Returns all that drawings of the first seed's model show, as plain values."""
        portrait = {"segments": portray_segments(models[0], self.world, self.test_tasks[0])}
        if not self.early:
            portrait |= portray_skills(models[0], self.world, self.num_test)
        say(f"{self.name}: measured")
        return {"portrait": portrait}


def portray_segments(model: Model, world: str, num_tasks: int) -> dict[str, Any]:
    """Returns boundaries and tasks of one unseen demonstration, and the probabilities of segments at each step.

    Relaxed inference has those of one relaxed sample too.
    """
    demos = demonstrate(world, num_demos=1, num_tasks=num_tasks, seed=TEST_SEED)
    truth, batch, config = demos[0].truth, batch_of(demos.storage, demos.num_frames, demos.max_length), model.config
    assert truth.boundaries is not None, "worlds know their boundaries"
    assert truth.codes is not None, "worlds know their tasks"
    if isinstance(model.skills, RelaxedSkills):
        noise = jax.random.gumbel(key_of(TEST_SEED), (num_tasks, demos.max_length + 1))[None]
        temperature = config.final_temperature or config.temperature
        probs = {
            "probs": relaxed_segment_probs(model.skills, batch, 0.0 * noise, 1.0, config.readout),
            "sample": relaxed_segment_probs(model.skills, batch, noise, temperature, config.readout),
        }
    else:
        priors = make_priors(model.resolved, model.skills, model.duration_rate, demos.max_length)
        probs = {"probs": exact_segment_probs(model.skills, batch, priors, num_tasks)}
    rounded = {name: np.asarray(each[0], float).round(4).tolist() for name, each in probs.items()}
    return {"boundaries": truth.boundaries.tolist(), "tasks": truth.codes.tolist()} | rounded


@eqx.filter_jit
def relaxed_segment_probs(
    skills: RelaxedSkills,
    batch: Batch,
    gumbel: Float[Array, "B M times"],
    temperature: float,
    readout: Readout,
) -> Float[Array, "B M T"]:
    """P(t ∈ C_i) = [1 - F_i(t)] Π_{j<i} F_j(t), with F_i the cumulative sum of q(b_i) (paper, "Soft segment masks").

    Without noise and at temperature 1 these are the masks of q itself; with noise those of one relaxed sample, as
    training sees them.
    """
    supervision = supervision_of_batch(batch, gumbel.shape[1])
    inferred = infer_all(
        skills.recognition,
        skills.read(batch).inputs,
        jnp.asarray(batch.lengths),
        gumbel,
        supervision.ends,
        temperature=temperature,
        readout=readout,
    )
    return jnp.exp(inferred.log_segments[..., :-1])


@eqx.filter_jit
def exact_segment_probs(skills: Skills, batch: Batch, priors: Priors, num_segments: int) -> Float[Array, "B M T"]:
    """P(b_{i-1} <= t < b_i | a, s) for each segment i of each demonstration, all segmentations summed out."""
    probs: Array = map_batch(posterior_segments, skills, batch, priors, point_mass(num_segments, num_segments))
    return probs


def posterior_segments(scores: SegmentScores) -> Float[Array, "M T"]:
    """P(t ∈ C_i | a, s) = P(b_{i-1} <= t) - P(b_i <= t)."""
    ends = end_probs(scores, forward(scores), scores.log_count)
    reached = jnp.minimum(jnp.cumsum(ends, axis=0), 1.0)
    return jnp.maximum(reached[:, :-1] - reached[:, 1:], 0.0)[:-1].T


@eqx.filter_jit
def run_on_levels(skills: Actor, world: GridWorld, levels: Any, skill: Int[Array, ""]) -> Execution:
    """Runs one skill on each level.

    In a world of one pick-up the first object that is taken ends the episode, whichever it is.
    """
    return jax.vmap(lambda level: run_codes(skills, world, level, skill[None], jnp.array(1)))(levels)


def portray_skills(model: Model, name: str, num_levels: int) -> dict[str, Any]:
    """Returns each skill's run on one level, the skill inferred from a demonstration of `TASK`, and where they stop."""
    world = make_world(name, num_tasks=1, max_steps=MOST_STEPS)
    assert isinstance(world, GridWorld), "skills are drawn on grids"
    demos = demonstrate(world, num_demos=NUM_SEARCHED, seed=TEST_SEED)
    assert demos.truth.codes is not None, "worlds know their tasks"
    chosen = [codes[0] for codes in demos.truth.codes].index(OBJECT_NAMES.index(TASK))
    drawn = draw_levels(world, key_of(TEST_SEED), max(num_levels, NUM_SEARCHED))
    # The level of the demonstration, then those that are counted: one program runs them all.
    levels = jax.tree.map(lambda leaf: jnp.concatenate([leaf[chosen : chosen + 1], leaf[:num_levels]]), drawn)
    skills = []
    for skill in range(model.config.num_skills):
        runs = jax.tree.map(np.asarray, run_on_levels(model.skills, world, levels, jnp.asarray(skill)))
        skills.append(describe_runs(runs, np.asarray(drawn.object_cells[chosen]), world.size))
    demo = demos[chosen : chosen + 1]
    return {
        "level": grid_text(demo.observations[0][0]).splitlines(),
        "task": TASK,
        "found": int(model.segment(demo, 1).skills[0][0]),
        "num_levels": num_levels,
        "skills": skills,
    }


def describe_runs(runs: Execution, object_cells: Int[np.ndarray, " objects"], size: int) -> dict[str, Any]:
    """Describes the first run of a skill: its path and what it took; of the others, how many stop, where, and when.

    A cell is row * size + column.
    """
    cells, steps, stopped = runs.states.player, runs.num_steps, runs.num_done == 1
    taken = ~runs.states.present[:, -1]
    counted = np.flatnonzero(stopped[1:]) + 1
    return {
        "path": cells[0, : steps[0] + 1].tolist(),
        "stopped": bool(stopped[0]),
        "taken": int(object_cells[taken[0]][0]) if taken[0].any() else None,
        "num_stopped": len(counted),
        "num_stopped_with_object": int(taken[counted].any(axis=1).sum()),
        "mean_steps": round(float(steps[counted].mean()), 2) if len(counted) else None,
        "terminations": np.bincount(cells[counted, -1], minlength=size * size).tolist(),
    }
