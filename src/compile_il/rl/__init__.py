"""Reinforcement learning with discovered skills: options, agents, IMPALA (paper, "Hierarchical RL")."""

from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.impala import Learned, Learner
from compile_il.rl.learn import learn
from compile_il.rl.options import Actions, ActionsAndSkills, make_options
from compile_il.rl.player import Player, PlayerScores, load_player
from compile_il.rl.ray_actors import RayTrainer
from compile_il.rl.skill_env import SkillEnv
from compile_il.rl.trainer import AgentsState, AgentTrainer, Statistics

__all__ = [
    "Actions",
    "ActionsAndSkills",
    "AgentConfig",
    "AgentTrainer",
    "AgentsState",
    "HierarchyError",
    "Learned",
    "Learner",
    "Player",
    "PlayerScores",
    "RayTrainer",
    "SkillEnv",
    "Statistics",
    "learn",
    "load_player",
    "make_options",
]
