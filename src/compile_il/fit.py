"""`cil.fit`: from demonstrations, or from a world, to a model."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from compile_il.batches import Batch, batch_of, draw_batch, frame_budget
from compile_il.config import Config
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.exact.objective import exact_loss
from compile_il.exact.recursion import exactly
from compile_il.generate import demonstrate
from compile_il.model import Model, new_skills, unknown_count
from compile_il.networks import Scaling, Space
from compile_il.worlds import World, make_world

NUM_SAMPLE_DEMOS = 1024
HELD_OUT_SHARE, MAX_HELD_OUT = 0.1, 256
"""Demonstrations that training never sees: a tenth of given ones, at most 256."""
TRAINING_STEPS = 42
"""The paper cuts the grid world's training demonstrations here."""
_LEAST_SPREAD = 1e-3


BATCHES_AHEAD = 32
"""Batches drawn at once on an accelerator, where a world's many small steps take as long for one batch as for all."""


class Source(NamedTuple):
    """Where batches come from: a world, or demonstrations at hand."""

    world: World | None
    demos: Demonstrations
    """The data; of a world, a sample of it, for spaces, scales and lengths."""
    held_out: Demonstrations
    """Demonstrations that training never sees; seeds are compared on them."""
    space: Space
    max_length: int
    """Steps of the longest demonstration."""
    num_frames: int
    """Rows of a batch."""


class Trained(NamedTuple):
    """Parameters and optimiser of all seeds, stacked along the first axis."""

    params: Any
    optimiser: Any


def fit(demos: Demonstrations | str | World, *, config: Config | None = None, **settings: Any) -> Model:
    """Finds skills in demonstrations.

    Args:
      demos: demonstrations; or the name of a world (or a world), of which fresh ones are made in each step.
      config: all settings at once; or
      **settings: single ones, such as `num_segments=3, num_skills=10`; see `Config`.

    Returns:
      A model that segments demonstrations and whose skills act.
    """
    config = dataclasses.replace(config or Config(), **settings)
    source = make_source(demos, config)
    trainer = Trainer(config, source)
    state = trainer.start()
    for iteration in range(config.num_iterations):
        state, _ = trainer.step(state, iteration)
    return trainer.best(state)


class Trainer:
    """One compiled training step for all seeds of a fit.

    `start` gives the first state, each `step` the next one, `models` or `best` what has been learned. A step depends on
    the state, its number and the settings only, so training can stop and go on anywhere.

    Args:
      config: the settings.
      source: where batches come from; see `make_source`.
    """

    def __init__(self, config: Config, source: Source):
        self.config, self.source = config, source
        self.rate = config.duration_rate or float(source.demos.lengths.mean()) / _expected_segments(config)
        self.key = jax.random.key(config.seed)
        self.optimiser = optax.adam(config.learning_rate)
        make = functools.partial(new_skills, config, source.space, scaling_of(source.demos))
        skills = eqx.filter_vmap(make)(jax.random.split(jax.random.fold_in(self.key, 0), config.num_seeds))
        self._params, self._static = eqx.partition(skills, eqx.is_inexact_array)
        self._priors = self._model(0, self._params).priors(source.max_length)
        count = config.num_segments
        self._log_count = unknown_count(config) if count is None else exactly(count, count)
        self._step = jax.jit(self._train_step, donate_argnums=0)
        self._ahead = BATCHES_AHEAD if jax.default_backend() != "cpu" else 1
        self._drawn: tuple[int, Batch] | None = None

    def start(self) -> Trained:
        """Fresh parameters."""
        params = jax.tree.map(jnp.copy, self._params)  # a step consumes the state that it is given
        return Trained(params, jax.vmap(self.optimiser.init)(params))

    def step(self, state: Trained, iteration: int) -> tuple[Trained, Float[Array, " seeds"]]:
        """One update of every seed, each with its own batch, which depends on the iteration and on nothing before."""
        if self.source.world is None:
            return self._step(state, self._data_batches(iteration), 0)
        block = iteration // self._ahead
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = block, self._draw_block(block * self._ahead)
        return self._step(state, self._drawn[1], iteration % self._ahead)

    def _draw_block(self, first: int) -> Batch:
        """Fresh batches for a block of iterations, iterations x seeds, each with a key of its own."""
        keys = jax.vmap(lambda i: jax.random.fold_in(self.key, i))(1 + first + jnp.arange(self._ahead))
        keys = jax.vmap(lambda key: jax.random.split(key, self.config.num_seeds))(keys)
        assert self.source.world is not None
        return _draw_batches(self.source.world, keys, self.config.batch_size, self.source.num_frames)

    def _train_step(self, state: Trained, block: Batch, index: Int[Array, ""] | int) -> tuple[Trained, Array]:
        batches = jax.tree.map(lambda leaf: leaf[index], block)

        def update(params: Any, optimiser: Any, batch: Batch) -> tuple[Any, Any, Array]:
            def loss_of(params: Any) -> Float[Array, ""]:
                skills = eqx.combine(params, self._static)
                skills = skills.in_half_precision() if self.config.half_precision else skills
                return exact_loss(skills, batch, self._priors, self._log_count)

            loss, gradient = jax.value_and_grad(loss_of)(params)
            updates, optimiser = self.optimiser.update(gradient, optimiser)
            return optax.apply_updates(params, updates), optimiser, loss

        params, optimiser, losses = jax.vmap(update)(state.params, state.optimiser, batches)
        return Trained(params, optimiser), losses

    def _data_batches(self, iteration: int) -> Batch:
        demos, size = self.source.demos, min(self.config.batch_size, len(self.source.demos))
        chosen = [
            np.random.default_rng([self.config.seed, seed, iteration]).choice(len(demos), size, replace=False)
            for seed in range(self.config.num_seeds)
        ]
        batches = [batch_of(demos[rows], self.source.num_frames, self.source.max_length) for rows in chosen]
        return jax.tree.map(lambda *leaves: np.stack(leaves)[None], *batches)

    def _model(self, seed: int, params: Any) -> Model:
        skills = eqx.combine(jax.tree.map(lambda leaf: leaf[seed], params), self._static)
        return Model(skills, self.config, self.rate)

    def models(self, state: Trained) -> list[Model]:
        """The model of each seed."""
        return [self._model(seed, state.params) for seed in range(self.config.num_seeds)]

    def best(self, state: Trained) -> Model:
        """The model with the best likelihood of held-out demonstrations."""
        models = self.models(state)
        if len(models) == 1:
            return models[0]
        return max(models, key=lambda model: float(model.segment(self.source.held_out).log_likelihood.mean()))


@functools.partial(jax.jit, static_argnames=("world", "batch_size", "num_frames"))
def _draw_batches(world: World, keys: Array, batch_size: int, num_frames: int) -> Batch:
    return jax.vmap(jax.vmap(lambda key: draw_batch(world, key, batch_size, num_frames)))(keys)


def _expected_segments(config: Config) -> int:
    return config.num_segments or 3


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    """Batches for `Trainer`, from demonstrations at hand or from a world.

    Demonstrations are checked against the settings, and some of them are held out; of a world, a sample is drawn to
    learn its spaces, scales and lengths, and another one to hold out.
    """
    if isinstance(demos, Demonstrations):
        return _data_source(demos, config)
    world = demos
    if isinstance(world, str):
        named = make_world(world, num_tasks=_expected_segments(config))
        world = dataclasses.replace(named, max_steps=TRAINING_STEPS) if world.startswith("grid") else named
    sample = demonstrate(world, num_demos=NUM_SAMPLE_DEMOS + MAX_HELD_OUT, seed=config.seed)
    return Source(
        world=world,
        demos=sample[MAX_HELD_OUT:],
        held_out=sample[:MAX_HELD_OUT],
        space=space_of(sample),
        max_length=jax.eval_shape(world.episode, jax.random.key(0)).actions.shape[0],
        num_frames=frame_budget(sample.lengths, config.batch_size),
    )


def _data_source(demos: Demonstrations, config: Config) -> Source:
    _check_possible(demos, config)
    kept, held_out = hold_out(demos, config.seed)
    return Source(
        world=None,
        demos=kept,
        held_out=held_out,
        space=space_of(demos),
        max_length=kept.max_length,
        num_frames=frame_budget(kept.lengths, min(config.batch_size, len(kept))),
    )


def hold_out(demos: Demonstrations, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """Demonstrations to train on, and a tenth of them (1 to 256) that training never sees; a single one is both."""
    if len(demos) == 1:
        return demos, demos
    num_held_out = min(max(round(HELD_OUT_SHARE * len(demos)), 1), MAX_HELD_OUT)
    held_out, kept = demos.split(num_held_out / len(demos), seed=seed)
    return kept, held_out


def _check_possible(demos: Demonstrations, config: Config) -> None:
    """Each demonstration must have a segmentation that the settings and its labels allow."""
    most = config.num_segments or config.max_segments
    if config.num_segments is not None and (shortest := int(demos.lengths.min())) < config.num_segments:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmin())} has {shortest} steps, too few for {config.num_segments} "
            "segments: lower num_segments, or leave it out."
        )
    if config.longest_segment is not None and demos.max_length > most * config.longest_segment:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmax())} has {demos.max_length} steps, more than {most} segments of "
            f"up to {config.longest_segment}: raise longest_segment, or the number of segments."
        )
    if demos.labels is None:
        return
    for i, (boundaries, codes) in enumerate(zip(demos.labels.boundaries, demos.labels.codes, strict=True)):
        if (needed := 1 + int(np.sum(boundaries[1:] == 1))) > most:
            raise DemonstrationError(
                f"The labels of demonstration {i} cut it into {needed} segments, and the settings allow {most}: raise "
                "num_segments (or max_segments), or change the labels."
            )
        if codes.max() >= config.num_skills:
            raise DemonstrationError(
                f"The labels of demonstration {i} name skill {codes.max()}, and there are {config.num_skills}: raise "
                f"num_skills to at least {codes.max() + 1}."
            )


def space_of(demos: Demonstrations) -> Space:
    """What the demonstrations' observations and actions look like."""
    frames = demos.storage.observations.values
    return Space(
        observation_kind=demos.observation_kind,
        observation_shape=demos.observation_shape,
        num_symbols=int(frames.max()) + 1 if demos.observation_kind == "symbol" else 0,
        num_actions=demos.num_actions or 0,
        action_dim=demos.action_dim or 0,
    )


def scaling_of(demos: Demonstrations) -> Scaling:
    """Mean and spread of vectors and continuous actions."""
    nothing = np.zeros((0,), np.float32)
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    vectors, continuous = demos.observation_kind == "vector", demos.action_kind == "continuous"
    moments = (
        frames.mean(axis=0) if vectors else nothing,
        np.maximum(frames.std(axis=0), _LEAST_SPREAD) if vectors else nothing,
        actions.mean(axis=0) if continuous else nothing,
        np.maximum(actions.std(axis=0), _LEAST_SPREAD) if continuous else nothing,
    )
    return Scaling(*map(jnp.asarray, moments))
