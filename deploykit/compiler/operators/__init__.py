"""Operators as tensor expressions, and how they are represented in Relax. No file format, no device."""
