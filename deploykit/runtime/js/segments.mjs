// Segmentation: the class of each point of a picture, as `deploykit/segments.py` computes it.

/** @typedef {{ data: Float32Array, shape: readonly number[] }} Dense */

const { fround } = Math;

/**
 * The class with the best score at each point of a picture, from scores [1, classes, rows, columns] that are resized
 * bilinearly.
 * @param {Dense} scores
 * @param {number} height
 * @param {number} width
 */
export function bestClasses({ data, shape }, height, width) {
  const [, classes, rows, columns] = shape;
  const [across, down] = [placesOf(columns, width), placesOf(rows, height)];
  const wide = new Float32Array(classes * rows * width);
  for (let row = 0; row < classes * rows; row += 1) {
    across.forEach((place, x) => {
      wide[row * width + x] = between(data[row * columns + place.before], data[row * columns + place.after], place);
    });
  }
  const found = classes <= 256 ? new Uint8Array(height * width) : new Uint16Array(height * width);
  const best = new Float32Array(width);
  down.forEach((place, y) => {
    best.fill(-Infinity);
    for (let number = 0; number < classes; number += 1) {
      const [before, after] = [place.before, place.after].map((row) => (number * rows + row) * width);
      for (let x = 0; x < width; x += 1) {
        const score = between(wide[before + x], wide[after + x], place);
        if (score > best[x]) {
          best[x] = score;
          found[y * width + x] = number;
        }
      }
    }
  });
  return found;
}

/** @typedef {{ before: number, after: number, share: number }} Place */

/** The two points that each new point lies between, and how far it is on the way to the second one. */
function placesOf(/** @type {number} */ source, /** @type {number} */ length) {
  return Array.from({ length }, (_, index) => {
    const place = Math.max(fround(fround(fround(index + 0.5) * fround(source / length)) - 0.5), 0);
    const before = Math.min(Math.trunc(place), source - 1);
    return { before, after: Math.min(before + 1, source - 1), share: fround(place - before) };
  });
}

/** @param {number} a @param {number} b @param {Place} place */
function between(a, b, { share }) {
  return fround(fround(a * fround(1 - share)) + fround(b * share));
}
