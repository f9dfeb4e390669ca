"""The error of the reader."""

from __future__ import annotations


class Unreadable(ValueError):
    """A text that the printer of WGSL does not emit, or that makes no sense."""
