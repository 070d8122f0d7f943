"""Numbers the options of an agent: low-level actions, which take one step, and skills, which run until they terminate.

Section "Hierarchical reinforcement learning" of the paper: an agent "can either call a low-level action directly in the
environment, or call a meta action, that executes a particular sub-task policy incl. termination policy, until a
termination criterion is met (termination probability larger than 0.5 or end of episode)".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped

from compile_il.inference.records import Skills
from compile_il.model.model import Model
from compile_il.rl.config import AgentError, AgentKind
from compile_il.worlds import ActingWorld, name_of
from compile_il.worlds.world import key_of


class Options(eqx.Module):
    """Options of an agent: first the world's A actions, then K skills, with the methods of `inference.records.Actor`.

    Low-level actions update the memory of the skills too. At `switch_skill`, the termination policy of relaxed training
    starts anew, as forgetful policies do.
    """

    skills: Skills | None
    num_actions: int = eqx.field(static=True)

    @property
    def num_options(self) -> int:
        """Number of options, A + K."""
        return self.num_actions + (0 if self.skills is None else self.skills.num_skills)

    def init(self, observation: Shaped[Array, "..."]) -> Any:
        """Returns the memory of the skills at the start of an episode; empty without skills."""
        return () if self.skills is None else self.skills.init(observation)

    def switch_skill(self, memory: Any, observation: Shaped[Array, "..."]) -> Any:
        """Returns the memory where one option has ended and the next begins."""
        return memory if self.skills is None else self.skills.switch_skill(memory, observation)

    def act(self, memory: Any, option: Int[Array, ""]) -> Int[Array, ""]:
        """Returns the next action of an option: the action itself, or the skill's most probable one."""
        if self.skills is None:
            return option
        return jnp.where(option < self.num_actions, option, self.skills.act(memory, self._skill(option)))

    def observe(self, memory: Any, action: Int[Array, ""], observation: Shaped[Array, "..."]) -> Any:
        """Returns the memory after an action and the observation that follows it."""
        return memory if self.skills is None else self.skills.observe(memory, action, observation)

    def done(self, memory: Any, option: Int[Array, ""]) -> Bool[Array, ""]:
        """Returns whether an option has ended: an action always, a skill if its termination probability exceeds 0.5."""
        if self.skills is None:
            return jnp.array(True)
        return (option < self.num_actions) | self.skills.done(memory, self._skill(option))

    def _skill(self, option: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.maximum(option - self.num_actions, 0)


def make_options(agent: AgentKind, world: ActingWorld, model: Model | None) -> Options:
    """Returns the options of a kind of agent in a world; refuses skills that do not fit."""
    if world.num_actions is None:
        raise AgentError(
            "The actions of this world are continuous, and an agent needs discrete ones: use a grid world."
        )
    check_skills(agent, model)
    if model is None:
        return Options(None, world.num_actions)
    check_same_world(model, world)
    observation, space = observation_of(world), model.skills.space
    given = ("x".join(map(str, space.observation_shape)) or "symbols", space.num_actions or "continuous")
    wanted = ("x".join(map(str, observation.shape)), world.num_actions)
    if given != wanted:
        raise AgentError(
            f"The skills were trained on another world: on observations {given[0]} with {given[1]} actions, and this "
            f"one has observations {wanted[0]} with {wanted[1]} actions. Train skills in this world, or choose theirs."
        )
    return Options(model.skills, world.num_actions)


def check_skills(agent: AgentKind, model: Model | None) -> None:
    """Refuses skills that a kind of agent cannot call, and agents without the skills that they need."""
    if agent == "low-level" and model is not None:
        raise AgentError('A low-level agent has no skills: leave the model out, or use agent "hierarchical".')
    if agent != "low-level" and model is None:
        raise AgentError(f'The agent {agent!r} needs skills: give a model, or use agent "low-level".')
    if model is not None:
        check_model(model)
        if agent == "bc" and (num_segments := model.resolved.num_segments) != 1:
            raise AgentError(
                f"The agent 'bc' has skills of whole demonstrations, and this model's have {num_segments} segments: "
                'train one with num_segments=1 and num_skills=128, or use agent "hierarchical".'
            )


def check_model(model: object) -> None:
    """Refuses what is no model, such as the folder of one, and models with vectors as codes."""
    if not isinstance(model, Model):
        raise AgentError(f"A model is needed, and this is a {type(model).__name__}: read one with cil.load(folder).")
    if model.config.codes == "gaussian":
        raise AgentError('The codes of this model are vectors, not numbers: train one with codes="categorical".')


def check_same_world(model: Model, world: object) -> None:
    """Refuses skills of another world, even where its observations look the same."""
    if model.world not in (None, name := name_of(world)):
        raise AgentError(
            f"The skills were trained in {model.world}, and this is {name or 'another world'}: train new ones."
        )


def observation_of(world: ActingWorld) -> jax.ShapeDtypeStruct:
    """Returns the shape and type of the observations of a world."""
    level = jax.eval_shape(world.level, key_of(0))
    return jax.eval_shape(lambda level: world.observe(level, world.start(level)), level)
