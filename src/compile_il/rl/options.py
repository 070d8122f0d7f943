"""Options: what an agent can choose. Low-level actions take one step; skills run until their termination says stop.

Section "Hierarchical reinforcement learning" of the paper: an agent "can either call a low-level action directly in the
environment, or call a meta action, that executes a particular sub-task policy incl. termination policy, until a
termination criterion is met (termination probability larger than 0.5 or end of episode)".

Options are numbered: first the world's A actions, then K skills. They are executed as skills are
(`compile_il.inference.records.Actor`), so an option is always at work for at least one step.
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


class Actions(eqx.Module):
    """Options of a low-level agent: the world's actions, without a memory."""

    num_actions: int = eqx.field(static=True)

    @property
    def num_options(self) -> int:
        """Number of options: one for each action."""
        return self.num_actions

    def init(self, observation: Shaped[Array, "..."]) -> tuple[()]:
        """Memory at the start of an episode: none."""
        del observation
        return ()

    def switch_skill(self, now: tuple[()], observation: Shaped[Array, "..."]) -> tuple[()]:
        """Memory where one option has ended and the next begins: none."""
        del now, observation
        return ()

    def act(self, now: tuple[()], option: Int[Array, ""]) -> Int[Array, ""]:
        """Next action of an option: the action that it is."""
        del now
        return option

    def observe(self, now: tuple[()], action: Int[Array, ""], observation: Shaped[Array, "..."]) -> tuple[()]:
        """Memory after an action has led to an observation: none."""
        del now, action, observation
        return ()

    def done(self, now: tuple[()], option: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether an option has ended after a step: always."""
        del now, option
        return jnp.array(True)


class ActionsAndSkills(eqx.Module):
    """Options of an agent with skills: low-level actions, and the skills of a model as meta-actions.

    What skills remember is kept up to date through low-level actions too: policies with a memory remember all that was
    seen. In `switch_skill`, the termination policy of relaxed training starts anew, as forgetful policies do.
    """

    skills: Skills
    num_actions: int = eqx.field(static=True)

    @property
    def num_options(self) -> int:
        """Number of options: one for each action, one for each skill."""
        return self.num_actions + self.skills.num_skills

    def init(self, observation: Shaped[Array, "..."]) -> Any:
        """Memory of the skills at the start of an episode."""
        return self.skills.init(observation)

    def switch_skill(self, now: Any, observation: Shaped[Array, "..."]) -> Any:
        """Memory of the skills where one option has ended and the next begins."""
        return self.skills.switch_skill(now, observation)

    def act(self, now: Any, option: Int[Array, ""]) -> Int[Array, ""]:
        """Next action of an option: the action that it is, or the skill's most probable one."""
        return jnp.where(option < self.num_actions, option, self.skills.act(now, self._skill(option)))

    def observe(self, now: Any, action: Int[Array, ""], observation: Shaped[Array, "..."]) -> Any:
        """Memory of the skills after an action has led to an observation."""
        return self.skills.observe(now, action, observation)

    def done(self, now: Any, option: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether an option has ended: an action always has, a skill where its probability to stop is above 0.5."""
        return (option < self.num_actions) | self.skills.done(now, self._skill(option))

    def _skill(self, option: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.maximum(option - self.num_actions, 0)


Options = Actions | ActionsAndSkills


def make_options(agent: AgentKind, world: ActingWorld, model: Model | None) -> Options:
    """Options among which an agent of a kind chooses in a world.

    Args:
      agent: kind of the agent.
      world: where it acts.
      model: whose skills are meta-actions; None for an agent without.
    """
    if world.num_actions is None:
        raise HierarchyError(
            "The actions of this world are continuous, and an agent chooses among a number of them: use a grid world."
        )
    if agent == "low-level":
        if model is not None:
            raise HierarchyError('A low-level agent has no skills: leave the model out, or use agent "hierarchical".')
        return Actions(world.num_actions)
    if model is None:
        raise HierarchyError(f'The agent {agent!r} needs skills: give a model, or use agent "low-level".')
    _check_model(agent, world, model)
    return ActionsAndSkills(model.skills, world.num_actions)


def _check_model(agent: AgentKind, world: ActingWorld, model: Model) -> None:
    """Refuses skills that would misread what they see, that cannot be numbered, or that are of another agent."""
    refuse_no_model(model)
    if model.config.codes == "gaussian":
        raise HierarchyError(
            "The codes of this model are vectors, and an agent chooses among a number of skills: train one with "
            'codes="categorical".'
        )
    if agent == "bc" and model.resolved.num_segments != 1:
        raise HierarchyError(
            f"The agent 'bc' has skills of whole demonstrations, and this model's have {model.resolved.num_segments} "
            'segments: train one with num_segments=1 and num_skills=128, or use agent "hierarchical".'
        )
    refuse_others(model, world)
    seen, space = observation_of(world), model.skills.space
    given = ("x".join(map(str, space.observation_shape)) or "symbols", space.num_actions or "continuous")
    wanted = ("x".join(map(str, seen.shape)), world.num_actions)
    if given != wanted:
        raise HierarchyError(
            f"The skills were trained on another world: on observations {given[0]} with {given[1]} actions, and this "
            f"one has observations {wanted[0]} with {wanted[1]} actions. Train skills in this world, or choose theirs."
        )


def refuse_no_model(given: object) -> None:
    """Refuses what is no model, such as the folder of one."""
    if not isinstance(given, Model):
        raise HierarchyError(
            f"A model is needed, and this is a {type(given).__name__}: read one with cil.load(folder)."
        )


def refuse_others(model: Model, world: object) -> None:
    """Refuses skills of another world that looks the same, in which other things are to be done."""
    if model.world is not None and model.world != name_of(world):
        raise HierarchyError(
            f"The skills were trained in {model.world}, and this is {name_of(world) or 'another world'}: train skills "
            "in this one."
        )


def observation_of(world: ActingWorld) -> jax.ShapeDtypeStruct:
    """Shape and type of the observations of a world."""

    def first(key: Array) -> Array:
        level = world.level(key)
        return world.observe(level, world.start(level))

    return jax.eval_shape(first, key_of(0))
