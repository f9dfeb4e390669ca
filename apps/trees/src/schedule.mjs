// The picture of a schedule: launches from left to right, and the uses of a launch as squares in the cell's colour.

import { colourOf, kindOf, svg } from './svg.mjs';

/** @typedef {import('./engine.mjs').Run} Run */
/** @typedef {import('./engine.mjs').Use} Use */

/** Squares above each other; more of them stand in further columns. The picture has room for LEAST_ROWS at least. */
const ROWS = 6;
const LEAST_ROWS = 4;
const LARGEST = 32;
const SMALLEST = 11;
/** Between two launches, in squares, and the height of the numbers below them. */
const GAP = 0.7;
const BELOW = 22;
/** The least side of a square that shows its sign. */
const READABLE = 15;

/**
 * @param {Run} run
 * @param {number} width in pixels that there are
 */
export function drawSchedule({ launches }, width) {
  const columns = launches.map((uses) => Math.ceil(uses.length / ROWS));
  const total = columns.reduce((sum, count) => sum + count + GAP, 0);
  const side = Math.max(SMALLEST, Math.min(LARGEST, width / total));
  const tallest = Math.max(LEAST_ROWS, ...launches.map((uses) => uses.length));
  const height = Math.min(ROWS, tallest) * side;
  const picture = svg('svg', {
    width: Math.ceil(total * side),
    height: Math.ceil(height + BELOW),
    role: 'group',
    'aria-label': `${launches.length} launches`,
  });
  const every = Math.ceil(24 / (side * (1 + GAP)));
  let x = 0;
  launches.forEach((uses, launch) => {
    const wide = columns[launch] * side;
    picture.append(launchOf(uses, launch, { x, side, wide, height, numbered: launch % every === 0 }));
    x += wide + GAP * side;
  });
  return picture;
}

/**
 * @param {Use[]} uses
 * @param {number} launch
 * @param {{ x: number, side: number, wide: number, height: number, numbered: boolean }} place
 */
function launchOf(uses, launch, { x, side, wide, height, numbered }) {
  const column = svg('g', {
    class: `launch ${colourOf(uses[0].cell)}`,
    'data-launch': launch,
    tabindex: launch === 0 ? 0 : -1,
    role: 'button',
    'aria-label': `Launch ${launch + 1}: ${kindOf(uses[0]).name}, ${uses.length} ${uses.length === 1 ? 'node' : 'nodes'}`,
  });
  const pad = (GAP * side) / 2;
  column.append(
    svg('rect', { class: 'column', x, y: 0, width: wide + 2 * pad, height: height + BELOW, rx: 6 }),
    ...uses.map((use, index) =>
      squareOf(use, x + pad + Math.floor(index / ROWS) * side, height - (1 + (index % ROWS)) * side, side),
    ),
  );
  if (numbered) {
    column.append(svg('text', { class: 'number', x: x + pad + wide / 2, y: height + 15 }, String(launch + 1)));
  }
  return column;
}

/**
 * @param {Use} use
 * @param {number} x
 * @param {number} y
 * @param {number} side
 */
function squareOf(use, x, y, side) {
  const square = svg('g', { class: 'use', 'data-use': use.id });
  square.append(svg('rect', { x: x + 1, y: y + 1, width: side - 2, height: side - 2, rx: Math.min(4, side / 5) }));
  if (side >= READABLE) {
    const sign = use.tree.type === 'Number' && !use.answers ? String(use.tree.value) : kindOf(use).sign;
    square.append(svg('text', { x: x + side / 2, y: y + side / 2, 'font-size': side * 0.52 }, sign));
  }
  return square;
}
