"""The importers of operators, one module per family. Importing a module registers its operators."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family, which fills the registry."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
