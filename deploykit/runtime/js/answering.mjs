// Models that answer in the user's terms: how they are loaded, whatever they take.

import { checkOptions } from './inputs.mjs';
import { fetchManifest } from './opening.mjs';
import { nextTask } from './tasks.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {(locate: Locate, options?: LoadOptions) => Promise<Model>} Load */
/** @typedef {{ done: number, total: number }} Progress how many of the things that were given have answers */
/**
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] ends the work between two parts of it
 * @property {(progress: Progress) => void} [onProgress] called after each part
 */

/** Milliseconds after which the page gets its turn. */
const BUSY = 15;

/**
 * A function that gives models further methods: it takes a function that loads a model, and returns another one.
 * `prepare` fetches what the methods need, while the model is loaded, so that both share what they fetch. `inputsOf`
 * makes inputs of what the methods take, for a sample.
 * @template T
 * @param {(locate: Locate, options?: LoadOptions) => Promise<T>} prepare
 * @param {(model: Model, fetched: T) => object} methodsOf
 * @param {(inputs: readonly Port[], fetched: T, sample: any) => Record<string, unknown>} inputsOf
 * @returns {(load: Load) => Load}
 */
export function answering(prepare, methodsOf, inputsOf) {
  return (load) => async (locate, options) => {
    const fetching = prepare(locate, options);
    fetching.catch(() => {});
    const { sample } = options ?? {};
    let given = options;
    if (sample !== undefined) {
      const { inputs } = await fetchManifest(locate, options);
      const isNamed = Object.keys(sample).some((name) => inputs.some((input) => input.name === name));
      given = isNamed ? options : { ...options, sample: /** @type {any} */ (inputsOf(inputs, await fetching, sample)) };
    }
    const model = await load(locate, given);
    try {
      return Object.assign(model, methodsOf(model, await fetching));
    } catch (error) {
      model.dispose();
      throw error;
    }
  };
}

/**
 * What the manifest says of the task.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 */
export async function fetchTask(locate, options) {
  return /** @type {any} */ (await fetchManifest(locate, options)).task;
}

/** The work of a call, which gives turns to the page. */
export class Call {
  #onProgress;
  #progress;
  #since = performance.now();

  /**
   * @param {string} name of the method
   * @param {CallOptions & Record<string, unknown> | null | undefined} given options
   * @param {readonly string[]} more names of options, besides those of every call
   * @param {number} total how many things were given
   * @throws {UsageError}
   */
  constructor(name, given, more, total) {
    const { signal, onProgress } = checkOptions(given, ['signal', 'onProgress', ...more], name);
    this.signal = signal;
    this.#onProgress = onProgress;
    this.#progress = { done: 0, total };
  }

  /** Let the page do its own work, if it has waited for long; throws if the call is aborted. */
  async rest() {
    if (performance.now() - this.#since > BUSY) {
      await nextTask();
      this.#since = performance.now();
    }
    this.signal?.throwIfAborted();
  }

  /** @param {number} count more things have answers */
  advance(count) {
    this.#progress.done += count;
    this.#onProgress?.({ ...this.#progress });
  }
}

/**
 * What `answer` gives for each thing, one after another; for one thing that is no list, only that.
 * @template Thing, T
 * @param {Thing | readonly Thing[]} given
 * @param {(things: readonly Thing[]) => Call} begin
 * @param {(thing: Thing, call: Call) => Promise<T>} answer
 * @returns {Promise<T | T[]>}
 */
export async function eachOf(given, begin, answer) {
  const things = /** @type {readonly Thing[]} */ (Array.isArray(given) ? given : [given]);
  const call = begin(things);
  /** @type {T[]} */
  const found = [];
  for (const thing of things) {
    await call.rest();
    found.push(await answer(thing, call));
    call.advance(1);
  }
  return Array.isArray(given) ? found : found[0];
}
