"""`cil.fit`: from demonstrations, or from a world, to a model."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from compile_il.batches import Batch, batch_of, draw_batch, frame_budget
from compile_il.config import Config
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.exact.objective import exact_loss
from compile_il.exact.recursion import exactly
from compile_il.generate import demonstrate
from compile_il.model import Model, unknown_count
from compile_il.networks import Scaling, Space
from compile_il.skills import Skills
from compile_il.worlds import World, make_world

NUM_SAMPLE_DEMOS, NUM_HELD_OUT = 1024, 256
TRAINING_STEPS = 42
"""The paper cuts the grid world's training demonstrations here."""
_LEAST_SPREAD = 1e-3


class Source(NamedTuple):
    """Where batches come from: a world, or demonstrations at hand."""

    world: World | None
    demos: Demonstrations
    """The data; of a world, a sample of it, for spaces, scales and lengths."""
    held_out: Demonstrations
    max_length: int
    num_frames: int


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
    """One compiled training step for all seeds of a fit."""

    def __init__(self, config: Config, source: Source):
        self.config, self.source = config, source
        self.rate = config.duration_rate or float(source.demos.lengths.mean()) / _expected_segments(config)
        self.key = jax.random.key(config.seed)
        self.optimiser = optax.adam(config.learning_rate)
        skills = eqx.filter_vmap(functools.partial(_new_skills, config, source.demos))(
            jax.random.split(jax.random.fold_in(self.key, 0), config.num_seeds)
        )
        self._params, self._static = eqx.partition(skills, eqx.is_inexact_array)
        self._priors = self._model(0, self._params).priors(source.max_length)
        count = config.num_segments
        self._log_count = unknown_count(config) if count is None else exactly(count, count)
        self._step = jax.jit(self._train_step, donate_argnums=0)

    def start(self) -> Trained:
        """Fresh parameters."""
        return Trained(self._params, jax.vmap(self.optimiser.init)(self._params))

    def step(self, state: Trained, iteration: int) -> tuple[Trained, Float[Array, " seeds"]]:
        """One update of every seed, each with its own batch, which depends on the iteration and on nothing before."""
        key = jax.random.fold_in(self.key, iteration + 1)
        if self.source.world is not None:
            return self._step(state, key, None)
        return self._step(state, key, self._data_batches(iteration))

    def _train_step(self, state: Trained, key: PRNGKeyArray, batches: Batch | None) -> tuple[Trained, Array]:
        def update(params: Any, optimiser: Any, key: PRNGKeyArray, batch: Batch | None) -> tuple[Any, Any, Array]:
            if batch is None:
                assert self.source.world is not None
                batch = draw_batch(self.source.world, key, self.config.batch_size, self.source.num_frames)

            def loss_of(params: Any) -> Float[Array, ""]:
                skills = eqx.combine(params, self._static)
                return exact_loss(skills, batch, self._priors, self._log_count)

            loss, gradient = jax.value_and_grad(loss_of)(params)
            updates, optimiser = self.optimiser.update(gradient, optimiser)
            return optax.apply_updates(params, updates), optimiser, loss

        keys = jax.random.split(key, self.config.num_seeds)
        params, optimiser, losses = jax.vmap(update)(state.params, state.optimiser, keys, batches)
        return Trained(params, optimiser), losses

    def _data_batches(self, iteration: int) -> Batch:
        demos, size = self.source.demos, min(self.config.batch_size, len(self.source.demos))
        chosen = [
            np.random.default_rng([self.config.seed, seed, iteration]).choice(len(demos), size, replace=False)
            for seed in range(self.config.num_seeds)
        ]
        batches = [batch_of(demos[rows], self.source.num_frames, self.source.max_length) for rows in chosen]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)

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


def _new_skills(config: Config, demos: Demonstrations, key: PRNGKeyArray) -> Skills:
    return Skills(
        space_of(demos),
        scaling_of(demos),
        num_skills=config.num_skills,
        num_maps=config.num_maps,
        hidden_dim=config.hidden_dim,
        shared_termination=config.shared_termination,
        sigma_floor=config.sigma_floor,
        key=key,
    )


def _expected_segments(config: Config) -> int:
    return config.num_segments or 3


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    if isinstance(demos, Demonstrations):
        shortest = int(demos.lengths.min())
        if config.num_segments is not None and shortest < config.num_segments:
            raise DemonstrationError(
                f"Demonstration {int(demos.lengths.argmin())} has {shortest} steps, too few for {config.num_segments} "
                "segments: lower num_segments, or leave it out."
            )
        held_out = demos[:NUM_HELD_OUT]
        return Source(None, demos, held_out, demos.max_length, frame_budget(demos.lengths, config.batch_size))
    world = demos
    if isinstance(world, str):
        named = make_world(world, num_tasks=_expected_segments(config))
        world = dataclasses.replace(named, max_steps=TRAINING_STEPS) if world.startswith("grid") else named
    sample = demonstrate(world, num_demos=NUM_SAMPLE_DEMOS + NUM_HELD_OUT, seed=config.seed)
    budget = frame_budget(sample.lengths, config.batch_size)
    max_length = jax.eval_shape(world.episode, jax.random.key(0)).actions.shape[0]
    return Source(world, sample[NUM_HELD_OUT:], sample[:NUM_HELD_OUT], max_length, budget)


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
