// Whether a GPU is faster than WebAssembly: both run with the same inputs. The page is kept waiting by nothing that takes
// longer than its own runs do, and remembers what was found.

import { findAdapter } from './device.mjs';
import { nextTask } from './tasks.mjs';
import { shapesOf } from './trial.mjs';

/** @typedef {import('./choices.mjs').Memory} Memory */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./trial.mjs').Outcome} Outcome */
/** @typedef {import('./trial.mjs').Trial} Trial */
/** @typedef {import('./trial.mjs').Turn} Turn */

/** For so many milliseconds runs of the GPU begin, after a first one. */
const ENOUGH = 100;
/** So many runs are enough, of which the fastest counts: others may have waited for the page. */
const RUNS = 3;
/** Before that, engines may take so many times as long: they compile again what is hot. */
const COLD = 2;
/**
 * The page's own runs are waited for where runs take longer, in milliseconds, unless it gave a sample: pages should have no
 * longer tasks.
 */
const LONG_TASK = 50;

/** What tells an adapter from others. */
async function nameOfAdapter() {
  const adapter = await findAdapter().catch(() => null);
  const { vendor, architecture, device, description } = adapter?.info ?? {};
  return adapter ? [vendor, architecture, device, description].join(' ') : '';
}

/**
 * Whether the adapter is this one.
 * @param {string} name
 */
export async function isAdapter(name) {
  return (await nameOfAdapter()) === name;
}

/**
 * @param {() => Promise<ModelModule>} open the model on the GPU
 * @param {Memory} memory
 * @param {Trial} trial
 * @param {Turn} turn
 * @returns {Promise<Outcome>}
 */
export async function prove(open, memory, trial, turn) {
  const adapter = await nameOfAdapter();
  if (!adapter) {
    return { reason: 'this engine has no WebGPU adapter' };
  }
  const known = await memory.recall();
  if (known?.device === 'wasm' && known.adapter === adapter) {
    return known;
  }
  const gpu = await open();
  try {
    const onGpu = await timed(gpu, trial);
    const faster = await isBelow(onGpu, trial, turn);
    const times = `WebGPU ${onGpu.toFixed(2)} ms, WebAssembly ${Math.min(...trial.times).toFixed(2)} ms`;
    const reason = `measured with ${shapesOf(trial.sample)}: ${times}`;
    await memory.keep({ device: faster ? 'webgpu' : 'wasm', reason, adapter });
    trial.stop.signal.throwIfAborted();
    if (faster) {
      return { reason, module: gpu };
    }
    gpu.end();
    return { reason };
  } catch (error) {
    gpu.end();
    throw error;
  }
}

/**
 * Milliseconds of a run on the GPU, the least of several.
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
 * Whether so many milliseconds are less than WebAssembly takes, once that is sure.
 * @param {number} onGpu
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
