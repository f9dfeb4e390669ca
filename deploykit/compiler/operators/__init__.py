"""Operators as tensor expressions, and how they stand in Relax: no file format, no device."""
