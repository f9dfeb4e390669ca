// The trial of a GPU while a model runs on WebAssembly, with the inputs of its first run or with a sample.

import { copiesOf } from './inputs.mjs';
import { nextTask } from './tasks.mjs';

/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {<T>(work: (module: ModelModule) => T | Promise<T>) => Promise<T>} Turn calls `work` between runs */
/**
 * `module` is to replace that of the model, if given. If WebAssembly was faster with so many `elements`, a GPU may be
 * faster with more of them.
 * @typedef {{ reason?: string, module?: ModelModule, elements?: number }} Outcome
 */

/** How many times as many elements the inputs of a run have before a GPU is tried again. */
export const GROWTH = 10;

export class Trial {
  /**
   * Milliseconds of the runs on WebAssembly with inputs of the sample's shapes.
   * @type {number[]}
   */
  times = [];
  stop = new AbortController();
  /** Called after a run that counts. */
  onTime = () => {};

  /**
   * @param {Tensor[] | undefined} sample
   * @param {AbortSignal | undefined} signal ends the trial
   * @param {(trial: Trial, turn: Turn) => Promise<Outcome>} decide
   * @param {number} [least] elements of the inputs of the run that becomes the sample
   */
  constructor(sample, signal, decide, least = 0) {
    this.sample = sample;
    this.signal = signal;
    this.least = least;
    /** Whether the sample was given, so that no runs of the page are needed. */
    this.given = Boolean(sample);
    this.decide = decide;
    const { stop } = this;
    signal?.addEventListener('abort', () => stop.abort(signal.reason), { signal: stop.signal });
  }

  /**
   * Run on WebAssembly and note the time.
   * @param {ModelModule} module
   * @param {readonly Tensor[]} tensors
   * @param {import('./module.mjs').Arrays} [arrays]
   * @param {readonly boolean[]} [keep]
   */
  async timed(module, tensors, arrays, keep) {
    const sample = this.sample ?? (elementsOf(tensors) < this.least ? undefined : copiesOf(tensors));
    const start = performance.now();
    const results = await module.run(tensors, arrays, keep);
    const time = performance.now() - start;
    this.sample = sample;
    if (sample && shapesOf(sample) === shapesOf(tensors)) {
      this.times.push(time);
      this.onTime();
    }
    return results;
  }

  /**
   * A trial with larger inputs, if this one ended with a measurement.
   * @param {Outcome} outcome
   */
  next({ module, elements }) {
    const over = module || elements === undefined || this.signal?.aborted;
    return over ? undefined : new Trial(undefined, this.signal, this.decide, GROWTH * elements);
  }

  /**
   * @param {Turn} turn
   * @returns {Promise<Outcome>}
   */
  async outcome(turn) {
    await nextTask();
    try {
      return await this.decide(this, turn);
    } catch (error) {
      // An aborted trial says nothing about the GPU.
      return this.stop.signal.aborted ? {} : { reason: failed(error) };
    } finally {
      this.stop.abort();
    }
  }
}

/** How many elements tensors have. @param {readonly Tensor[]} [tensors] */
export function elementsOf(tensors = []) {
  return tensors.reduce((sum, { data }) => sum + data.length, 0);
}

/** @param {readonly Tensor[]} [tensors] */
export function shapesOf(tensors) {
  return tensors?.map(({ shape }) => `[${shape.join(', ')}]`).join(', ');
}

/** @param {unknown} error */
export function failed(error) {
  return `WebGPU failed: ${error instanceof Error ? error.message : error}`;
}
