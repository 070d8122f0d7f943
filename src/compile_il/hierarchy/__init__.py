"""Reinforcement learning with discovered skills: options, agents, IMPALA (paper, "Hierarchical RL")."""

from compile_il.hierarchy.learn import learn
from compile_il.hierarchy.learner import Learned, Learner
from compile_il.hierarchy.on_device import AgentsState, OnDevice, Statistics
from compile_il.hierarchy.on_ray import OnRay
from compile_il.hierarchy.options import Actions, ActionsAndSkills, make_options
from compile_il.hierarchy.player import Played, Player, load_player
from compile_il.hierarchy.settings import AgentConfig, HierarchyError
from compile_il.hierarchy.skill_env import SkillEnv

__all__ = [
    "Actions",
    "ActionsAndSkills",
    "AgentConfig",
    "AgentsState",
    "HierarchyError",
    "Learned",
    "Learner",
    "OnDevice",
    "OnRay",
    "Played",
    "Player",
    "SkillEnv",
    "Statistics",
    "learn",
    "load_player",
    "make_options",
]
