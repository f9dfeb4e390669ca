"""Schedules of convolutions with channels last."""
