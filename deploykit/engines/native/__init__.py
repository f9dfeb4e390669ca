"""Runs an artifact that is a library or C sources."""
