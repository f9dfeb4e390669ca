"""Reads WGSL, as `wgsl.shader` prints it, into a typed tree, for the printers of other shader languages."""
