"""The arrays of a tree by name, such as `heads.layers.0.weight`: what files call them."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

Tree = TypeVar("Tree")


def named_leaves(tree: Any) -> dict[str, Any]:
    """All leaves of a tree by name, in the tree's order."""
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def map_named(function: Callable[[str, Any], Any], tree: Tree) -> Tree:
    """Returns the same tree, with `function(name, leaf)` in place of each leaf."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: function(_name(path), leaf), tree)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
