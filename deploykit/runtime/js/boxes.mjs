// Non-maximum suppression.

import { UsageError } from './errors.mjs';

/** @typedef {{ label: string, left: number, top: number, right: number, bottom: number }} Box */

/**
 * The boxes that remain of a list with the best first: a box is dropped if it overlaps an earlier one of its class, that
 * remains, by more than `most`.
 * @template {Box} T
 * @param {readonly T[]} boxes
 * @param {number} most
 * @returns {T[]}
 */
export function suppressed(boxes, most) {
  if (!(most >= 0 && most <= 1)) {
    throw new UsageError(`boxes overlap by a part of 0 to 1; found ${most}`);
  }
  /** @type {T[]} */
  const kept = [];
  for (const box of boxes) {
    if (!kept.some((other) => other.label === box.label && overlap(other, box) > most)) {
      kept.push(box);
    }
  }
  return kept;
}

/**
 * The area that two boxes share, as a part of the area that they cover together.
 * @param {Box} a
 * @param {Box} b
 */
function overlap(a, b) {
  const area = (/** @type {number} */ width, /** @type {number} */ height) => Math.max(width, 0) * Math.max(height, 0);
  const [left, top] = [Math.max(a.left, b.left), Math.max(a.top, b.top)];
  const shared = area(Math.min(a.right, b.right) - left, Math.min(a.bottom, b.bottom) - top);
  const [first, second] = [a, b].map((box) => area(box.right - box.left, box.bottom - box.top));
  const together = first + second - shared;
  return together > 0 ? shared / together : 0;
}
