"""One module for each family of models."""
