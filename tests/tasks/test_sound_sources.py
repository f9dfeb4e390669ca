"""Sound: wave files, channels, and resampling as its formula says."""

from __future__ import annotations

import io
import math
import wave
from pathlib import Path

import numpy as np
import pytest

from deploykit.errors import UsageError
from deploykit.sessions.tasks.sound_sources import read_wave, resampled, samples_of


def by_formula(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Each new sample as the sum over all old ones, of which those near it have weights."""
    cutoff = min(rate, wanted) * 0.99 / rate
    found = []
    for number in range(math.ceil(len(samples) * wanted / rate)):
        t = (np.arange(len(samples)) - number * rate / wanted) * cutoff
        window = np.where(np.abs(t) < 6, np.cos(np.pi * t / 12) ** 2, 0)
        found.append((samples * np.sinc(t) * window * cutoff).sum())
    return np.array(found)


RATES = [(44100, 16000, 600), (8000, 16000, 333), (48000, 16000, 500), (16000, 44100, 90), (11, 7, 50), (7, 11, 1)]


@pytest.mark.parametrize(("rate", "wanted", "count"), RATES)
def test_rates(rate: int, wanted: int, count: int) -> None:
    samples = np.random.default_rng(0).standard_normal(count)
    expected = by_formula(samples, rate, wanted)
    found = resampled(samples, rate, wanted)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rate", "wanted"), [(44100, 16000), (8000, 16000), (22050, 16000), (44101, 16000)])
def test_a_tone_stays_a_tone(rate: int, wanted: int) -> None:
    found = resampled(np.sin(2 * np.pi * 440 * np.arange(rate // 4) / rate), rate, wanted)
    expected = np.sin(2 * np.pi * 440 * np.arange(len(found)) / wanted)
    np.testing.assert_allclose(found[100:-100], expected[100:-100], rtol=0, atol=2e-3)


def test_frequencies_that_the_lower_rate_does_not_have_are_gone() -> None:
    found = resampled(np.sin(2 * np.pi * 12000 * np.arange(11025) / 44100), 44100, 16000)
    assert np.abs(found[100:-100]).max() < 2e-3


def test_the_same_rate() -> None:
    samples = np.random.default_rng(0).standard_normal(9).astype(np.float32)
    np.testing.assert_array_equal(resampled(samples, 16000, 16000), samples)


def write(path: Path, data: np.ndarray, channels: int, width: int, rate: int = 16000) -> Path:
    """A wave file of these integers."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes())
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_wave_files(tmp_path: Path, width: int, channels: int) -> None:
    most = 1 << (8 * width - 1)
    data = np.random.default_rng(0).integers(-most, most, 30 * channels)
    path = write(tmp_path / "a.wav", data + (most if width == 1 else 0), channels, width)
    samples, rate = read_wave(path)
    assert rate == 16000
    np.testing.assert_array_equal(samples, (data / most).reshape(-1, channels).T.astype(np.float32))
    mixed = (data / most).reshape(-1, channels).mean(axis=1)
    np.testing.assert_allclose(samples_of(path, None, 16000), mixed, rtol=0, atol=1e-6)
    np.testing.assert_allclose(samples_of(str(path), None, 8000), resampled(mixed, 16000, 8000), rtol=0, atol=1e-6)


def test_integers_of_16_bits() -> None:
    whole = np.array([-32768, 0, 16384], np.int16)
    np.testing.assert_array_equal(samples_of(whole, 16000, 16000), np.array([-1, 0, 0.5], np.float32))


@pytest.mark.parametrize(
    ("sound", "rate", "message"),
    [
        (np.zeros(3), None, "give the rate of the samples, .* the model takes 16000"),
        (np.zeros(3), 0, "a rate is a positive integer, .* found 0"),
        (np.zeros(3), 0.5, "a rate is a positive integer, .* found 0.5"),
        (np.zeros((9, 2)), 16000, r"\(channels, samples\); this one is \[9, 2\]"),
        (np.zeros((1, 2, 3)), 16000, r"this one is \[1, 2, 3\]"),
        (np.zeros(0), 16000, "not empty"),
        (np.zeros(3, np.int32), 16000, "samples are floats in -1..1, or 16-bit integers .* these are int32"),
        (np.array([0, np.nan]), 16000, "samples must be finite"),
        ("a.wav", 16000, "a.wav says its own rate: give none"),
        ("none.wav", None, "none.wav cannot be read as a wave file"),
    ],
)
def test_what_is_no_sound(sound: object, rate: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        samples_of(sound, rate, 16000)


def test_damaged_wave_files(tmp_path: Path) -> None:
    """Every file is a sound or an error that names it."""
    whole = io.BytesIO()
    with wave.open(whole, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(range(200)))
    path, random, messages = tmp_path / "a.wav", np.random.default_rng(0), []
    for number in range(300):
        data = bytearray(whole.getvalue())
        if number % 2:
            data = data[: int(random.integers(0, len(data)))]
        else:
            for place in random.integers(0, 44, 2):
                data[place] = int(random.integers(0, 256))
        path.write_bytes(data)
        try:
            assert read_wave(path)[0].ndim == 2
        except UsageError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all(str(path) in message for message in messages)
