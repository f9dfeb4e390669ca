"""Recurrent layers: the cells, the scan over the steps, the layers."""
