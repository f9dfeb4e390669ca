// Models of sound: sound in, answers out. `sound` lets a model take samples, which are prepared as the manifest says.
// Sounds run one after another, each in its own length.

import { answering, Call, eachOf, fetchTask } from './answering.mjs';
import { ShapeError } from './errors.mjs';
import { isArray } from './inputs.mjs';
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
/** @typedef {import('./answering.mjs').CallOptions} CallOptions */
/** @typedef {number | CallOptions & { rate?: number } | undefined} Options a number is a rate */
/** @typedef {{ data: Float32Array, shape: readonly number[] }} Dense */

/** What is added to the variance, so that silence stays silence. */
const LEAST_VARIANCE = 1e-7;

/** A function that loads a model of sound, from one that loads any model. */
export const sound = answering(fetchTask, methodsOf, (_, task, sample) => {
  const { sound: given = sample, rate = task.rate } = Object(sample);
  return inputsOf(task, given, rate);
});

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
   * @param {Options} options
   * @param {(result: Dense) => T} read
   * @returns {Promise<T | T[]>}
   */
  const each = async (given, options, read) => {
    const named = typeof options === 'number' ? { rate: options } : options;
    return eachOf(
      given,
      ({ length }) => new Call(task.kind, named, ['rate'], length),
      async (/** @type {Sound} */ one, call) => {
        const results = await model.run(/** @type {any} */ (inputsOf(task, one, named?.rate)), { signal: call.signal });
        return read(/** @type {any} */ (results)[task.outputs[0]]);
      },
    );
  };
  const methods = {
    transcribe: (/** @type {Sound | readonly Sound[]} */ given, /** @type {Options} */ options) =>
      each(given, options, (logits) => textOf(logits, task)),
    classify: (/** @type {Sound | readonly Sound[]} */ given, /** @type {Options} */ options) =>
      each(given, options, ({ data }) => labelled(data, task.labels, task.scores)),
  };
  return { [task.kind]: methods[task.kind] };
}

/**
 * @param {Task} task
 * @param {Sound} given
 * @param {number} [rate]
 */
function inputsOf({ rate: wanted, normal, samples }, given, rate) {
  const data = resampled(...samplesOf(given, rate), wanted);
  return { [samples]: { data: normal ? normalised(data) : data, shape: [1, data.length] } };
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
  const whole = isArray(given, 'Int16Array');
  if (whole || isArray(given, 'Float32Array')) {
    if (rate === undefined) {
      throw new ShapeError('give the rate of the samples, in samples per second, after them: 16000 or { rate: 16000 }');
    }
    const list = /** @type {Float32Array | Int16Array} */ (given);
    const samples = whole ? Float32Array.from(list, (x) => x / 32768) : Float32Array.from(list);
    if (!samples.length || !samples.every(Number.isFinite)) {
      throw new ShapeError('a sound has samples, which are finite');
    }
    return [samples, rate];
  }
  const audio = /** @type {AudioBuffer} */ (given);
  if (typeof audio?.getChannelData !== 'function') {
    throw new ShapeError('a sound is an AudioBuffer, or a Float32Array or Int16Array with its rate');
  }
  const channels = Array.from({ length: audio.numberOfChannels }, (_, channel) => audio.getChannelData(channel));
  const mixed = channels[0].map((_, index) => channels.reduce((sum, x) => sum + x[index], 0) / channels.length);
  return samplesOf(mixed, audio.sampleRate);
}
