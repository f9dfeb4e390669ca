"""Rotary positions of configurations in their older and their newer form, and of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.rotary import frequencies, settings_of

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1 + pair / 64 for pair in range(64)],
    "original_max_position_embeddings": 4096,
}


def config(**entries: Any) -> Config:
    return Config(Path("config.json"), {"max_position_embeddings": 131072, **entries})


@pytest.mark.parametrize("scaling", [LLAMA3, YARN, {"rope_type": "linear", "factor": 2.0}, {}])
def test_both_forms_mean_the_same(scaling: dict[str, Any]) -> None:
    older = config(rope_theta=500000.0, rope_scaling=scaling or None)
    newer = config(rope_parameters={"rope_theta": 500000.0, **scaling})
    (a, a_scale), (b, b_scale) = (frequencies(c, 128, 4096, settings_of(c)) for c in (older, newer))
    assert np.array_equal(a, b)
    assert a_scale == b_scale


def test_kinds_of_layers_have_settings_of_their_own() -> None:
    linear = {"rope_type": "linear", "factor": 8.0}
    older = config(rope_theta=1e6, rope_local_base_freq=1e4, rope_scaling=linear)
    newer = config(rope_parameters={"full": {"rope_theta": 1e6, **linear}, "local": {"rope_theta": 1e4}})
    for c in (older, newer):
        full, _ = frequencies(c, 64, 4096, settings_of(c, "full"))
        local, _ = frequencies(c, 64, 4096, settings_of(c, "local", "rope_local_base_freq", scaled=False))
        np.testing.assert_allclose(full[1], 1e6 ** (-2 / 64) / 8, rtol=1e-6)
        np.testing.assert_allclose(local[1], 1e4 ** (-2 / 64), rtol=1e-6)


@pytest.mark.parametrize(
    ("theta", "scaling", "expected", "scale"),
    [
        (500000.0, LLAMA3, [1.0, 0.016560441, 0.00052484602, 3.4281024e-05, 3.0689259e-07], 1.0),
        (1e6, YARN, [1.0, 0.013335215, 0.00060294115, 4.4456985e-05, 3.1023444e-07], 1.138629436),
        (1e4, LONG, [1.0, 0.042845052, 0.0066666668, 0.0019460170, 5.8193735e-05], 1.190238071),
    ],
    ids=["llama3", "yarn", "longrope"],
)
def test_frequencies_of_real_models(theta: float, scaling: dict[str, Any], expected: list[float], scale: float) -> None:
    """The expected numbers are those of transformers, for pairs 0, 20, 32, 40 and 63."""
    c = config(rope_theta=theta, rope_scaling=scaling)
    found, found_scale = frequencies(c, 128, 4096, settings_of(c))
    np.testing.assert_allclose(found[[0, 20, 32, 40, 63]], expected, rtol=1e-6)
    assert found_scale == pytest.approx(scale)
