"""Infers boundaries and skills, by two engines that offer the same functions."""
