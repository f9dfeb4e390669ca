// Which device runs a model if the caller leaves it open and the engine has WebGPU.

import { MemoryError, partOf } from './errors.mjs';
import { copiesOf } from './inputs.mjs';
import { opener, storeOf } from './opening.mjs';
import { failed, shapesOf, Trial } from './trial.mjs';

/** @typedef {import('./model.mjs').Choice} Choice */
/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */

/** What is remembered of a choice: for one build of a model, and for the GPU that was tried. */
export class Memory {
  /**
   * @param {import('./storage.mjs').Store | null} store
   * @param {import('./model.mjs').Manifest} manifest
   * @param {unknown} given what else may change the choice
   */
  constructor(store, manifest, given) {
    this.store = store;
    this.manifest = manifest;
    this.given = JSON.stringify(given);
  }

  async recall() {
    return this.store?.choice(this.manifest, this.given);
  }

  /** @param {import('./storage.mjs').Known} known */
  async keep(known) {
    await this.store?.keepChoice(this.manifest, this.given, known);
  }

  async forget() {
    await this.store?.forgetChoice(this.manifest, this.given);
  }
}

/**
 * Load the model on WebAssembly, with a trial of WebGPU. The model is loaded on WebGPU at once if that was found to be
 * faster before, or if the model does not fit into WebAssembly's memory.
 * @param {import('./model.mjs').Open} open
 * @param {import('./model.mjs').Manifest} manifest
 * @param {import('./model.mjs').Locate} locate
 * @param {import('./model.mjs').LoadOptions} options
 * @param {Tensor[]} [sample] inputs to measure with; by default those of the first run
 * @returns {Promise<{ choice: Choice, trial?: Trial }>}
 */
export async function choose(open, manifest, locate, options, sample) {
  const { signal, threads } = options;
  const on = async (/** @type {Device} */ device, /** @type {string} */ reason) => {
    return { choice: { device, module: await open(device), reason } };
  };
  const memory = new Memory(await storeOf(locate, manifest, options), manifest, [threads, shapesOf(sample)]);
  const known = await memory.recall();
  let reason = 'WebGPU is not measured so far';
  if (known?.device === 'webgpu') {
    try {
      const { isAdapter } = await partOf(import('./auto.mjs'));
      if (await isAdapter(known.adapter, options)) {
        return await on('webgpu', known.reason);
      }
    } catch (error) {
      signal?.throwIfAborted();
      await memory.forget();
      return on('wasm', failed(error));
    }
  } else if (known) {
    reason = known.reason;
  }
  /** @type {ModelModule} */
  let cpu;
  try {
    cpu = await open('wasm');
  } catch (error) {
    if (!(error instanceof MemoryError)) {
      throw error;
    }
    reason = `WebAssembly failed: ${error.message}`;
    return on('webgpu', reason).catch(() => Promise.reject(error));
  }
  const trial = new Trial(sample && copiesOf(sample), signal, async (current, turn) => {
    const { prove } = await partOf(import('./auto.mjs'));
    const behind = opener(locate, manifest, current.stop.signal, options, 'trial');
    return prove(() => behind('webgpu', cpu), memory, current, turn, options);
  });
  return { choice: { device: 'wasm', module: cpu, reason }, trial };
}
