// A worker of a model's pool: takes part in parallel loops until it is terminated.

import { MATH } from './math.mjs';

/** @typedef {{ module: WebAssembly.Module, memory: WebAssembly.Memory, stack: number }} Task `stack`: address of its end */
/** @typedef {{ ready?: true, failed?: string }} Message */

/**
 * @param {Task} task
 * @param {(message: Message) => void} tell
 */
function work({ module, memory, stack }, tell) {
  /** @type {{ work: (stack: number) => void, abandon: () => void } | undefined} */
  let exports;
  try {
    // Only the thread that runs the model times its steps.
    const imports = { env: { memory }, math: MATH, profile: { step: () => {} } };
    exports = /** @type {any} */ (new WebAssembly.Instance(module, imports).exports);
    tell({ ready: true });
    exports?.work(stack);
  } catch (error) {
    exports?.abandon();
    tell({ failed: String(error) });
  }
}

// The listener must be added at once: a message may come before anything that is awaited here.
addEventListener('message', ({ data }) => work(data, (message) => postMessage(message)), { once: true });
