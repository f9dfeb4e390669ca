// Where the nodes of a tree are drawn: numbers from left to right, an operator above the middle of its operands.

import { operandsOf } from './parser.mjs';

/** @typedef {import('./parser.mjs').Tree} Tree */
/** @typedef {{ tree: Tree, x: number, y: number, parent: Place | null, below: Place[] }} Place columns and rows */

/**
 * The places of all nodes, an operator before its operands, and how many columns and rows there are.
 * @param {Tree} tree
 */
export function layout(tree) {
  /** @type {Place[]} */
  const places = [];
  let columns = 0;
  let rows = 0;
  /** @type {(tree: Tree, y: number, parent: Place | null) => Place} */
  const place = (each, y, parent) => {
    /** @type {Place} */
    const own = { tree: each, x: 0, y, parent, below: [] };
    places.push(own);
    own.below = operandsOf(each).map((operand) => place(operand, y + 1, own));
    own.x = own.below.length ? (own.below[0].x + own.below[own.below.length - 1].x) / 2 : columns;
    columns += own.below.length ? 0 : 1;
    rows = Math.max(rows, y + 1);
    return own;
  };
  place(tree, 0, null);
  return { places, columns, rows };
}
