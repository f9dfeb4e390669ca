// Makes the picture of a drawing that the model gets: the same computation as `rasterise` in model/drawings.py.
//
// The longer side of the drawing becomes INK pixels. Its centre of mass, weighted by the length of lines, becomes the
// centre of a picture of SIZE by SIZE pixels. The ink of a pixel is the part of it that the pen covers.

import type { Point, Stroke } from './drawing';

export const SIZE = 28;
const INK = 20;
const PEN = 2.4;
/** A drawing whose longer side is below this fraction of the pad is enlarged as if it were that long. */
const SMALLEST = 0.15;

/** The picture, row by row, from 0 (paper) to 1 (ink). There must be a stroke. */
export function rasterise(strokes: readonly Stroke[]): Float32Array {
  const scale = INK / Math.max(longerSide(strokes), SMALLEST);
  const centre = centreOfMass(strokes);
  const place = ({ x, y }: Point): Point => ({
    x: (x - centre.x) * scale + SIZE / 2,
    y: (y - centre.y) * scale + SIZE / 2,
  });
  const picture = new Float32Array(SIZE * SIZE);
  for (const stroke of strokes) {
    for (const [from, to] of segments(stroke)) {
      ink(picture, place(from), place(to));
    }
  }
  return picture;
}

function longerSide(strokes: readonly Stroke[]): number {
  const points = strokes.flat();
  const side = (values: number[]): number => Math.max(...values) - Math.min(...values);
  return Math.max(side(points.map(({ x }) => x)), side(points.map(({ y }) => y)));
}

function centreOfMass(strokes: readonly Stroke[]): Point {
  let [x, y, total] = [0, 0, 0];
  const weigh = (weight: number, a: Point, b: Point): void => {
    x += (weight * (a.x + b.x)) / 2;
    y += (weight * (a.y + b.y)) / 2;
    total += weight;
  };
  for (const [from, to] of strokes.flatMap(segments)) {
    weigh(Math.hypot(to.x - from.x, to.y - from.y), from, to);
  }
  if (total === 0) {
    strokes.flat().forEach((point) => weigh(1, point, point));
  }
  return { x: x / total, y: y / total };
}

/** The lines of a stroke; a dot is a line without length. */
function segments(stroke: Stroke): [Point, Point][] {
  const [first] = stroke;
  if (first && stroke.length === 1) {
    return [[first, first]];
  }
  return stroke.slice(1).map((point, index) => [stroke[index] as Point, point]);
}

/** Ink a line from a to b, in pixel coordinates. */
function ink(picture: Float32Array, a: Point, b: Point): void {
  const reach = PEN / 2 + 0.5;
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const squared = Math.max(dx * dx + dy * dy, 1e-12);
  const range = (u: number, v: number): [number, number] => [
    Math.max(0, Math.floor(Math.min(u, v) - reach - 0.5)),
    Math.min(SIZE - 1, Math.ceil(Math.max(u, v) + reach - 0.5)),
  ];
  const [left, right] = range(a.x, b.x);
  const [top, bottom] = range(a.y, b.y);
  for (let row = top; row <= bottom; row += 1) {
    for (let column = left; column <= right; column += 1) {
      const [x, y] = [column + 0.5 - a.x, row + 0.5 - a.y];
      const part = Math.min(1, Math.max(0, (x * dx + y * dy) / squared));
      const away = Math.hypot(x - part * dx, y - part * dy);
      const at = row * SIZE + column;
      picture[at] = Math.max(picture[at] as number, Math.min(1, reach - away));
    }
  }
}
