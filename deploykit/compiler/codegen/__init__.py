"""Turns a program into what is compiled and shipped: host code, kernels as C or as native objects, and weights."""
