"""How a reduction block says which rule it was written for."""

from __future__ import annotations

ANCHOR = "deploykit.anchor"
