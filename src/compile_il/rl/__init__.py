"""Reinforcement learning with skills: options, agents, IMPALA (paper, "Hierarchical RL").

`learn.learn` trains an agent, `player.load_player` reads one, and `skill_env.SkillEnv` offers skills as actions to
other libraries. This file imports nothing, so that the help of `compile-il rl` does not wait for JAX.
"""
