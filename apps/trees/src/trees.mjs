// A card for each expression: its tree, the answer of the model, and the exact one.

import { layout } from './layout.mjs';
import { exact, modulo10 } from './parser.mjs';
import { colourOf, html, kindOf, signOf, svg } from './svg.mjs';

/** @typedef {import('./parser.mjs').Tree} Tree */
/** @typedef {import('./engine.mjs').Answer} Answer */
/** @typedef {import('./engine.mjs').Use} Use */
/** @typedef {import('./layout.mjs').Place} Place */

const COLUMN = 38;
const ROW = 46;
const RADIUS = 15;

/**
 * @param {{ text: string, tree: Tree }} expression
 * @param {number} number
 * @param {Answer} answer
 * @param {readonly Use[]} uses those of this expression
 */
export function drawCard({ text, tree }, number, answer, uses) {
  const value = exact(tree);
  const digit = modulo10(value);
  const right = answer.digit === digit;
  const shown = String(value).replace('-', '−');
  return html(
    'article',
    { class: 'card', 'data-expression': String(number), 'aria-label': text },
    html('h3', {}, text),
    drawTree(tree, uses),
    html(
      'p',
      { class: 'answer', 'data-right': String(right) },
      html('span', { class: 'quiet' }, 'model'),
      html('b', { class: 'digit' }, String(answer.digit)),
      html('span', { class: 'quiet' }, `${(answer.probability * 100).toFixed(1)} %`),
      html(
        'span',
        { class: 'exact' },
        html('span', { class: 'quiet' }, 'exact '),
        shown,
        ...(value === BigInt(digit) ? [] : [html('span', { class: 'quiet' }, ' ≡ '), String(digit)]),
        html('span', { class: 'mark' }, right ? ' ✓' : ' ✗'),
      ),
    ),
  );
}

/**
 * The tree, and above its root the reading of the answer.
 * @param {Tree} tree
 * @param {readonly Use[]} uses
 */
function drawTree(tree, uses) {
  const { places, columns, rows } = layout(tree);
  const width = Math.max(columns, 2) * COLUMN;
  const height = (rows + 1) * ROW;
  const x = (/** @type {Place} */ place) => (place.x + 0.5 + (columns < 2 ? 0.5 : 0)) * COLUMN;
  const y = (/** @type {Place} */ place) => (place.y + 1.5) * ROW;
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Tree' });
  picture.style.maxWidth = `${width}px`;
  const [root] = places;
  picture.append(svg('path', { class: 'edge', d: `M${x(root)} ${ROW / 2}V${y(root)}` }));
  for (const place of places) {
    if (place.parent) {
      const [x0, y0, x1, y1] = [x(place.parent), y(place.parent), x(place), y(place)];
      picture.append(svg('path', { class: 'edge', d: `M${x0} ${y0}C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}` }));
    }
  }
  for (const place of places) {
    const own = uses.filter((use) => use.tree === place.tree).sort((a, b) => Number(b.answers) - Number(a.answers));
    for (const use of own) {
      picture.append(nodeOf(use, { x: x(place), y: use.answers ? ROW / 2 : y(place) }, use.answers));
    }
  }
  return picture;
}

/**
 * @param {Use} use
 * @param {{ x: number, y: number }} at
 * @param {boolean} first whether Tab comes here
 */
function nodeOf(use, { x, y }, first) {
  const number = use.tree.type === 'Number' ? ` ${use.tree.value}` : '';
  const node = svg('g', {
    class: `node ${colourOf(use.cell)}`,
    'data-use': use.id,
    tabindex: first ? 0 : -1,
    role: 'img',
    'aria-label': `${kindOf(use).name}${use.answers ? '' : number}, launch ${use.launch + 1}`,
  });
  const shape = use.answers
    ? svg('rect', { x: x - RADIUS, y: y - RADIUS + 3, width: 2 * RADIUS, height: 2 * RADIUS - 6, rx: 6 })
    : svg('circle', { cx: x, cy: y, r: RADIUS });
  node.append(shape, svg('text', { x, y }, use.answers ? kindOf(use).sign : signOf(use.tree)));
  return node;
}
