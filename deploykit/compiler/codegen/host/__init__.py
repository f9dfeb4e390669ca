"""The host code of a program: `model.h`, and `model.c` with its steps in order."""
