"""What a text gives that goes on without its oldest tokens."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.sessions.session import Session


def without_oldest(session: Session, tokens: Sequence[int], count: int, sinks: int) -> list[int]:
    """The most probable `count` tokens behind others: where the context is full, the scores are those of a text that
    consists of the tokens that are kept."""
    context = session.language.task.context
    kept, found = list(tokens), list[int]()
    while len(found) < count:
        found.append(int(session.logits(kept)[-1].argmax()))
        kept.append(found[-1])
        if len(kept) > context:
            kept = kept[:sinks] + kept[len(kept) - (context - sinks) // 2 :]
    return found
