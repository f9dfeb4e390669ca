"""The models of the survey: those of the zoo that take no cache."""

from __future__ import annotations

from tests.zoo.architectures import CASES as ZOO
from tests.zoo.case import Case

CASES: dict[str, Case] = {name: case for name, case in ZOO.items() if case.form == "plain"}
"""By name."""
