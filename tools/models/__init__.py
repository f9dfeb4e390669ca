"""The survey of transformers' architectures: docs/models.md."""
