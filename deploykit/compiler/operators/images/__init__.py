"""Sampling, resizing, and regions of images."""
