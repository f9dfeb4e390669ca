"""Folders on the Hugging Face Hub: `hf://org/name`, or `hf://org/name@revision`.

huggingface_hub downloads what a build reads, and nothing else, into its cache. It shows progress and continues
downloads that were interrupted. Nothing is downloaded for any other source.
"""

from __future__ import annotations

import re
from pathlib import Path

from deploykit.errors import UsageError

SCHEME = "hf://"

READ = ("*.json", "*.safetensors")
"""The files that a build may read, in the folder and in folders of modules."""

_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")


def is_on_hub(source: object) -> bool:
    return isinstance(source, str) and source.startswith(SCHEME)


def downloaded(source: object) -> Path:
    """The folder of `source` in the cache, after downloading what it lacks there; a path is the folder itself.

    Raises `UsageError` if there is no such folder, no network, or no huggingface_hub."""
    source = str(source)
    if not is_on_hub(source):
        return Path(source)
    found = _NAME.fullmatch(source.removeprefix(SCHEME))
    if found is None:
        raise UsageError(f"{source} is no place on the Hub: write hf://org/name or hf://org/name@revision")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is the base of its own ones
            GatedRepoError,
            HTTPError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError as error:
        raise UsageError("hf:// needs huggingface_hub: pip install 'deploykit[hub]', or download the folder") from error
    try:
        return Path(snapshot_download(found["repo"], revision=found["revision"], allow_patterns=list(READ)))
    except GatedRepoError as error:
        raise UsageError(f"{source} asks for an agreement: accept it on its page, then run `hf auth login`") from error
    except RevisionNotFoundError as error:
        raise UsageError(f"{found['repo']} has no revision '{found['revision']}' on the Hub") from error
    except RepositoryNotFoundError as error:
        raise UsageError(f"there is no {source} on the Hub, or it is private: `hf auth login` gives access") from error
    except LocalEntryNotFoundError as error:
        raise UsageError(
            f"{source} is not in the cache, and the Hub cannot be reached: check the network, or download the folder"
        ) from error
    except (HTTPError, OSError) as error:
        raise UsageError(f"{source} cannot be downloaded: {error}. Run the command again to continue") from error
