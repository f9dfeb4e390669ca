// Scores of classes.

/** @typedef {'softmax' | 'sigmoid' | 'as_is'} Way */
/** @typedef {{ label: string, score: number }} Label */

/**
 * All classes of one thing, the most probable one first.
 * @param {Float32Array} logits
 * @param {readonly string[]} names
 * @param {Way} way
 * @returns {Label[]}
 */
export function labelled(logits, names, way) {
  const scores = scoresOf(logits, way);
  return names.map((label, number) => ({ label, score: scores[number] })).sort((a, b) => b.score - a.score);
}

/**
 * Scores of classes.
 * @param {Float32Array} logits
 * @param {Way} way
 */
export function scoresOf(logits, way) {
  if (way === 'as_is') {
    return logits;
  }
  if (way === 'sigmoid') {
    return logits.map((x) => 1 / (1 + Math.exp(-x)));
  }
  const most = Math.max(...logits);
  const powers = logits.map((x) => Math.exp(x - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
