"""The annotation with which a reduction block names the rule that it was written for."""

from __future__ import annotations

ANCHOR = "deploykit.anchor"
