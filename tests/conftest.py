"""Every test runs with the jaxtyping annotations of the package checked at run time."""

from jaxtyping import install_import_hook

import tests.typechecker  # noqa: F401 (the hook looks it up by its name)

install_import_hook("compile_il", "tests.typechecker.check")
