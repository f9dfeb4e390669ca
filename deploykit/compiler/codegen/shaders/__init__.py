"""Kernels as compute shaders: what every shader language shares, and a folder for each language."""
