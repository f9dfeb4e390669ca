// Pixels of the pictures that a page has.

import { ShapeError } from './errors.mjs';

/** @typedef {import('./pixels.mjs').Pixels} Pixels */
/** @typedef {{ data: ArrayLike<number>, width: number, height: number }} Points 1, 3 or 4 bytes each */
/** @typedef {Points | Exclude<CanvasImageSource, SVGImageElement>} Picture */
/**
 * Where a picture goes in a larger or smaller one, which is black beside it.
 * @typedef {{ width: number, height: number, left: number, top: number, wide: number, high: number }} Place
 */

/**
 * Red, green and blue of a picture; what is transparent is white.
 * @param {Picture} given
 * @returns {Pixels}
 */
export function pixelsOf(given) {
  const points = typeof given === 'object' && given && 'data' in given;
  const { data, width, height } = points ? given : drawn(given);
  const channels = data.length / (width * height);
  if (![1, 3, 4].includes(channels)) {
    throw new ShapeError(`a picture of ${width}x${height} points has 1, 3 or 4 bytes for each, found ${data.length}`);
  }
  const pixels = new Uint8Array(3 * width * height);
  for (let point = 0; point < width * height; point += 1) {
    const alpha = channels === 4 ? data[4 * point + 3] / 255 : 1;
    for (let channel = 0; channel < 3; channel += 1) {
      const value = data[point * channels + (channels === 1 ? 0 : channel)];
      pixels[3 * point + channel] = Math.round(alpha * value + (1 - alpha) * 255);
    }
  }
  return { data: pixels, width, height };
}

/**
 * The width and height of a picture.
 * @param {any} source
 * @throws {ShapeError}
 */
export function sizeOf(source) {
  const width = source?.naturalWidth ?? source?.videoWidth ?? source?.displayWidth ?? source?.width;
  const height = source?.naturalHeight ?? source?.videoHeight ?? source?.displayHeight ?? source?.height;
  if (!(width > 0 && height > 0)) {
    throw new ShapeError('a picture is an image that is loaded, a canvas, or { data, width, height }, and not empty');
  }
  return { width, height };
}

/**
 * The points of something that a canvas draws.
 * @param {any} source
 * @param {Place} [place] resized as the browser does it
 * @returns {Points}
 */
export function drawn(source, place) {
  const { width, height } = place ?? sizeOf(source);
  const context = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  if (!context) {
    throw new ShapeError(`this browser cannot draw a picture of ${width}x${height} points: make it smaller`);
  }
  if (place) {
    const { left, top, wide, high } = place;
    context.fillRect(0, 0, width, height);
    context.fillStyle = 'white';
    context.fillRect(left, top, wide, high);
    context.imageSmoothingQuality = 'high';
    context.drawImage(source, left, top, wide, high);
  } else {
    context.drawImage(source, 0, 0, width, height);
  }
  return context.getImageData(0, 0, width, height);
}
