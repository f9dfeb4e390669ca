"""The targets that artifacts are built for, one folder per target. `base` defines what a target is."""
