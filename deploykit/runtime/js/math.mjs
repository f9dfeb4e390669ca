// The functions of C's <math.h> that modules import for their kernels, in float64.

/** @param {number} x @param {number} y */
function pow(x, y) {
  // Unlike JavaScript, C defines 1 to any power, and -1 to an infinite power, as 1.
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y);
}

/**
 * The error function: its series near 0, else the continued fraction of its complement, evaluated from the last term.
 * (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.6 and 7.1.14.)
 * @param {number} x
 */
function erf(x) {
  const size = Math.abs(x);
  if (!(size < 6)) {
    return Number.isNaN(x) ? x : Math.sign(x);
  }
  const scale = Math.exp(-size * size) / Math.sqrt(Math.PI);
  if (size < 2.5) {
    let term = 2 * x;
    let sum = term;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n += 1) {
      term *= (2 * size * size) / (2 * n + 1);
      sum += term;
    }
    return scale * sum;
  }
  let fraction = size;
  for (let n = 60; n > 0; n -= 1) {
    fraction = size + n / 2 / fraction;
  }
  return Math.sign(x) * (1 - scale / fraction);
}

/** JavaScript's `Math`, with the functions that it lacks or defines differently. */
export const MATH = Object.assign(Object.create(Math), {
  erf,
  exp2: (/** @type {number} */ x) => Math.pow(2, x),
  fmod: (/** @type {number} */ x, /** @type {number} */ y) => x % y,
  pow,
});
