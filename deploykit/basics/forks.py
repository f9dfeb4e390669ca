"""What a forked process makes anew: locks that other threads held, and threads, which it does not have."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    """An object that a forked process cannot use as it is."""

    def renew(self) -> None:
        """Called in the new process, which has only the thread that forked."""
        ...


_all: WeakSet[Renewed] = WeakSet()


def renew_after_fork(each: Renewed) -> None:
    """Call its `renew` in every process that this one forks, as long as the object lives."""
    _all.add(each)


def _renew_all() -> None:
    for each in list(_all):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
