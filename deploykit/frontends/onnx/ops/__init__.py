"""The importers of operators, one module per family. Importing a module registers its operators. The package
`microsoft` has those that ONNX Runtime adds to the standard."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family, which fills the registry."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
