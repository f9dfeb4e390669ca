"""Convolutions over data with the channels last."""
