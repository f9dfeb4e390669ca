"""Importers: a model file -> `ImportedModel`. One package per format."""
