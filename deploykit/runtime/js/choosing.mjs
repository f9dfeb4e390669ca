// Which device runs a model if the caller leaves it open and the engine has WebGPU.

import { Memory } from './choices.mjs';
import { MemoryError, partOf } from './errors.mjs';
import { copiesOf } from './inputs.mjs';
import { MANIFEST, opener } from './opening.mjs';
import { failed, shapesOf, Trial } from './trial.mjs';

/** @typedef {import('./model.mjs').Choice} Choice */
/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */

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
export async function choose(open, manifest, locate, { signal, threads, cache = true }, sample) {
  const on = async (/** @type {Device} */ device, /** @type {string} */ reason) => {
    return { choice: { device, module: await open(device), reason } };
  };
  const memory = new Memory(cache, manifest, locate(MANIFEST), [threads, shapesOf(sample)]);
  const known = await memory.recall();
  let reason = 'WebGPU is not measured so far';
  if (known?.device === 'webgpu') {
    try {
      const { isAdapter } = await partOf(import('./auto.mjs'));
      if (await isAdapter(known.adapter)) {
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
  const trial = new Trial(sample && copiesOf(sample), signal, async ({ stop }, turn) => {
    const { prove } = await partOf(import('./auto.mjs'));
    const behind = opener(locate, manifest, stop.signal, { cache });
    return prove(() => behind('webgpu', cpu), memory, trial, turn);
  });
  return { choice: { device: 'wasm', module: cpu, reason }, trial };
}
