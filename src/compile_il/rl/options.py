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
from compile_il.rl.config import AgentKind, HierarchyError
from compile_il.worlds import ActingWorld, name_of
from compile_il.worlds.world import key_of


class Options(eqx.Module):
    """Options of an agent: first the world's A actions, then K skills, executed as `inference.records.Actor`.

    The memory of the skills is kept up to date through low-level actions too. At `switch_skill`, the termination policy
    of relaxed training starts anew, as forgetful policies do.
    """

    skills: Skills | None
    num_actions: int = eqx.field(static=True)

    @property
    def num_options(self) -> int:
        """Number of options: one for each action, one for each skill."""
        return self.num_actions + (0 if self.skills is None else self.skills.num_skills)

    def init(self, observation: Shaped[Array, "..."]) -> Any:
        """Memory of the skills at the start of an episode; empty without skills."""
        return () if self.skills is None else self.skills.init(observation)

    def switch_skill(self, memory: Any, observation: Shaped[Array, "..."]) -> Any:
        """Memory where one option has ended and the next begins."""
        return memory if self.skills is None else self.skills.switch_skill(memory, observation)

    def act(self, memory: Any, option: Int[Array, ""]) -> Int[Array, ""]:
        """Next action of an option: the action that it is, or the skill's most probable one."""
        if self.skills is None:
            return option
        return jnp.where(option < self.num_actions, option, self.skills.act(memory, self._skill(option)))

    def observe(self, memory: Any, action: Int[Array, ""], observation: Shaped[Array, "..."]) -> Any:
        """Memory after an action has led to an observation."""
        return memory if self.skills is None else self.skills.observe(memory, action, observation)

    def done(self, memory: Any, option: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether an option has ended: an action always has, a skill where its probability to stop is above 0.5."""
        if self.skills is None:
            return jnp.array(True)
        return (option < self.num_actions) | self.skills.done(memory, self._skill(option))

    def _skill(self, option: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.maximum(option - self.num_actions, 0)


def make_options(agent: AgentKind, world: ActingWorld, model: Model | None) -> Options:
    """Returns the options of a kind of agent in a world; refuses skills that do not go with them."""
    if world.num_actions is None:
        raise HierarchyError(
            "The actions of this world are continuous, and an agent chooses among a number of them: use a grid world."
        )
    check_skills(agent, model)
    if model is None:
        return Options(None, world.num_actions)
    check_same_world(model, world)
    observation, space = observation_of(world), model.skills.space
    given = ("x".join(map(str, space.observation_shape)) or "symbols", space.num_actions or "continuous")
    wanted = ("x".join(map(str, observation.shape)), world.num_actions)
    if given != wanted:
        raise HierarchyError(
            f"The skills were trained on another world: on observations {given[0]} with {given[1]} actions, and this "
            f"one has observations {wanted[0]} with {wanted[1]} actions. Train skills in this world, or choose theirs."
        )
    return Options(model.skills, world.num_actions)


def check_skills(agent: AgentKind, model: Model | None) -> None:
    """Refuses skills that a kind of agent cannot call, and agents without the skills that they need."""
    if agent == "low-level" and model is not None:
        raise HierarchyError('A low-level agent has no skills: leave the model out, or use agent "hierarchical".')
    if agent != "low-level" and model is None:
        raise HierarchyError(f'The agent {agent!r} needs skills: give a model, or use agent "low-level".')
    if model is not None:
        check_model(model)
        if agent == "bc" and (num_segments := model.resolved.num_segments) != 1:
            raise HierarchyError(
                f"The agent 'bc' has skills of whole demonstrations, and this model's have {num_segments} segments: "
                'train one with num_segments=1 and num_skills=128, or use agent "hierarchical".'
            )


def check_model(model: object) -> None:
    """Refuses what is no model, such as the folder of one, and models without a number of skills."""
    if not isinstance(model, Model):
        raise HierarchyError(
            f"A model is needed, and this is a {type(model).__name__}: read one with cil.load(folder)."
        )
    if model.config.codes == "gaussian":
        raise HierarchyError(
            "The codes of this model are vectors, and an agent chooses among a number of skills: train one with "
            'codes="categorical".'
        )


def check_same_world(model: Model, world: object) -> None:
    """Refuses skills of another world, which may look the same while other things are to be done in it."""
    if model.world is not None and model.world != name_of(world):
        raise HierarchyError(
            f"The skills were trained in {model.world}, and this is {name_of(world) or 'another world'}: train skills "
            "in this one."
        )


def observation_of(world: ActingWorld) -> jax.ShapeDtypeStruct:
    """Returns the shape and type of the observations of a world."""
    level = jax.eval_shape(world.level, key_of(0))
    return jax.eval_shape(lambda level: world.observe(level, world.start(level)), level)
