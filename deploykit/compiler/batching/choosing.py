"""Chooses the policy of a dynamic model, by the launches that each policy needs for samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deploykit.compiler.batching.graphs import Graph, lower_bound
from deploykit.compiler.batching.learning import train
from deploykit.compiler.batching.model import DynamicModel
from deploykit.compiler.batching.policies import Policy, launches
from deploykit.compiler.batching.tables import Table
from deploykit.compiler.batching.tracing import traced
from deploykit.dynamic.policies import POLICIES
from deploykit.errors import UsageError

FSM = "fsm"

_FIRST_OF_EQUALS = ("depth", "agenda", "critical", FSM)
"""The policies that a build chooses among; of those with equal launches it takes the first. The learned one is last,
because other instances than the samples may need more."""


def with_policy(model: DynamicModel, samples: Sequence[Any] | None, policy: str | None) -> DynamicModel:
    """The model with the policy of that name, or with the one that needs the fewest launches for the samples, and a
    table that was learned from them.

    Raises `UsageError` for an unknown policy and for a learned one without samples, and what the samples raise."""
    if policy is not None and policy not in POLICIES:
        raise UsageError(f"there is no policy '{policy}'; there are {', '.join(POLICIES)}")
    if samples is None:
        if policy == FSM:
            raise UsageError("the policy 'fsm' is learned: give samples of instances")
        return model if policy is None else replace(model, policy=policy)
    graph = traced(model, samples)
    if not len(graph.cells):
        raise UsageError("the samples use no tensor operators: give others")
    table = train(graph)
    counts = _counts(graph, table)
    chosen = policy or min(_FIRST_OF_EQUALS, key=counts.__getitem__)
    return replace(model, policy=chosen, table=table, notes=(_note(chosen, counts, lower_bound(graph)),))


def _counts(graph: Graph, table: Table) -> Mapping[str, int]:
    policies: dict[str, Policy] = {"depth": "depth", "agenda": "agenda", "critical": "critical", "alone": "alone"}
    return {name: launches(graph, policy) for name, policy in (policies | {FSM: table}).items()}


def _note(chosen: str, counts: Mapping[str, int], bound: int) -> str:
    others = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda each: each[1]))
    return f"policy {chosen}: launches on the samples, of which at least {bound} are needed: {others}"
