"""Fourier transforms, and tables for signal processing."""
