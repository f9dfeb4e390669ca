"""Compiles kernels to relocatable objects with LLVM (`objects.emit_object`)."""
