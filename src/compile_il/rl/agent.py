"""Computes an agent's policy over options and its baseline from an observation and the tasks to do.

Appendix "Reinforcement learning agent details" of the paper: a smaller model than that of imitation, "but otherwise
similarly" a CNN encoder, with two convolutions of 3x3 and 32 maps, then two hidden layers of 128 units, ReLU
throughout. We read "similarly" as that encoder with its linear layer and LayerNorm (docs/decisions.md).

Task type and object type are embedded in 16 numbers each, by a linear layer. The embedding is concatenated "with the
current observation along the channel dimension before we feed it into the CNN", and "with the last hidden layer of the
policy MLP". The agent of the behavioural cloning baseline is given "the full list of remaining tasks [...] (with
zero-padding for already fulfilled tasks)"; we put the remaining ones first, so that the current task is always in the
same place.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from compile_il.networks.embeddings import Convolution, from_tiles, to_bfloat16, to_tiles
from compile_il.rl.config import AgentConfig, AgentError

NO_TASK = -1
"""Object type that pads task lists."""
TASK_KINDS = ("visit", "pickup")
"""Names of the paper's two task types; the tasks of a world without a `kind` count as the first."""


class AgentInput(NamedTuple):
    """Input of an agent."""

    observation: Shaped[Array, "..."]
    kind: Int[Array, ""]
    """Type of the tasks, as an index into `TASK_KINDS`."""
    tasks: Int[Array, " tasks"]
    """Object types of the next tasks, the current one first, then `NO_TASK`."""


class Outputs(NamedTuple):
    """Option logits and the estimated value of a state."""

    logits: Float[Array, " options"]
    value: Float[Array, ""]
    """Baseline V(s): estimate of the discounted reward that is still to come."""


class Choice(NamedTuple):
    """A chosen option and its log-probability under the policy that chose it."""

    option: Int[Array, ""]
    log_prob: Float[Array, ""]


class TaskEmbedding(eqx.Module):
    """Embeds types of tasks and of their objects, side by side; zeros where there is no task."""

    kinds: eqx.nn.Linear
    objects: eqx.nn.Linear

    def __init__(self, num_types: int, embed_dim: int, *, key: PRNGKeyArray):
        kind_key, object_key = jax.random.split(key)
        # Without a bias, so that no task is zeros.
        self.kinds = eqx.nn.Linear(len(TASK_KINDS), embed_dim, use_bias=False, key=kind_key)
        self.objects = eqx.nn.Linear(num_types, embed_dim, use_bias=False, key=object_key)

    def __call__(self, kind: Int[Array, ""], tasks: Int[Array, " tasks"]) -> Float[Array, " width"]:
        """Concatenates the embeddings of all tasks."""

        def embed(task: Int[Array, ""]) -> Float[Array, " width"]:
            dtype = self.kinds.weight.dtype
            one_kind = jax.nn.one_hot(kind, len(TASK_KINDS), dtype=dtype) * (task != NO_TASK)
            one_object = jax.nn.one_hot(task, self.objects.weight.shape[1], dtype=dtype)
            return jnp.concatenate([self.kinds(one_kind), self.objects(one_object)])

        return jax.vmap(embed)(tasks).reshape(-1)


class GridEncoder(eqx.Module):
    """Applies two convolutions to an image to whose channels the task is appended, the same at every cell."""

    first: Convolution
    second: Convolution

    def __init__(self, num_channels: int, num_maps: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key)
        self.first = Convolution(num_channels, num_maps, key=keys[0])
        self.second = Convolution(num_maps, num_maps, key=keys[1])

    def __call__(self, image: Shaped[Array, "H W C"], task: Float[Array, " width"]) -> Float[Array, " features"]:
        """Computes the feature maps of an image and a task embedding, flattened."""
        # Without padding, the convolution of constant channels is constant: one cell is enough. That saves most of
        # this layer's arithmetic.
        kernel = self.first.weight.reshape(9, -1, self.first.weight.shape[1])
        image_kernel = kernel[:, : image.shape[2]].reshape(-1, kernel.shape[2])
        convolve = eqx.tree_at(lambda layer: layer.weight, self.first, image_kernel)
        task_maps = task @ kernel[:, image.shape[2] :].sum(axis=0)
        maps = jax.nn.relu(convolve(to_tiles(image.astype(kernel.dtype))) + jnp.tile(task_maps, 4))
        maps = jax.nn.relu(self.second(maps))
        return from_tiles(maps, image.shape[0] - 4, image.shape[1] - 4).reshape(-1)


class Agent(eqx.Module):
    """Network of an agent: a policy over options and a baseline on one encoder."""

    tasks: TaskEmbedding
    grid_encoder: GridEncoder | None
    """None for vectors, to which the task embedding is appended."""
    encoder: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    hidden: list[eqx.nn.Linear]
    policy: eqx.nn.Linear
    value: eqx.nn.Linear
    observation_shape: tuple[int, ...] = eqx.field(static=True)
    num_input_tasks: int = eqx.field(static=True)
    """Number of tasks in the input, the current one included."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        observation_shape: tuple[int, ...],
        num_types: int,
        num_input_tasks: int,
        num_options: int,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 7)
        self.observation_shape, self.num_input_tasks = tuple(observation_shape), num_input_tasks
        width, hidden_dim = 2 * config.embed_dim * num_input_tasks, config.hidden_dim
        self.tasks = TaskEmbedding(num_types, config.embed_dim, key=keys[0])
        match observation_shape:
            case (height, rows, num_channels) if min(height, rows) >= 5:
                self.grid_encoder = GridEncoder(num_channels + width, config.num_maps, key=keys[1])
                num_features = (height - 4) * (rows - 4) * config.num_maps
            case (num_inputs,):
                self.grid_encoder, num_features = None, num_inputs + width
            case _:
                raise AgentError(
                    f"Observations have shape {observation_shape}: an agent needs grids of at least 5x5 with channels, "
                    "or vectors."
                )
        self.encoder = eqx.nn.Linear(num_features, hidden_dim, key=keys[2])
        self.norm = eqx.nn.LayerNorm(hidden_dim)
        self.hidden = [eqx.nn.Linear(hidden_dim, hidden_dim, key=key) for key in keys[3:5]]
        self.policy = eqx.nn.Linear(hidden_dim + width, num_options, key=keys[5])
        self.value = eqx.nn.Linear(hidden_dim + width, "scalar", key=keys[6])

    @property
    def shapes(self) -> dict[str, Any]:
        """Arguments that the agent was made with, beside its settings and its key."""
        return {
            "observation_shape": self.observation_shape,
            "num_types": self.tasks.objects.weight.shape[1],
            "num_input_tasks": self.num_input_tasks,
            "num_options": self.policy.weight.shape[0],
        }

    def __call__(self, inputs: AgentInput) -> Outputs:
        """Computes option logits and the estimated value."""
        task = self.tasks(inputs.kind, inputs.tasks)
        if self.grid_encoder is None:
            features = jnp.concatenate([inputs.observation.astype(task.dtype), task])
        else:
            features = self.grid_encoder(inputs.observation, task)
        features = self.norm(self.encoder(features))
        for layer in self.hidden:
            features = jax.nn.relu(layer(features))
        last = jnp.concatenate([features, task]).astype(self.policy.weight.dtype)
        return Outputs(self.policy(last), self.value(last))

    def choose(self, inputs: AgentInput, key: PRNGKeyArray) -> Choice:
        """Draws an option from the policy."""
        log_probs = jax.nn.log_softmax(self(inputs).logits)
        option = jax.random.categorical(key, log_probs).astype(jnp.int32)
        return Choice(option, log_probs @ jax.nn.one_hot(option, log_probs.shape[0]))

    def in_half_precision(self) -> "Agent":
        """Returns a copy in bfloat16 whose last layer stays float32; agents on vectors are returned as they are."""
        if self.grid_encoder is None:
            return self

        def networks(agent: Agent) -> tuple[Any, ...]:
            return agent.tasks, agent.grid_encoder, agent.encoder, agent.norm, agent.hidden

        return eqx.tree_at(networks, self, to_bfloat16(networks(self)))


class GreedyAgent(eqx.Module):
    """Agent that takes its most probable option."""

    agent: Agent

    def choose(self, inputs: AgentInput, key: PRNGKeyArray) -> Choice:
        """Returns the most probable option; the key is not used."""
        del key
        log_probs = jax.nn.log_softmax(self.agent(inputs).logits)
        return Choice(jnp.argmax(log_probs).astype(jnp.int32), jnp.max(log_probs))
