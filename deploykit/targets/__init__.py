"""What artifacts are made for: a folder a target. `base` says what a target is."""
