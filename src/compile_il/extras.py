"""Libraries that are installed only where they are asked for, such as by `pip install "compile-il[baselines]"`."""


class MissingExtraError(ImportError):
    """A library is missing; the message names it, and the extra that brings it."""
