"""The training step: all seeds at once in one compiled program, with nothing else for a checkpoint to remember."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.batches import Batch, BatchShape, Supervision, batch_of, draw_batch
from compile_il.config import Config
from compile_il.model import Model
from compile_il.objectives import make_loss, new_skills
from compile_il.sources import Source, scaling_of
from compile_il.worlds import World

BATCHES_AHEAD = 32
"""Batches drawn at once on an accelerator, where a world's many small steps take as long for one batch as for all."""


class Trained(NamedTuple):
    """Parameters and optimiser of all seeds, stacked along the first axis."""

    params: Any
    optimiser: Any


class Trainer:
    """One compiled training step for all seeds of a fit.

    `start` gives the first state, each `step` the next one, `models` what has been learned. A step depends on the
    state, its number and the settings only, so training can stop and go on anywhere.

    Args:
      config: the settings.
      source: where batches come from; see `compile_il.sources.make_source`.
    """

    def __init__(self, config: Config, source: Source):
        self.config, self.source = config.settled(), source
        mean_duration = float(source.demos.lengths.mean()) / config.expected_segments
        self.rate = self.config.duration_rate or mean_duration
        first_key, self.batch_key, self.noise_key = jax.random.split(jax.random.key(config.seed), 3)
        self.optimiser = optax.adam(learning_rates(config))
        make = functools.partial(new_skills, self.config, source.space, scaling_of(source.demos))
        keys = jax.random.split(first_key, config.num_seeds)
        # One program instead of one for each small array: on a cold start that is seconds.
        skills = eqx.filter_jit(eqx.filter_vmap(make))(keys)
        self._params, self._static = eqx.partition(skills, eqx.is_inexact_array)
        self._loss = make_loss(self.config, self.rate, source.max_length)
        self._step = jax.jit(self._train_step, donate_argnums=0)
        self._ahead = BATCHES_AHEAD if jax.default_backend() != "cpu" else 1
        self._drawn: tuple[int, Batch] | None = None

    def start(self) -> Trained:
        """Fresh parameters."""
        params = jax.tree.map(jnp.copy, self._params)  # a step consumes the state that it is given
        return Trained(params, jax.jit(jax.vmap(self.optimiser.init))(params))

    def step(self, state: Trained, iteration: int) -> tuple[Trained, Float[Array, " seeds"]]:
        """One update of every seed, each with its own batch, which depends on the iteration and on nothing before."""
        if self.source.world is None:
            return self._step(state, self._data_batches(iteration), 0, iteration)
        block = iteration // self._ahead
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = block, self._draw_block(block * self._ahead)
        return self._step(state, self._drawn[1], iteration % self._ahead, iteration)

    def _draw_block(self, first: int) -> Batch:
        """Fresh batches for a block of iterations, iterations x seeds, each with a key of its own."""
        keys = jax.vmap(lambda i: jax.random.fold_in(self.batch_key, i))(first + jnp.arange(self._ahead))
        keys = jax.vmap(lambda key: jax.random.split(key, self.config.num_seeds))(keys)
        assert self.source.world is not None, "data is not drawn"
        source, config = self.source, self.config
        shape = BatchShape(config.batch_size, source.num_frames, source.max_length)
        return _draw_batches(source.world, keys, shape, config.supervision)

    def _train_step(
        self, state: Trained, block: Batch, index: Int[Array, ""] | int, iteration: Int[Array, ""] | int
    ) -> tuple[Trained, Array]:
        batches = jax.tree.map(lambda leaf: leaf[index], block)
        keys = jax.random.split(jax.random.fold_in(self.noise_key, iteration), self.config.num_seeds)

        def update(params: Any, optimiser: Any, batch: Batch, key: PRNGKeyArray) -> tuple[Any, Any, Array]:
            def loss_of(params: Any) -> Float[Array, ""]:
                skills = eqx.combine(params, self._static)
                skills = skills.in_half_precision() if self.config.half_precision else skills
                return self._loss(skills, batch, key, jnp.asarray(iteration))

            loss, gradient = jax.value_and_grad(loss_of)(params)
            updates, optimiser = self.optimiser.update(gradient, optimiser)
            return optax.apply_updates(params, updates), optimiser, loss

        params, optimiser, losses = jax.vmap(update)(state.params, state.optimiser, batches, keys)
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


def learning_rates(config: Config) -> optax.Schedule:
    """Constant, then down to zero: steps that get smaller average out what the last batches happened to say."""
    last = max(round(config.cooldown * config.num_iterations), 1)
    begin = config.num_iterations - last if config.cooldown else config.num_iterations
    return optax.schedules.linear_schedule(config.learning_rate, 0.0, last, begin)


@functools.partial(jax.jit, static_argnames=("world", "shape", "supervision"))
def _draw_batches(world: World, keys: Array, shape: BatchShape, supervision: Supervision) -> Batch:
    return jax.vmap(jax.vmap(lambda key: draw_batch(world, key, *shape, supervision)))(keys)
