// An example drawing of each digit, as paths in a box of 100 by 100.

import type { Drawing, Point } from './drawing';

const PATHS: readonly (readonly string[])[] = [
  ['M52 14 C20 14 22 86 50 86 C80 86 78 14 50 14'],
  ['M36 32 L54 14 L52 86'],
  ['M28 32 C30 8 74 8 70 36 C68 54 40 68 26 86 L76 84'],
  ['M30 18 C52 6 78 20 66 38 C60 46 50 48 44 48 C62 48 78 58 70 76 C60 92 36 90 26 78'],
  ['M40 14 C38 34 32 46 26 58 L78 56', 'M62 34 L60 88'],
  ['M36 16 C34 30 32 38 31 46 C52 38 74 48 70 68 C66 88 40 88 28 80', 'M36 16 L72 14'],
  ['M62 14 C36 26 26 58 32 76 C40 92 70 88 68 68 C66 52 40 52 32 70'],
  ['M26 18 L74 16 C62 38 50 60 46 88'],
  ['M64 24 C52 6 26 22 42 42 C54 54 76 62 66 80 C54 94 26 84 34 66 C40 52 66 44 66 28 C66 24 65 22 62 20'],
  ['M68 28 C60 8 30 14 32 36 C34 56 66 52 68 28 C68 50 66 70 56 88'],
];

const POINTS = 40;
const MILLISECONDS = 700;

/** Draw a digit: slowly, or at once for users who prefer reduced motion. Ends early when `signal` is aborted. */
export async function drawExample(digit: number, drawing: Drawing, signal: AbortSignal): Promise<void> {
  const strokes = (PATHS[digit] ?? []).map(pointsOf);
  const pause = matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : MILLISECONDS / POINTS / strokes.length;
  drawing.clear();
  for (const [first, ...rest] of strokes) {
    drawing.begin(first as Point);
    for (const point of rest) {
      if (pause > 0) {
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
      if (signal.aborted) {
        return;
      }
      drawing.extend(point);
    }
  }
}

/** Points along a path. */
function pointsOf(description: string): Point[] {
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', description);
  const length = path.getTotalLength();
  return Array.from({ length: POINTS }, (_, index) => {
    const { x, y } = path.getPointAtLength((index / (POINTS - 1)) * length);
    return { x: x / 100, y: y / 100 };
  });
}
