"""Makes drawings of digits like those of a finger or a mouse, and the pictures of them that the model gets.

A drawing is a list of strokes; a stroke is an array of points [n, 2] (x to the right, y downwards). `draw` makes a
random drawing from a template of `templates.py`: its points are displaced, smoothed, slanted, turned, stretched, bent,
and shaken.

`rasterise` is the same computation as in `src/raster.ts`. The longer side of the drawing becomes `INK` pixels. Its
centre of mass, weighted by the length of lines, becomes the centre of a picture of `SIZE` by `SIZE` pixels. The ink of
a pixel is the part of it that a pen of the given width covers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.web.model.templates import TEMPLATES, strokes_of

Array = npt.NDArray[np.float32]
Points = npt.NDArray[np.float64]
Drawing = list[Points]

SIZE = 28
INK = 20.0
PEN = 2.4
"""Width of the pen in the app, in pixels of the picture."""
SMALLEST = 0.15
"""A drawing whose longer side is below this fraction of the pad is enlarged as if it were that long."""


def rasterise(drawing: Drawing, pen: float = PEN) -> Array:
    """The picture of a drawing on a pad of 1 by 1: an array [SIZE, SIZE] from 0 (paper) to 1 (ink)."""
    scale, centre = _fit(drawing)
    grid = np.arange(SIZE) + 0.5
    picture = np.zeros((SIZE, SIZE))
    for stroke in drawing:
        points = (stroke - centre) * scale + SIZE / 2
        starts, ends = (points[:-1], points[1:]) if len(points) > 1 else (points, points)
        along = ends - starts
        squared = np.maximum((along**2).sum(1), 1e-12)
        dx, dy = grid[None, :] - starts[:, :1], grid[None, :] - starts[:, 1:]
        part = (dx[:, None, :] * along[:, :1, None] + dy[:, :, None] * along[:, 1:, None]) / squared[:, None, None]
        part = np.clip(part, 0, 1)
        away = np.hypot(dx[:, None, :] - part * along[:, :1, None], dy[:, :, None] - part * along[:, 1:, None])
        picture = np.maximum(picture, np.clip(pen / 2 + 0.5 - away.min(0), 0, 1))
    return picture.astype(np.float32)


def _fit(drawing: Drawing) -> tuple[float, Points]:
    """Pixels per unit, and the centre of mass."""
    points = np.concatenate(drawing)
    scale = INK / max(float(np.ptp(points, axis=0).max()), SMALLEST)
    lengths = [np.hypot(*np.diff(stroke, axis=0).T) for stroke in drawing]
    total = sum(float(length.sum()) for length in lengths)
    if total == 0:
        return scale, points.mean(0)
    middles = [(stroke[1:] + stroke[:-1]) / 2 for stroke in drawing]
    moments = [(length[:, None] * middle).sum(0) for length, middle in zip(lengths, middles, strict=True)]
    centre: Points = np.sum(moments, axis=0) / total
    return scale, centre


def draw(digit: int, random: np.random.Generator) -> Drawing:
    """A random drawing of a digit."""
    templates = TEMPLATES[digit]
    strokes = strokes_of(templates[random.integers(len(templates))])
    untidy = random.uniform(0.01, 0.05)
    drawing = [_curve(_displaced(np.array(stroke), untidy, random)) for stroke in strokes]
    return _shaken(_bent(_placed(drawing, random), random), random)


def _displaced(stroke: Points, amount: float, random: np.random.Generator) -> Points:
    """Move every point a little. Points that are written twice move together, so that corners stay corners."""
    moves = random.normal(0, amount, stroke.shape)
    for index in range(1, len(stroke)):
        if (stroke[index] == stroke[index - 1]).all():
            moves[index] = moves[index - 1]
    return stroke + moves


def _curve(points: Points, pieces: int = 6) -> Points:
    """The Catmull-Rom spline through points, with `pieces` pieces from each point to the next."""
    padded = np.concatenate([points[:1], points, points[-1:]])
    t = np.linspace(0, 1, pieces, endpoint=False)[:, None]
    parts = []
    for a, b, c, d in zip(padded[:-3], padded[1:-2], padded[2:-1], padded[3:], strict=True):
        if (b != c).any():
            parts.append(b + t / 2 * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))))
    return np.concatenate([*parts, points[-1:]])


def _placed(drawing: Drawing, random: np.random.Generator) -> Drawing:
    """Stretch, slant and turn the whole drawing; all strokes but the first are also moved a little."""
    turn, slant, width = random.normal(0, 0.1), random.normal(0.05, 0.18), random.uniform(0.45, 1.0)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    matrix = turned @ np.array([[width, -slant], [0, 1]])
    offsets = [np.zeros(2)] + [random.normal(0, 0.03, 2) for _ in drawing[1:]]
    return [(stroke - 0.5 + offset) @ matrix.T for stroke, offset in zip(drawing, offsets, strict=True)]


def _bent(drawing: Drawing, random: np.random.Generator) -> Drawing:
    """Displace points by a slow wave along each axis."""
    wave, phase = random.normal(0, 2.2, (2, 2)), random.uniform(0, 2 * np.pi, 2)
    amount = random.uniform(0, 0.06)
    return [stroke + amount * np.sin(stroke @ wave.T * 2 + phase) for stroke in drawing]


def _shaken(drawing: Drawing, random: np.random.Generator) -> Drawing:
    """Add the noise of an unsteady hand, which neighbouring points share."""
    amount = random.uniform(0, 0.012)
    kernel = np.ones(3) / 3
    result = []
    for stroke in drawing:
        noise = random.normal(0, amount, (len(stroke) + 2, 2))
        result.append(stroke + np.stack([np.convolve(noise[:, axis], kernel, "valid") for axis in (0, 1)], 1))
    return result
