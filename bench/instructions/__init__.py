"""Counting the instructions that programs execute."""
