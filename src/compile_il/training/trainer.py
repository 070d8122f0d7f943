"""Updates all seeds of a training in one compiled step, whose state is all that a checkpoint must hold."""

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Int, Key

from compile_il.config import Config
from compile_il.data.batch import Batch
from compile_il.data.segment_counts import counts_from_labels
from compile_il.data.spaces import scaling_of
from compile_il.inference.engines import ENGINES
from compile_il.inference.records import Loss, is_impossible
from compile_il.model.model import Model
from compile_il.training.devices import SHARES, local_copy, make_mesh, place
from compile_il.training.feeds import DatasetBatches, WorldBatches
from compile_il.training.sources import Source
from compile_il.worlds import name_of
from compile_il.worlds.world import key_of

STEPS_UNDER_WAY = 64
"""Most training steps that are begun and not yet done: enough to keep an accelerator busy."""


class Trained(NamedTuple):
    """The state of a training: parameters and optimiser state of all seeds, stacked along the first axis."""

    params: Any
    optimiser: Any


class Trainer:
    """Trains all seeds on a source (`training.sources.make_source`), whose segment counts complete the settings.

    `start` gives the first state, each `step` the next one, `models` what has been learned. A step depends on the
    state, its number and the settings only, so training can stop and go on anywhere.
    """

    def __init__(self, config: Config, source: Source):
        self.config, self.source = config, source
        self.resolved = resolved = config.resolved(source.segment_counts)
        engine = ENGINES[config.inference]
        self.rate = config.duration_rate or expected_length(config, source)
        first_key, batch_key, self.noise_key = jax.random.split(key_of(config.seed), 3)
        self.optimiser = make_optimiser(config)
        make = functools.partial(engine.make_skills, resolved, source.space, scaling_of(source.demos))
        keys = jax.random.split(first_key, config.num_seeds)
        self._params, self._static = eqx.partition(_make_once(eqx.filter_vmap(make), keys), eqx.is_inexact_array)
        self._losses = engine.make_losses(resolved, self.rate)
        self.batch_size = config.batch_size if source.world is not None else min(config.batch_size, len(source.demos))
        self.mesh = make_mesh(config.num_devices, self.batch_size)
        self.batches: WorldBatches | DatasetBatches
        if source.world is not None:
            self.batches = WorldBatches(resolved, source, self.batch_size, self.mesh, batch_key)
        else:
            self.batches = DatasetBatches(resolved, source, self.batch_size, self.mesh)
        self._step = jax.jit(self._train_step, donate_argnums=0)
        # Simulated devices share a pool of threads. With several steps begun, one step's sum over devices can wait for
        # a thread that another step's sum has, and that one for it.
        self._under_way = 0 if jax.default_backend() == "cpu" and self.mesh.size > 1 else STEPS_UNDER_WAY
        self._unawaited: collections.deque[Loss] = collections.deque()

    def start(self) -> Trained:
        """Returns the first state, with fresh parameters, on all devices that train."""
        params = jax.tree.map(jnp.copy, self._params)  # a step consumes the state that it is given
        return self.place(Trained(params, jax.jit(jax.vmap(self.optimiser.init))(params)))

    def place(self, state: Trained) -> Trained:
        """Copies a state that this host has to all devices that train."""
        return Trained(*place(self.mesh, tuple(state)))

    def step(self, state: Trained, iteration: int) -> tuple[Trained, Loss]:
        """Updates every seed once, each with its own batch; returns the loss of each before the update."""
        state, loss = self._step(state, self.batches.draw(iteration), iteration)
        self._unawaited.append(loss)
        while len(self._unawaited) > self._under_way:
            jax.block_until_ready(self._unawaited.popleft())
        return state, loss

    def _train_step(
        self, state: Trained, batches: tuple[Batch, ...], iteration: Int[Array, ""] | int
    ) -> tuple[Trained, Loss]:
        keys = jax.random.split(jax.random.fold_in(self.noise_key, iteration), self.config.num_seeds)
        keys = jax.vmap(lambda key: jax.random.split(key, self.batch_size))(keys)
        keys = keys.reshape(-1, self.mesh.size, self.batch_size // self.mesh.size)
        gradients = functools.partial(self._gradients, iteration=jnp.asarray(iteration))
        if self.mesh.size > 1:
            spread = PartitionSpec(None, SHARES)
            gradients = jax.shard_map(
                functools.partial(gradients, axis_name=SHARES),
                mesh=self.mesh,
                in_specs=(PartitionSpec(), spread, spread),
                out_specs=PartitionSpec(),
                check_vma=False,
            )
        loss, gradient = gradients(state.params, batches, keys)
        updates, optimiser = jax.vmap(self.optimiser.update)(gradient, state.optimiser)
        return Trained(optax.apply_updates(state.params, updates), optimiser), loss

    def _gradients(
        self,
        params: Any,
        batches: tuple[Batch, ...],
        keys: Key[Array, "seeds share B"],
        *,
        iteration: Int[Array, ""],
        axis_name: str | None = None,
    ) -> tuple[Loss, Any]:
        """Returns the mean loss of each seed and its gradient, summed over the shares of all devices.

        Demonstrations that do not fit into the batch do not count, nor those that a world makes with fewer steps than
        segments.
        """

        def total(params: Any, batches: tuple[Batch, ...], keys: Key[Array, " B"]) -> tuple[Array, tuple[Loss, Array]]:
            skills = eqx.combine(params, self._static)
            skills = skills.in_half_precision() if self.config.half_precision else skills

            def total_of(batch: Batch) -> tuple[Loss, Array]:
                losses = self._losses(skills, batch, keys[batch.rows], iteration)
                counted = batch.fits & ~is_impossible(-losses.total)
                return jax.tree.map(lambda each: jnp.sum(each, where=counted), losses), jnp.sum(counted)

            sums, count = jax.tree.map(lambda *leaves: sum(leaves), *map(total_of, batches))
            return sums.total, (sums, count)

        share = jax.tree.map(lambda leaf: leaf[:, 0], (batches, keys))
        seeds = map_seeds(jax.value_and_grad(total, has_aux=True), self.config.num_seeds)
        (_, (sums, counts)), gradient = seeds(params, *share)
        if axis_name is not None:
            sums, counts, gradient = jax.lax.psum((sums, counts, gradient), axis_name)
        counts = jnp.maximum(counts, 1)
        means: tuple[Loss, Any] = jax.tree.map(lambda leaf: jax.vmap(jnp.divide)(leaf, counts), (sums, gradient))
        return means

    def models(self, state: Trained) -> list[Model]:
        """Returns the model of each seed."""
        params = local_copy(state.params) if self.mesh.size > 1 else state.params
        world = name_of(self.source.world)
        models = []
        for seed in range(self.config.num_seeds):
            skills = eqx.combine(jax.tree.map(lambda leaf, seed=seed: leaf[seed], params), self._static)
            models.append(Model(skills, self.config, self.resolved, self.rate, world))
        return models


def expected_length(config: Config, source: Source) -> float:
    """Expects segments as long as the data's mean, at least one step; for relaxed inference in a world the paper's 3.

    Without a number of segments the mean is to be learned, and as many are expected at first as are considered:
    policies find too many segments before they find the right ones, whereas too few teach them nothing.
    """
    if source.segment_counts.of_all:
        expected = counts_from_labels(source.demos).mean()
    else:
        expected = config.num_segments or config.max_segments
    in_worlds = ENGINES[config.inference].WORLD_RATE
    if source.world is not None and in_worlds is not None:
        return in_worlds
    return max(float(source.demos.lengths.mean() / expected), 1.0)


def map_seeds(function: Callable[..., Any], num_seeds: int) -> Callable[..., Any]:
    """Maps `function` over the leading seed axis of every argument and result: `lax.map` on CPUs, `vmap` elsewhere.

    A single seed is not batched. On CPUs several are trained one after the other, since XLA's batched products take
    longer there.
    """
    if num_seeds > 1:
        if jax.default_backend() == "cpu":
            return lambda *given: jax.lax.map(lambda each: function(*each), given)
        return jax.vmap(function)

    def alone(*given: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[None], function(*jax.tree.map(lambda leaf: leaf[0], given)))

    return alone


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """Makes Adam, with gradients clipped to the norm `config.max_gradient`.

    A single large gradient stays in Adam's second moment for thousands of iterations, in which all steps are small.
    """
    adam = optax.adam(learning_rates(config))
    return adam if config.max_gradient is None else optax.chain(optax.clip_by_global_norm(config.max_gradient), adam)


def learning_rates(config: Config) -> optax.Schedule:
    """Keeps the learning rate constant, then lets it fall to zero: small steps average over the last batches."""
    if not config.cooldown:
        return optax.schedules.constant_schedule(config.learning_rate)
    last = max(round(config.cooldown * config.num_iterations), 1)
    return optax.schedules.linear_schedule(config.learning_rate, 0.0, last, config.num_iterations - last)


def _make_once(make: Callable[[Key[Array, " seeds"]], Any], keys: Key[Array, " seeds"]) -> Any:
    """Calls a function that makes networks as one compiled program, instead of one for each small array.

    Since it runs once, it is compiled without optimisation. On a cold start either saves many seconds.
    """
    shapes = eqx.filter_eval_shape(make, keys)
    the_rest = eqx.filter(shapes, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))
    draw = jax.jit(
        lambda keys: eqx.filter(make(keys), eqx.is_array), compiler_options={"xla_backend_optimization_level": 0}
    )
    return eqx.combine(draw(keys), the_rest)
