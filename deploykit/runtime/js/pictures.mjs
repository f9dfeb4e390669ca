// Models of pictures: pictures in, answers out. `pictures` lets a model take pictures, which are prepared as the manifest
// says. They run one after another, each in its own size.

import { answering, Call, eachOf, fetchTask } from './answering.mjs';
import { suppressed } from './boxes.mjs';
import { pixelsOf } from './canvas.mjs';
import { labelled, scoresOf } from './labels.mjs';
import { prepared } from './pixels.mjs';
import { bestClasses } from './segments.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./pixels.mjs').Pixels} Pixels */
/** @typedef {import('./pixels.mjs').Steps} Steps */
/** @typedef {import('./labels.mjs').Label} Label */

/**
 * @typedef {object} Task
 * @property {'embed' | 'classify' | 'detect' | 'segment'} kind
 * @property {string} pixels
 * @property {Steps} picture
 * @property {string[]} outputs
 * @property {string[]} labels
 * @property {'softmax' | 'sigmoid' | 'as_is'} scores
 */

/** @typedef {import('./canvas.mjs').Picture} Picture */
/** @typedef {Picture | readonly Picture[]} Pictures */
/** @typedef {import('./answering.mjs').CallOptions | undefined} Options */
/** @typedef {Label & { left: number, top: number, right: number, bottom: number }} Detection */
/** @typedef {{ data: Float32Array, shape: readonly number[] }} Dense */

/** A function that loads a model of pictures, from one that loads any model. */
export const pictures = answering(fetchTask, methodsOf, (_, { pixels, picture }, sample) => ({
  [pixels]: prepared(pixelsOf(sample), picture),
}));

/**
 * The methods of a model with this task.
 * @param {Model} model
 * @param {Task} task
 */
function methodsOf(model, { kind, pixels, picture, outputs, labels, scores }) {
  /**
   * What `read` makes of the results for each picture.
   * @template T
   * @param {Pictures} given
   * @param {Options} options
   * @param {(results: Dense[], size: Pixels) => T} read
   * @param {readonly string[]} [more] names of options
   * @returns {Promise<T | T[]>}
   */
  const each = async (given, options, read, more = []) =>
    eachOf(
      given,
      ({ length }) => new Call(kind, options, more, length),
      async (/** @type {Picture} */ one, call) => {
        const points = pixelsOf(one);
        const inputs = { [pixels]: prepared(points, picture) };
        const results = await model.run(/** @type {any} */ (inputs), { signal: call.signal });
        return read(outputs.map((name) => /** @type {any} */ (results)[name]), points);
      },
    );
  const methods = {
    embed: (/** @type {Pictures} */ given, /** @type {Options} */ options) =>
      each(given, options, ([vector]) => vector.data.slice()),
    classify: (/** @type {Pictures} */ given, /** @type {Options} */ options) =>
      each(given, options, ([logits]) => labelled(logits.data, labels, scores)),
    detect: (/** @type {Pictures} */ given, /** @type {Options & { least?: number, overlap?: number }} */ options) =>
      each(
        given,
        options,
        ([logits, places], size) => {
          const { least = 0.5, overlap } = options ?? {};
          return detectionsOf(logits, places, size, labels, overlap).filter(({ score }) => score > least);
        },
        ['least', 'overlap'],
      ),
    segment: (/** @type {Pictures} */ given, /** @type {Options} */ options) =>
      each(given, options, ([found], { height, width }) => {
        return { classes: bestClasses(found, height, width), height, width, labels };
      }),
  };
  return { [kind]: methods[kind] };
}

/**
 * The objects, the most probable one first. The last class is "no object"; places are centres and sizes, as parts of
 * the picture.
 * @param {Dense} logits
 * @param {Dense} places
 * @param {Pixels} size
 * @param {readonly string[]} labels
 * @param {number} [overlap]
 * @returns {Detection[]}
 */
function detectionsOf(logits, places, { height, width }, labels, overlap) {
  const [, count, classes] = logits.shape;
  const found = Array.from({ length: count }, (_, query) => {
    const row = scoresOf(logits.data.slice(query * classes, (query + 1) * classes), 'softmax').subarray(0, -1);
    const score = Math.max(...row);
    const [x, y, wide, high] = places.data.subarray(4 * query, 4 * query + 4);
    return {
      label: labels[row.indexOf(score)],
      score,
      left: (x - wide / 2) * width,
      top: (y - high / 2) * height,
      right: (x + wide / 2) * width,
      bottom: (y + high / 2) * height,
    };
  });
  found.sort((a, b) => b.score - a.score);
  return overlap === undefined ? found : suppressed(found, overlap);
}
