"""Recurrent layers: cells, the scan over steps, layers."""
