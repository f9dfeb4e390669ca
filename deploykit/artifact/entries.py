"""What all entries of `manifest.json` have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """A frozen object of the manifest. A name that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
