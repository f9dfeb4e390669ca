"""Translates shaders from WGSL to SPIR-V, for Vulkan."""
