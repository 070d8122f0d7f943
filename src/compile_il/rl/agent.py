"""The agent: a policy over options and a baseline, told what to do by the task list.

Appendix "Reinforcement learning agent details" of the paper: a smaller model than that of imitation, "but otherwise
similarly" a CNN encoder, with two convolutions of 3x3 and 32 maps, then two hidden layers of 128 units, ReLU
throughout. We read "similarly" as that encoder with its linear layer and LayerNorm: without LayerNorm, agents settle on
one option whatever they see (docs/decisions.md).

Task type and object type are embedded in 16 numbers each, by a linear layer, and "provided to the policy model in the
following two ways: 1) we concatenate this embedding vector with the current observation along the channel dimension
before we feed it into the CNN, and 2) we concatenate the embedding vector with the last hidden layer of the policy
MLP". The agent of the behavioural cloning baseline is given "the full list of remaining tasks by embedding each task
and concatenating them into a single vector (with zero-padding for already fulfilled tasks)"; we put the remaining ones
first, so that the current task is always in the same place.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from compile_il.networks.embeddings import Convolution, halved, tiled, untiled
from compile_il.rl.config import AgentConfig, HierarchyError

NO_TASK = -1
"""Stands for the object type of a task where the task list has come to its end."""
TASK_KINDS = ("visit", "pickup")
"""Names of the paper's two task types; the tasks of a world without a `kind` count as the first."""


class AgentInput(NamedTuple):
    """Input of an agent: what it sees, and the tasks that it is told of."""

    observation: Shaped[Array, "..."]
    kind: Int[Array, ""]
    """Type of the tasks, as an index into `TASK_KINDS`."""
    tasks: Int[Array, " told"]
    """Object types of the tasks that the agent is told of, the current one first, then `NO_TASK`."""


class Outputs(NamedTuple):
    """Option logits and the estimated value of one situation."""

    logits: Float[Array, " options"]
    value: Float[Array, ""]
    """Baseline V(s): estimate of the discounted reward that is still to come."""


class Choice(NamedTuple):
    """A chosen option and its log-probability under the policy that chose it."""

    option: Int[Array, ""]
    log_prob: Float[Array, ""]


def remaining_tasks(tasks: Int[Array, " M"], task_index: Int[Array, ""], num_told: int) -> Int[Array, " told"]:
    """Next `num_told` tasks of a task list, `NO_TASK` behind its end."""
    index = task_index + jnp.arange(num_told)
    return jnp.where(index < tasks.shape[0], tasks[jnp.minimum(index, tasks.shape[0] - 1)], NO_TASK)


class TaskEmbedding(eqx.Module):
    """Embedding of tasks: type of the task and of its object, side by side; zeros where there is no task."""

    kinds: eqx.nn.Linear
    objects: eqx.nn.Linear

    def __init__(self, num_types: int, embed_dim: int, *, key: PRNGKeyArray):
        kind_key, object_key = jax.random.split(key)
        # Without a bias, so that no task is zeros.
        self.kinds = eqx.nn.Linear(len(TASK_KINDS), embed_dim, use_bias=False, key=kind_key)
        self.objects = eqx.nn.Linear(num_types, embed_dim, use_bias=False, key=object_key)

    def __call__(self, kind: Int[Array, ""], tasks: Int[Array, " told"]) -> Float[Array, " width"]:
        """Embeddings of all tasks, one behind the other in one vector."""

        def embed(task: Int[Array, ""]) -> Float[Array, " width"]:
            dtype = self.kinds.weight.dtype
            one_kind = jax.nn.one_hot(kind, len(TASK_KINDS), dtype=dtype) * (task != NO_TASK)
            one_object = jax.nn.one_hot(task, self.objects.weight.shape[1], dtype=dtype)
            return jnp.concatenate([self.kinds(one_kind), self.objects(one_object)])

        return jax.vmap(embed)(tasks).reshape(-1)


class GridFront(eqx.Module):
    """Two convolutions over an image to whose channels the task is appended, the same at every cell."""

    first: Convolution
    second: Convolution

    def __init__(self, num_channels: int, num_maps: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key)
        self.first = Convolution(num_channels, num_maps, key=keys[0])
        self.second = Convolution(num_maps, num_maps, key=keys[1])

    def __call__(self, image: Shaped[Array, "H W C"], task: Float[Array, " width"]) -> Float[Array, " features"]:
        """Feature maps of an image and a task embedding, flattened into one vector."""
        # Without padding, what a convolution makes of channels that are the same everywhere is the same everywhere: it
        # need be computed once, not at each cell. That is most of this layer's arithmetic.
        kernel = self.first.weight.reshape(9, -1, self.first.weight.shape[1])
        of_image = kernel[:, : image.shape[2]].reshape(-1, kernel.shape[2])
        seen = eqx.tree_at(lambda layer: layer.weight, self.first, of_image)
        of_task = task @ kernel[:, image.shape[2] :].sum(axis=0)
        maps = jax.nn.relu(seen(tiled(image.astype(kernel.dtype))) + jnp.tile(of_task, 4))
        maps = jax.nn.relu(self.second(maps))
        return untiled(maps, image.shape[0] - 4, image.shape[1] - 4).reshape(-1)


class VectorFront(eqx.Module):
    """First layer for worlds seen as vectors: appends the task embedding to the vector."""

    def __call__(self, vector: Float[Array, " D"], task: Float[Array, " width"]) -> Float[Array, " features"]:
        """Observed vector and task embedding in one vector."""
        return jnp.concatenate([vector.astype(task.dtype), task])


class Agent(eqx.Module):
    """Network of an agent: a policy over options and a baseline on one encoder."""

    tasks: TaskEmbedding
    front: GridFront | VectorFront
    encoder: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    hidden: list[eqx.nn.Linear]
    policy: eqx.nn.Linear
    value: eqx.nn.Linear
    observation_shape: tuple[int, ...] = eqx.field(static=True)
    num_told: int = eqx.field(static=True)
    """Number of tasks that the agent is told of, the current one included."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        observation_shape: tuple[int, ...],
        num_types: int,
        num_told: int,
        num_options: int,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 7)
        self.observation_shape, self.num_told = tuple(observation_shape), num_told
        width, hidden_dim = 2 * config.embed_dim * num_told, config.hidden_dim
        self.tasks = TaskEmbedding(num_types, config.embed_dim, key=keys[0])
        match observation_shape:
            case (height, rows, num_channels) if min(height, rows) >= 5:
                self.front = GridFront(num_channels + width, config.num_maps, key=keys[1])
                num_features = (height - 4) * (rows - 4) * config.num_maps
            case (num_inputs,):
                self.front, num_features = VectorFront(), num_inputs + width
            case _:
                raise HierarchyError(
                    f"Observations have shape {observation_shape}: an agent reads grids of at least 5x5 with channels, "
                    "or vectors."
                )
        self.encoder = eqx.nn.Linear(num_features, hidden_dim, key=keys[2])
        self.norm = eqx.nn.LayerNorm(hidden_dim)
        self.hidden = [eqx.nn.Linear(hidden_dim, hidden_dim, key=key) for key in keys[3:5]]
        self.policy = eqx.nn.Linear(hidden_dim + width, num_options, key=keys[5])
        self.value = eqx.nn.Linear(hidden_dim + width, "scalar", key=keys[6])

    @property
    def shapes(self) -> dict[str, Any]:
        """Arguments that the agent was built with beside its settings, as plain values."""
        return {
            "observation_shape": list(self.observation_shape),
            "num_types": self.tasks.objects.weight.shape[1],
            "num_told": self.num_told,
            "num_options": self.policy.weight.shape[0],
        }

    def __call__(self, situation: AgentInput) -> Outputs:
        """Option logits and estimated value of one situation."""
        task = self.tasks(situation.kind, situation.tasks)
        features = self.norm(self.encoder(self.front(situation.observation, task)))
        for layer in self.hidden:
            features = jax.nn.relu(layer(features))
        last = jnp.concatenate([features, task]).astype(self.policy.weight.dtype)
        return Outputs(self.policy(last), self.value(last))

    def choose(self, situation: AgentInput, key: PRNGKeyArray) -> Choice:
        """Draws an option from the policy."""
        log_probs = jax.nn.log_softmax(self(situation).logits)
        option = jax.random.categorical(key, log_probs).astype(jnp.int32)
        return Choice(option, log_probs @ jax.nn.one_hot(option, log_probs.shape[0]))

    def choose_best(self, situation: AgentInput) -> Choice:
        """Most probable option of the policy."""
        log_probs = jax.nn.log_softmax(self(situation).logits)
        return Choice(jnp.argmax(log_probs).astype(jnp.int32), jnp.max(log_probs))

    def in_half_precision(self) -> "Agent":
        """Copy that computes in bfloat16 but for its last layer, as values need their digits; for vectors, itself."""
        if not isinstance(self.front, GridFront):
            return self

        def networks(agent: Agent) -> tuple[eqx.Module | list[eqx.nn.Linear], ...]:
            return agent.tasks, agent.front, agent.encoder, agent.norm, agent.hidden

        return eqx.tree_at(networks, self, halved(networks(self)))
