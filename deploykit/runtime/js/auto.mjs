// Finds out whether a GPU is faster than WebAssembly: both run with the same inputs. Nothing here keeps the page
// waiting for longer than one of its own runs. The result is remembered.

import { findAdapter } from './device.mjs';
import { nextTask } from './tasks.mjs';
import { elementsOf, GROWTH, shapesOf } from './trial.mjs';

/** @typedef {import('./choosing.mjs').Memory} Memory */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./trial.mjs').Outcome} Outcome */
/** @typedef {import('./trial.mjs').Trial} Trial */
/** @typedef {import('./trial.mjs').Turn} Turn */

/** Runs on the GPU are started for this many milliseconds, after a first one that does not count. */
const ENOUGH = 100;
/** This many runs are enough. The fastest one counts, because others may have waited for the page. */
const RUNS = 3;
/** The first runs on WebAssembly may take up to this many times as long, because engines recompile hot code. */
const COLD = 2;
/**
 * Milliseconds: a page should have no longer tasks. If runs take longer, only the page's own runs are measured, unless
 * it gave a sample.
 */
const LONG_TASK = 50;

/**
 * A text that identifies the adapter; empty if there is none.
 * @param {LoadOptions} options
 */
async function nameOfAdapter({ powerPreference, gpuDevice }) {
  const own = gpuDevice && { info: gpuDevice.adapterInfo };
  const adapter = own ?? (await findAdapter(powerPreference).catch(() => null));
  const { vendor, architecture, device, description } = adapter?.info ?? {};
  return adapter ? [vendor, architecture, device, description].join(' ') : '';
}

/**
 * Whether the adapter has this name.
 * @param {string} name
 * @param {LoadOptions} options
 */
export async function isAdapter(name, options) {
  return (await nameOfAdapter(options)) === name;
}

/**
 * Try the model on the GPU, unless the result is known; the outcome has the module if the GPU is faster.
 * @param {() => Promise<ModelModule>} open the model on the GPU
 * @param {Memory} memory
 * @param {Trial} trial
 * @param {Turn} turn
 * @param {LoadOptions} options
 * @returns {Promise<Outcome>}
 */
export async function prove(open, memory, trial, turn, options) {
  const adapter = await nameOfAdapter(options);
  if (!adapter) {
    return { reason: 'this engine has no WebGPU adapter' };
  }
  const known = await memory.recall();
  const elements = elementsOf(trial.sample);
  if (known?.device === 'wasm' && known.adapter === adapter && elements < GROWTH * known.elements) {
    return { reason: known.reason, elements: known.elements };
  }
  const gpu = await open();
  try {
    const onGpu = await timed(gpu, trial);
    const faster = await isBelow(onGpu, trial, turn);
    const times = `WebGPU ${onGpu.toFixed(2)} ms, WebAssembly ${Math.min(...trial.times).toFixed(2)} ms`;
    const reason = `measured with ${shapesOf(trial.sample)}: ${times}`;
    await memory.keep({ device: faster ? 'webgpu' : 'wasm', reason, adapter, elements });
    trial.stop.signal.throwIfAborted();
    if (faster) {
      return { reason, module: gpu };
    }
    gpu.end();
    return { reason, elements };
  } catch (error) {
    gpu.end();
    throw error;
  }
}

/**
 * Milliseconds of the fastest of several runs on the GPU.
 * @param {ModelModule} gpu
 * @param {Trial} trial
 */
async function timed(gpu, { sample = [], stop: { signal } }) {
  await gpu.run(sample);
  let least = Infinity;
  const end = performance.now() + ENOUGH;
  for (let runs = 0; runs < RUNS || performance.now() < end; runs += 1) {
    await nextTask();
    signal.throwIfAborted();
    const start = performance.now();
    await gpu.run(sample);
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

/**
 * Whether WebAssembly takes longer than the GPU, as soon as enough runs are measured to be sure.
 * @param {number} onGpu milliseconds of a run
 * @param {Trial} trial
 * @param {Turn} turn
 */
async function isBelow(onGpu, trial, turn) {
  const { sample = [], given, times, stop } = trial;
  for (;;) {
    const least = Math.min(...times);
    if (onGpu >= least) {
      return false;
    }
    if (times.length >= RUNS || (times.length > 0 && COLD * onGpu < least)) {
      return true;
    }
    if (!given && least > LONG_TASK) {
      await new Promise((resolve, reject) => {
        trial.onTime = () => resolve(null);
        stop.signal.addEventListener('abort', reject);
      });
    } else {
      await turn((cpu) => trial.timed(cpu, sample));
    }
    stop.signal.throwIfAborted();
  }
}
