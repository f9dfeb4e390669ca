"""Operators on images: sampling, resizing, regions."""
