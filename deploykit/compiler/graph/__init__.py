"""Relax -> Relax: simplification, legalisation, the form of control flow."""
