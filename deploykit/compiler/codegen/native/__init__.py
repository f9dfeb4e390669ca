"""Kernels as relocatable objects through LLVM (`objects.emit_object`)."""
