"""The error of the printer."""

from __future__ import annotations


class Unprintable(ValueError):
    """A part of a shader that the printer of OpenCL C does not know."""
