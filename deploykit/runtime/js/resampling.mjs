// Samples at another rate, by the filter that `deploykit/sounds.py` describes.

import { ShapeError } from './errors.mjs';

const ZEROS = 6;
const ROLLOFF = 0.99;

/**
 * @param {Float32Array} samples
 * @param {number} rate
 * @param {number} wanted
 */
export function resampled(samples, rate, wanted) {
  if (!Number.isInteger(rate) || rate < 1) {
    throw new ShapeError(`a rate is a positive integer, in samples per second; found ${rate}`);
  }
  if (rate === wanted) {
    return samples;
  }
  const divisor = commonDivisor(rate, wanted);
  const [old, fresh] = [rate / divisor, wanted / divisor];
  const result = new Float32Array(Math.ceil((samples.length * fresh) / old));
  const cutoff = (Math.min(old, fresh) * ROLLOFF) / old;
  const reach = Math.ceil(ZEROS / cutoff);
  const taps = 2 * reach + 2;
  for (let phase = 0; phase < Math.min(fresh, result.length); phase += 1) {
    const part = ((phase * old) % fresh) / fresh;
    const weights = Float64Array.from({ length: taps }, (_, tap) => weightOf((tap - reach - part) * cutoff) * cutoff);
    for (let index = phase; index < result.length; index += fresh) {
      const start = Math.floor((index * old) / fresh) - reach;
      let sum = 0;
      for (let tap = Math.max(0, -start); tap < Math.min(taps, samples.length - start); tap += 1) {
        sum += samples[start + tap] * weights[tap];
      }
      result[index] = sum;
    }
  }
  return result;
}

/** The filter at a distance, in zeros of the sinc. */
function weightOf(/** @type {number} */ distance) {
  const angle = Math.PI * distance;
  const window = Math.cos((Math.max(-1, Math.min(1, distance / ZEROS)) * Math.PI) / 2) ** 2;
  return angle === 0 ? window : (Math.sin(angle) / angle) * window;
}

/** @param {number} a @param {number} b @returns {number} */
function commonDivisor(a, b) {
  return b === 0 ? a : commonDivisor(b, a % b);
}
