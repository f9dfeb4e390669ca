// Pictures of a page as tensors for an input of any model: resized, normalised, and in the layout that the input has.

import { drawn, pixelsOf, sizeOf } from './canvas.mjs';
import { dtypeOf } from './dtypes.mjs';
import { ShapeError, UsageError } from './errors.mjs';
import { checkOptions } from './inputs.mjs';
import { place, resized, roundedToEven, startOf, valuesOf } from './pixels.mjs';

/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./canvas.mjs').Picture} Picture */
/** @typedef {import('./pixels.mjs').Pixels} Pixels */
/** @typedef {{ width: number, height: number }} Size */
/** @typedef {number | readonly number[]} PerChannel one number for all channels, or one for each */

/**
 * How a picture becomes a tensor.
 * @typedef {object} PictureOptions
 * @property {string} [input] the input that it is for, if several take pictures
 * @property {number} [width] by default that of the input, or that of the picture if the input takes any
 * @property {number} [height]
 * @property {'NCHW' | 'NHWC'} [layout] needed if the shape of the input does not tell
 * @property {'fill' | 'cover' | 'contain'} [fit] as in CSS, by default `fill`; what `contain` leaves over is black
 * @property {'bilinear' | 'bicubic' | 'canvas'} [filter] by default `bilinear`, as in Pillow; `canvas` leaves it to the browser
 * @property {number} [scale] by default 1 / 255 for floats, and 1 for integers
 * @property {PerChannel} [mean] subtracted from what is scaled
 * @property {PerChannel} [std] divides what `mean` was subtracted from
 * @property {boolean} [bgr] whether the channels are blue, green and red
 */

/** @type {readonly (keyof PictureOptions)[]} */
const OPTIONS = ['input', 'width', 'height', 'layout', 'fit', 'filter', 'scale', 'mean', 'std', 'bgr'];
/** What inputs for pictures hold, and how one of the 256 values of a point is stored. */
const STORED = {
  float32: (/** @type {number} */ value) => value,
  float64: (/** @type {number} */ value) => value,
  float16: halfOf,
  uint8: (/** @type {number} */ value) => Math.max(0, Math.min(255, roundedToEven(value))),
};
const FITS = ['fill', 'cover', 'contain'];
const KINDS = ['bilinear', 'bicubic', 'canvas'];

/**
 * A tensor of one picture, or of several ones of the same size.
 * @param {readonly Port[]} ports the inputs of the model
 * @param {Picture | readonly Picture[]} given
 * @param {PictureOptions} [options]
 * @returns {{ data: import('./dtypes.mjs').Elements, shape: number[] }}
 * @throws {ShapeError | UsageError}
 */
export function tensorOfPictures(ports, given, options) {
  const all = checkOptions(options, OPTIONS, 'picture');
  const { fit = 'fill', filter = 'bilinear', bgr = false } = all;
  requireOne('fit', fit, FITS);
  requireOne('filter', filter, KINDS);
  const port = portFor(ports, all.input);
  const { axes, channels } = layoutOf(port, all.layout);
  const pictures = /** @type {readonly Picture[]} */ (Array.isArray(given) ? given : [given]);
  const size = sizeFor(port, axes, pictures, all);
  const { width, height } = size;
  const values = valuesFor(port.dtype, channels, all);
  const count = channels * width * height;
  const data = /** @type {any} */ (new (dtypeOf(port.dtype).array)(pictures.length * count));
  const strides = axes.channel === 1 ? { channels, point: 1, plane: width * height } : { channels, point: channels, plane: 1 };
  pictures.forEach((picture, number) => {
    const pixels = fitted(picture, size, fit, filter, channels);
    const part = { ...size, top: startOf(pixels.height, height), left: startOf(pixels.width, width) };
    place(pixels, part, values, bgr, data.subarray(number * count, (number + 1) * count), strides);
  });
  const shape = axes.channel === 1 ? [channels, height, width] : [height, width, channels];
  return { data, shape: [pictures.length, ...shape] };
}

/**
 * @param {string} option
 * @param {string} found
 * @param {readonly string[]} known
 */
function requireOne(option, found, known) {
  if (!known.includes(found)) {
    throw new UsageError(`${option} must be one of ${known.join(', ')}, found '${found}'`);
  }
}

/**
 * The input that pictures are for.
 * @param {readonly Port[]} ports
 * @param {string} [name]
 */
function portFor(ports, name) {
  const may = (/** @type {number | string} */ extent) => typeof extent === 'string' || isColour(extent);
  const fitting = ports.filter(({ dtype, shape }) => dtype in STORED && shape.length === 4 && (may(shape[1]) || may(shape[3])));
  const named = name === undefined ? fitting : fitting.filter((port) => port.name === name);
  if (named.length !== 1) {
    const names = fitting.map((port) => `'${port.name}'`).join(', ') || 'none';
    const advice = named.length > 1 ? 'pass the name of one as input' : 'such an input has four axes, one of 1 or 3 channels';
    throw new UsageError(`the inputs that take pictures are ${names}: ${advice}`);
  }
  return named[0];
}

/** @param {number | string} extent */
function isColour(extent) {
  return extent === 1 || extent === 3;
}

/**
 * Where the axes of an input are, and how many channels it has.
 * @param {Port} port
 * @param {'NCHW' | 'NHWC'} [layout]
 */
function layoutOf({ name, shape }, layout) {
  const found = layout ?? (isColour(shape[1]) ? 'NCHW' : isColour(shape[3]) ? 'NHWC' : undefined);
  if (found !== 'NCHW' && found !== 'NHWC') {
    throw new UsageError(`input '${name}' is [${shape.join(', ')}]: pass layout 'NCHW' or 'NHWC'`);
  }
  const axes = found === 'NCHW' ? { channel: 1, height: 2, width: 3 } : { channel: 3, height: 1, width: 2 };
  const channels = shape[axes.channel];
  if (typeof channels === 'number' && !isColour(channels)) {
    throw new UsageError(`input '${name}' is [${shape.join(', ')}], which has ${channels} channels in the layout ${found}`);
  }
  return { axes, channels: typeof channels === 'number' ? channels : 3 };
}

/**
 * The size that pictures get.
 * @param {Port} port
 * @param {{ height: number, width: number }} axes
 * @param {readonly Picture[]} pictures
 * @param {PictureOptions} options
 * @returns {Size}
 */
function sizeFor({ name, shape }, axes, pictures, options) {
  const sizes = pictures.map(sizeOf);
  const size = { width: 0, height: 0 };
  for (const side of /** @type {const} */ (['width', 'height'])) {
    const own = shape[axes[side]];
    const found = options[side] ?? (typeof own === 'number' ? own : sizes[0]?.[side]);
    if (!(Number.isInteger(found) && Number(found) > 0)) {
      throw new ShapeError(`input '${name}': ${side} must be a whole number of at least 1, found ${found}`);
    }
    if (options[side] === undefined && typeof own !== 'number' && sizes.some((each) => each[side] !== found)) {
      throw new ShapeError(`the pictures have several sizes, and a tensor has one: pass width and height`);
    }
    size[side] = Number(found);
  }
  return size;
}

/**
 * The pixels of a picture that covers a size, fills it, or fits into it. What does not have the size is centred.
 * @param {Picture} picture
 * @param {Size} size
 * @param {string} fit
 * @param {string} filter
 * @param {number} channels
 * @returns {Pixels}
 */
function fitted(picture, { width, height }, fit, filter, channels) {
  const own = sizeOf(picture);
  const ratios = [width / own.width, height / own.height];
  const ratio = fit === 'cover' ? Math.max(...ratios) : Math.min(...ratios);
  const side = (/** @type {number} */ has, /** @type {number} */ wanted) => {
    const scaled = Math.max(1, Math.round(has * ratio));
    return fit === 'fill' ? wanted : fit === 'cover' ? Math.max(wanted, scaled) : Math.min(wanted, scaled);
  };
  const [wide, high] = [side(own.width, width), side(own.height, height)];
  if (filter !== 'canvas') {
    const pixels = pixelsOf(picture);
    return resized(channels === 1 ? grey(pixels) : pixels, [high, wide], /** @type {any} */ (filter));
  }
  if (typeof picture === 'object' && 'data' in picture) {
    throw new UsageError("the filter 'canvas' is for what a canvas draws, and not for { data, width, height }");
  }
  const where = { left: -startOf(wide, width), top: -startOf(high, height), wide, high };
  const pixels = pixelsOf(drawn(picture, { width, height, ...where }));
  return channels === 1 ? grey(pixels) : pixels;
}

/**
 * How bright points are, in all channels, as Pillow computes it.
 * @param {Pixels} pixels
 * @returns {Pixels}
 */
function grey({ data, width, height }) {
  const result = new Uint8Array(data.length);
  for (let at = 0; at < data.length; at += 3) {
    result.fill((19595 * data[at] + 38470 * data[at + 1] + 7471 * data[at + 2] + 32768) >> 16, at, at + 3);
  }
  return { data: result, width, height };
}

/**
 * What each of the 256 values of a point becomes in each channel.
 * @param {string} dtype
 * @param {number} channels
 * @param {PictureOptions} options
 */
function valuesFor(dtype, channels, { scale, mean = 0, std = 1 }) {
  const each = (/** @type {string} */ name, /** @type {PerChannel} */ given) => {
    const numbers = typeof given === 'number' ? Array(channels).fill(given) : Array.from(given);
    if (numbers.length !== channels || !numbers.every(Number.isFinite)) {
      throw new UsageError(`${name} must be a number, or one for each of ${channels} channels, found [${numbers}]`);
    }
    return channels === 1 ? Array(3).fill(numbers[0]) : numbers;
  };
  const usual = dtype === 'uint8' ? 1 : 1 / 255;
  const values = valuesOf({ scale: scale ?? usual, mean: each('mean', mean), deviation: each('std', std) });
  return Array.from(values, STORED[/** @type {keyof typeof STORED} */ (dtype)]);
}

/**
 * The bits of the nearest float16.
 * @param {number} value
 */
function halfOf(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const exponent = Math.max(((bits >>> 23) & 255) - 127, -15);
  const size = Math.abs(value);
  // Below the least normal number, fractions have a fixed exponent.
  const half = exponent < -14 ? roundedToEven(size * 2 ** 24) : 1024 * (exponent + 14) + roundedToEven(size * 2 ** (10 - exponent));
  return ((bits >>> 31) << 15) + Math.min(half, 0x7c00);
}
