"""Counts instructions and bytes of models on microcontrollers next to other libraries and generators, under QEMU."""
