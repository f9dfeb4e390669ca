"""Kernels as WGSL, one compute shader each (`shader.emit_wgsl`)."""
