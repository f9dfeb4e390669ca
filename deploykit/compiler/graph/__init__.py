"""Passes from Relax to Relax: simplification, legalisation, fusion, and the form of control flow."""
