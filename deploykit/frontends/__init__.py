"""Importers: a model file -> `ImportedModel`. One package a format."""
