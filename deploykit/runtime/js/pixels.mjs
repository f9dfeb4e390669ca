// Pictures as models take them: resized to the bits of Pillow, cropped, rescaled and normalised. It computes what
// `deploykit/pictures.py` computes, which says how.

import { ShapeError } from './errors.mjs';

/** @typedef {{ data: Uint8Array, height: number, width: number }} Pixels red, green and blue of each point, row by row */
/** @typedef {readonly [number, number]} Size a height and a width */
/** @typedef {{ shortest: number, longest: number | null }} Edges */
/** @typedef {'bilinear' | 'bicubic'} Filter */

/**
 * How pictures are prepared, as the manifest says it.
 * @typedef {object} Steps
 * @property {Size | Edges | null} size
 * @property {Filter} filter
 * @property {Size | null} crop
 * @property {number | null} scale
 * @property {readonly number[] | null} mean
 * @property {readonly number[] | null} deviation
 * @property {boolean} bgr
 */

/** Fractional bits of a weight. */
const FRACTION = 22;
const CHANNELS = 3;

/** @type {Record<Filter, { support: number, weight: (x: number) => number }>} */
const FILTERS = {
  bilinear: { support: 1, weight: (x) => Math.max(1 - Math.abs(x), 0) },
  bicubic: { support: 2, weight: cubic },
};

/** @param {number} distance */
function cubic(distance) {
  const [a, x] = [-0.5, Math.abs(distance)];
  if (x < 1) {
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/**
 * The picture as a tensor of one picture.
 * @param {Pixels} picture
 * @param {Steps} steps
 * @returns {{ data: Float32Array, shape: [number, number, number, number] }}
 */
export function prepared(picture, steps) {
  const { size, filter, crop, bgr } = steps;
  const sized = size ? resized(picture, 'shortest' in size ? edgesOf(size, picture) : size, filter) : picture;
  const [height, width] = crop ?? [sized.height, sized.width];
  const [top, left] = [startOf(sized.height, height), startOf(sized.width, width)];
  const data = new Float32Array(CHANNELS * height * width);
  place(sized, { top, left, height, width }, valuesOf(steps), bgr, data, { channels: CHANNELS, point: 1, plane: height * width });
  return { data, shape: [1, CHANNELS, height, width] };
}

/**
 * Write a part of a picture to a tensor. What is beside the picture is black.
 * @param {Pixels} picture
 * @param {{ top: number, left: number, height: number, width: number }} part
 * @param {ArrayLike<number>} values of the 256 points in each channel
 * @param {boolean} bgr
 * @param {{ [index: number]: number }} data
 * @param {{ channels: number, point: number, plane: number }} strides how many channels there are, and the distances
 *   from point to point and from channel to channel
 */
export function place(picture, { top, left, height, width }, values, bgr, data, { channels, point, plane }) {
  for (let number = 0; number < channels; number += 1) {
    const channel = bgr ? channels - 1 - number : number;
    for (let y = 0, at = number * plane; y < height; y += 1) {
      const row = y + top >= 0 && y + top < picture.height ? (y + top) * picture.width : -1;
      for (let x = left; x < left + width; x += 1, at += point) {
        const inside = row >= 0 && x >= 0 && x < picture.width;
        data[at] = values[channel * 256 + (inside ? picture.data[(row + x) * CHANNELS + channel] : 0)];
      }
    }
  }
}

/** Where the centre of this length starts; below 0 if there is less than that. */
export function startOf(/** @type {number} */ have, /** @type {number} */ length) {
  return have < length ? -Math.floor((length - have + 1) / 2) : Math.floor((have - length) / 2);
}

/** What each of the 256 points becomes in each channel. */
export function valuesOf(/** @type {Pick<Steps, 'scale' | 'mean' | 'deviation'>} */ { scale, mean, deviation }) {
  const values = new Float32Array(CHANNELS * 256);
  for (let channel = 0; channel < CHANNELS; channel += 1) {
    for (let point = 0; point < 256; point += 1) {
      const value = Math.fround(scale === null ? point : point * scale);
      values[channel * 256 + point] =
        mean && deviation
          ? Math.fround(value - Math.fround(mean[channel])) / Math.fround(deviation[channel])
          : value;
    }
  }
  return values;
}

/**
 * The size with these edges.
 * @param {Edges} edges
 * @param {Pixels} picture
 * @returns {Size}
 */
function edgesOf({ shortest, longest }, { height, width }) {
  const [low, high] = [Math.min(height, width), Math.max(height, width)];
  const short = longest !== null && (high / low) * shortest > longest ? (longest * low) / high : shortest;
  const edge = roundedToEven(short);
  const long = edge === low ? high : Math.trunc((short * high) / low);
  return height <= width ? [edge, long] : [long, edge];
}

/** @param {number} x */
export function roundedToEven(x) {
  const nearest = Math.round(x);
  return Math.abs(x % 1) === 0.5 && nearest % 2 ? nearest - 1 : nearest;
}

/**
 * The picture at another height and width.
 * @param {Pixels} picture
 * @param {Size} size
 * @param {Filter} filter
 * @returns {Pixels}
 */
export function resized(picture, [height, width], filter) {
  if (Math.min(height, width) < 1) {
    throw new ShapeError(
      `a picture of ${picture.height}x${picture.width} points cannot become one of ${height}x${width}`,
    );
  }
  const rows = (/** @type {Pixels} */ { data, height: have, width: broad }) =>
    resampled(data, 1, have, broad * CHANNELS, height, filter);
  const columns = (/** @type {Pixels} */ { data, height: tall, width: have }) =>
    resampled(data, tall, have, CHANNELS, width, filter);
  if (picture.height - height > Math.max(0, 2 * (picture.width - width))) {
    const short = { ...picture, data: rows(picture), height };
    return { ...short, data: columns(short), width };
  }
  const narrow = { ...picture, data: columns(picture), width };
  return { ...narrow, data: rows(narrow), height };
}

/**
 * One pass: the weighted sums of points along the middle axis of [outer, have, inner].
 * @param {Uint8Array} data
 * @param {number} outer
 * @param {number} have
 * @param {number} inner
 * @param {number} length
 * @param {Filter} filter
 */
function resampled(data, outer, have, inner, length, filter) {
  if (have === length) {
    return data;
  }
  const { first, weights, taps } = weightsOf(have, length, filter);
  const result = new Uint8ClampedArray(outer * length * inner);
  const sums = new Int32Array(inner);
  for (let block = 0, place = 0; block < outer; block += 1) {
    for (let index = 0; index < length; index += 1, place += inner) {
      sums.fill(1 << (FRACTION - 1));
      for (let tap = 0; tap < taps; tap += 1) {
        const weight = weights[index * taps + tap];
        const start = (block * have + Math.min(first[index] + tap, have - 1)) * inner;
        for (let k = 0; k < inner; k += 1) {
          sums[k] += data[start + k] * weight;
        }
      }
      for (let k = 0; k < inner; k += 1) {
        result[place + k] = sums[k] >> FRACTION;
      }
    }
  }
  return new Uint8Array(result.buffer);
}

/**
 * The first point under each filter, and the weights of `taps` points from there on.
 * @param {number} source
 * @param {number} length
 * @param {Filter} filter
 */
function weightsOf(source, length, filter) {
  const { support, weight } = FILTERS[filter];
  const scale = source / length;
  const wide = Math.max(scale, 1);
  const centres = Array.from({ length }, (_, index) => (index + 0.5) * scale);
  const first = centres.map((centre) => Math.max(Math.trunc(centre - support * wide + 0.5), 0));
  const end = centres.map((centre) => Math.min(Math.trunc(centre + support * wide + 0.5), source));
  const taps = Math.max(...end.map((last, index) => last - first[index]));
  const weights = new Int32Array(length * taps);
  for (let index = 0; index < length; index += 1) {
    const own = Array.from({ length: end[index] - first[index] }, (_, tap) =>
      weight((first[index] + tap - centres[index] + 0.5) * (1 / wide)),
    );
    const total = own.reduce((sum, x) => sum + x, 0);
    own.forEach((x, tap) => {
      const scaled = (x / total) * (1 << FRACTION);
      weights[index * taps + tap] = Math.trunc(scaled + (scaled < 0 ? -0.5 : 0.5));
    });
  }
  return { first, weights, taps };
}
