"""Prints each kernel as a WGSL compute shader (`shader.emit_wgsl`)."""
