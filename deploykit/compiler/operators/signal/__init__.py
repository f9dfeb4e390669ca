"""Fourier transforms and tables of signal processing."""
