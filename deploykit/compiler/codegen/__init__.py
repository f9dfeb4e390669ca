"""From a program to what is compiled and shipped: host code, kernels as C and as native objects, weights."""
