"""Prints kernels as compute shaders: the parts common to all shader languages, and a folder for each language."""
