"""Trains `digits.onnx`, the model of the sample web app, and prints how often it is right on digits it has never seen.

    python -m apps.web.model.train [-o FILE]        needs torch and scikit-learn: pip install -e '.[digits]'

There are two sources of pictures, 28 by 28 pixels, in which ink is 1:

- random drawings of `drawings.py`, rasterised as in the app;
- handwriting of 13 people: the 1,797 digits that come with scikit-learn, 8 by 8 pixels, enlarged, sharpened, and fitted
  in the same way as drawings. Neighbouring digits are mostly by the same person. The last 30 % are held out as one
  block, so that few of them are by people in the training set.

During training, every picture is turned, slanted, scaled, moved and bent at random each time (Simard et al., "Best
practices for convolutional neural networks applied to visual document analysis", 2003). Everything is seeded: the same
versions on the same kind of machine give the same file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from apps.web.model.drawings import INK, SIZE, draw, rasterise
from bench.models.graph import Graph

SEED = 7
EPOCHS = 16
BATCH = 128
DRAWINGS = 30_000
CHECKED_DRAWINGS = 5_000
HELD_OUT = 0.3
REPEATS = 8
"""How often an epoch uses each piece of handwriting."""
SMOOTHING = 0.02

Pictures = tuple[Tensor, Tensor]
"""Pictures [n, 1, SIZE, SIZE] and digits [n]."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m apps.web.model.train", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("digits.onnx"))
    output = parser.parse_args().output
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    seen, unseen = handwriting()
    made, checked = drawings(DRAWINGS, SEED), drawings(CHECKED_DRAWINGS, SEED + 1)
    pictures = torch.cat([made[0], *[seen[0]] * REPEATS])
    digits = torch.cat([made[1], *[seen[1]] * REPEATS])
    network = train(pictures, digits)
    onnx.save(exported(network), output)
    print(f"{output}: {output.stat().st_size} bytes")
    for name, (x, y) in (("pieces of handwriting held out", unseen), ("drawings held out", checked)):
        right = int((network(x).argmax(1) == y).sum())
        print(f"{right / len(y):.2%} of {len(y)} {name}")


def drawings(count: int, seed: int) -> Pictures:
    random = np.random.default_rng(seed)
    digits = [index % 10 for index in range(count)]
    pictures = [rasterise(draw(digit, random), random.uniform(1.7, 3.6)) for digit in digits]
    return torch.from_numpy(np.stack(pictures)[:, None]), torch.tensor(digits)


def handwriting() -> tuple[Pictures, Pictures]:
    """The digits that come with scikit-learn: those for training, and those held out."""
    x, y = load_digits(return_X_y=True)
    pictures = fitted(torch.from_numpy(x.reshape(-1, 1, 8, 8) / 16).float())
    digits = torch.from_numpy(y)
    first = round(len(y) * (1 - HELD_OUT))
    return (pictures[:first], digits[:first]), (pictures[first:], digits[first:])


def fitted(small: Tensor) -> Tensor:
    """Convert pictures of 8 by 8 pixels to the app's form: sharp lines, INK pixels long, around the centre of mass."""
    side = 64
    sharp = torch.sigmoid(14 * (F.interpolate(small, (side, side), mode="bicubic") - 0.45))
    at = torch.linspace(-1 + 1 / side, 1 - 1 / side, side)
    inked = sharp[:, 0] > 0.5
    longest = torch.stack([_extent(inked.any(1)), _extent(inked.any(2))]).amax(0)
    mass = sharp[:, 0] / sharp.sum((1, 2, 3))[:, None, None]
    centre = torch.stack([(mass.sum(1) * at).sum(1), (mass.sum(2) * at).sum(1)], 1)
    zoom = longest / side * SIZE / INK
    matrix = torch.zeros(len(small), 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = zoom
    matrix[:, :, 2] = centre
    grid = F.affine_grid(matrix, [len(small), 1, 3 * SIZE, 3 * SIZE], align_corners=False)
    return F.avg_pool2d(F.grid_sample(sharp, grid, align_corners=False), 3)


def _extent(line: Tensor) -> Tensor:
    """The number of pixels from the first to the last inked one in each line."""
    places = torch.arange(line.shape[1])
    last = torch.where(line, places, -1).amax(1)
    first = torch.where(line, places, line.shape[1]).amin(1)
    return (last - first + 1).float()


def distorted(x: Tensor) -> Tensor:
    """Turn, slant, scale, move and bend each picture at random."""
    n = len(x)
    angle, slant = torch.randn(n) * 0.12, torch.randn(n) * 0.12
    scale = torch.exp(torch.randn(n, 2) * 0.1)
    matrix = torch.empty(n, 2, 3)
    matrix[:, 0, 0], matrix[:, 0, 1] = torch.cos(angle), slant - torch.sin(angle)
    matrix[:, 1, 0], matrix[:, 1, 1] = torch.sin(angle), torch.cos(angle)
    matrix[:, :, :2] *= scale[:, :, None]
    matrix[:, :, 2] = torch.randn(n, 2) * 0.06
    bend = F.interpolate(torch.randn(n, 2, 5, 5) * 0.05, (SIZE, SIZE), mode="bicubic", align_corners=True)
    grid = F.affine_grid(matrix, [n, 1, SIZE, SIZE], align_corners=False) + bend.permute(0, 2, 3, 1)
    return F.grid_sample(x, grid, align_corners=False)


def train(x: Tensor, y: Tensor) -> nn.Sequential:
    network = nn.Sequential(
        *(nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(24, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(360, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    loss_of = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    steps = -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps * EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(x)).split(BATCH):
            loss = loss_of(network(distorted(x[rows])), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
            total += float(loss.detach()) * len(rows)
        print(f"epoch {epoch + 1:2} of {EPOCHS}: loss {total / len(x):.4f}", flush=True)
    return network.eval().requires_grad_(False)


def exported(network: nn.Sequential) -> onnx.ModelProto:
    """The network with a softmax: picture[batch, 1, SIZE, SIZE] -> probability[batch, 10], with a symbolic batch."""
    graph = Graph("digits")
    value = graph.input("picture", ("batch", 1, SIZE, SIZE))
    for layer in network:
        match layer:
            case nn.Conv2d():
                weights = (graph.constant(layer.weight.numpy()), graph.constant(layer.bias.numpy()))
                pads = [*layer.padding, *layer.padding]
                value = graph.node("Conv", value, *weights, strides=list(layer.stride), pads=pads)
            case nn.ReLU():
                value = graph.node("Relu", value)
            case nn.MaxPool2d():
                value = graph.node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
            case nn.Flatten():
                value = graph.node("Flatten", value)
            case nn.Linear():
                weights = (graph.constant(layer.weight.numpy()), graph.constant(layer.bias.numpy()))
                value = graph.node("Gemm", value, *weights, transB=1)
    graph.output(graph.node("Softmax", value, output="probability", axis=-1), ("batch", 10))
    return graph.model()


main()
