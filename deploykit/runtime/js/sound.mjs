// Models of sound: sound in, answers out. `sound` lets a model take samples, which are prepared as the manifest says.
// Sounds run one after another, each in its own length.

import { answering, fetchTask } from './answering.mjs';
import { ShapeError } from './errors.mjs';
import { labelled } from './labels.mjs';
import { resampled } from './resampling.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./labels.mjs').Label} Label */

/**
 * @typedef {object} Task
 * @property {'transcribe' | 'classify'} kind
 * @property {string} samples
 * @property {number} rate
 * @property {boolean} normal
 * @property {string[]} outputs
 * @property {string[]} labels
 * @property {'softmax' | 'sigmoid' | 'as_is'} scores
 * @property {string[]} letters
 * @property {string} blank
 * @property {boolean} lower
 */

/** @typedef {Float32Array | Int16Array | AudioBuffer} Sound */
/** @typedef {{ data: Float32Array, shape: readonly number[] }} Dense */

/** What is added to the variance, so that silence stays silence. */
const LEAST_VARIANCE = 1e-7;

/** A function that loads a model of sound, from one that loads any model. */
export const sound = answering(fetchTask, methodsOf);

/**
 * The methods of a model with this task.
 * @param {Model} model
 * @param {Task} task
 */
function methodsOf(model, task) {
  /**
   * What `read` makes of the results for each sound.
   * @template T
   * @param {Sound | readonly Sound[]} given
   * @param {number | undefined} rate
   * @param {(result: Dense) => T} read
   * @returns {Promise<T | T[]>}
   */
  const each = async (given, rate, read) => {
    const several = Array.isArray(given);
    /** @type {T[]} */
    const found = [];
    for (const one of several ? given : [given]) {
      const data = resampled(...samplesOf(one, rate), task.rate);
      const inputs = { [task.samples]: { data: task.normal ? normalised(data) : data, shape: [1, data.length] } };
      const results = await model.run(/** @type {any} */ (inputs));
      found.push(read(/** @type {any} */ (results)[task.outputs[0]]));
    }
    return several ? found : found[0];
  };
  const methods = {
    transcribe: (/** @type {Sound | readonly Sound[]} */ given, /** @type {number} */ rate) =>
      each(given, rate, (logits) => textOf(logits, task)),
    classify: (/** @type {Sound | readonly Sound[]} */ given, /** @type {number} */ rate) =>
      each(given, rate, ({ data }) => labelled(data, task.labels, task.scores)),
  };
  return { [task.kind]: methods[task.kind] };
}

/**
 * The most probable letter at each time, where equal neighbours are one, without blanks.
 * @param {Dense} logits
 * @param {Task} task
 */
function textOf({ data, shape }, { letters, blank, lower }) {
  const [, times, count] = shape;
  const found = Array.from({ length: times }, (_, time) => {
    const scores = data.subarray(time * count, (time + 1) * count);
    return letters[scores.indexOf(Math.max(...scores))];
  });
  const text = found.filter((letter, time) => letter !== found[time - 1] && letter !== blank).join('').trim();
  return lower ? text.toLowerCase() : text;
}

/** Samples with the mean 0 and the variance 1. */
function normalised(/** @type {Float32Array} */ samples) {
  const mean = samples.reduce((sum, x) => sum + x, 0) / samples.length;
  const variance = samples.reduce((sum, x) => sum + (x - mean) ** 2, 0) / samples.length;
  const scale = Math.sqrt(variance + LEAST_VARIANCE);
  return samples.map((x) => (x - mean) / scale);
}

/**
 * The samples of one channel, which is the mean of all, and their rate.
 * @param {Sound} given
 * @param {number} [rate]
 * @returns {[Float32Array, number]}
 */
function samplesOf(given, rate) {
  if (given instanceof Float32Array || given instanceof Int16Array) {
    if (rate === undefined) {
      throw new ShapeError('give the rate of the samples, in samples per second, after them');
    }
    const samples = given instanceof Int16Array ? Float32Array.from(given, (x) => x / 32768) : given;
    if (!samples.length || !samples.every(Number.isFinite)) {
      throw new ShapeError('a sound has samples, which are finite');
    }
    return [samples, rate];
  }
  if (typeof given?.getChannelData !== 'function') {
    throw new ShapeError('a sound is an AudioBuffer, or a Float32Array or Int16Array with its rate');
  }
  const channels = Array.from({ length: given.numberOfChannels }, (_, channel) => given.getChannelData(channel));
  const mixed = channels[0].map((_, index) => channels.reduce((sum, x) => sum + x[index], 0) / channels.length);
  return samplesOf(mixed, given.sampleRate);
}
