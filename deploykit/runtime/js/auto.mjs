// The faster device for a model, found by a short measurement, which is remembered where pages can keep it.

import { findAdapter } from './device.mjs';
import { dtypeOf } from './dtypes.mjs';
import { MemoryError } from './errors.mjs';
import { openCache } from './files.mjs';
import { nextTask } from './model.mjs';

/** @typedef {import('./model.mjs').Choice} Choice */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */

/** For so many milliseconds runs of a device begin, after a first one. */
const ENOUGH = 100;
/** Sizes of dims that are no batch, within their bounds: the first of them that the model takes is measured at. */
const SIZES = [64, 256, 1];
/** Such a choice is for this time only. */
const PROBLEM = 'WebGPU failed: ';

/**
 * Open both devices, and keep the faster one. A GPU that fails is as good as none.
 * @param {import('./model.mjs').Open} open
 * @param {(reason: string) => Promise<Choice>} wasm that device, for a reason
 * @param {Manifest} manifest
 * @param {URL} home where the manifest is
 * @param {readonly Tensor[] | undefined} given inputs to measure with
 * @param {LoadOptions} options
 * @returns {Promise<Choice>}
 */
export async function chooseFaster(open, wasm, manifest, home, given, { cache = true, signal, threads }) {
  const adapter = await findAdapter().catch(() => null);
  if (!adapter) {
    return wasm('this engine has no WebGPU adapter');
  }
  const memory = cache ? await openCache() : null;
  const key = keyOf(manifest, home, adapter.info, [threads, given?.map(({ shape }) => shape)]);
  /** @type {Choice | undefined} */
  const known = await (await memory?.match(key))?.json();
  if (known?.device === 'wasm') {
    return wasm(known.reason);
  }
  if (known) {
    return open('webgpu').then(
      (module) => ({ ...known, module }),
      async (error) => {
        signal?.throwIfAborted();
        await memory?.delete(key);
        return wasm(failed(error));
      },
    );
  }
  const choice = await openBoth(open, (cpu, gpu) => measured(cpu, gpu, given ? [given] : zeros(manifest), signal));
  if (!choice.reason.startsWith(PROBLEM)) {
    const { device, reason } = choice;
    await memory?.put(key, new Response(JSON.stringify({ device, reason }))).catch(() => {});
  }
  return choice;
}

/** @param {unknown} error */
function failed(error) {
  return PROBLEM + (error instanceof Error ? error.message : error);
}

/**
 * The device that `decide` says, or the only one that can be opened.
 * @param {import('./model.mjs').Open} open
 * @param {(cpu: ModelModule, gpu: ModelModule) => Promise<Choice>} decide
 * @returns {Promise<Choice>}
 */
async function openBoth(open, decide) {
  const opening = open('webgpu').catch((error) => ({ error }));
  const drop = () => opening.then((gpu) => 'error' in gpu || gpu.end());
  /** @type {ModelModule} */
  let cpu;
  try {
    cpu = await open('wasm');
  } catch (error) {
    const gpu = error instanceof MemoryError && (await opening);
    if (!gpu || 'error' in gpu) {
      drop();
      throw error;
    }
    return { device: 'webgpu', module: gpu, reason: `WebAssembly failed: ${error.message}` };
  }
  const gpu = await opening;
  if ('error' in gpu) {
    return { device: 'wasm', module: cpu, reason: failed(gpu.error) };
  }
  try {
    const choice = await decide(cpu, gpu);
    (choice.module === cpu ? gpu : cpu).end();
    return choice;
  } catch (error) {
    cpu.end();
    gpu.end();
    throw error;
  }
}

/**
 * The faster of two modules, with the first of the samples that the model takes.
 * @param {ModelModule} cpu
 * @param {ModelModule} gpu
 * @param {Iterable<readonly Tensor[]>} samples
 * @param {AbortSignal} [signal]
 * @returns {Promise<Choice>}
 */
async function measured(cpu, gpu, samples, signal) {
  const wasm = (/** @type {string} */ reason) => ({ device: /** @type {const} */ ('wasm'), module: cpu, reason });
  let refused = '';
  for (const tensors of samples) {
    let onCpu;
    try {
      onCpu = await timed(cpu, tensors, signal);
    } catch (error) {
      signal?.throwIfAborted();
      refused = String(error);
      continue;
    }
    try {
      const onGpu = await timed(gpu, tensors, signal);
      const shapes = tensors.map(({ shape }) => `[${shape.join(', ')}]`).join(', ');
      const times = `measured with ${shapes}: WebGPU ${onGpu.toFixed(2)} ms, WebAssembly ${onCpu.toFixed(2)} ms`;
      return onGpu < onCpu ? { device: 'webgpu', module: gpu, reason: times } : wasm(times);
    } catch (error) {
      signal?.throwIfAborted();
      return wasm(failed(error));
    }
  }
  return wasm(`not measured, for want of a sample that the model takes: ${refused}`);
}

/**
 * Milliseconds of a run, the mean of several.
 * @param {ModelModule} module
 * @param {readonly Tensor[]} tensors
 * @param {AbortSignal} [signal]
 */
async function timed(module, tensors, signal) {
  await module.run(tensors);
  let runs = 0;
  let total = 0;
  for (const end = performance.now() + ENOUGH; runs === 0 || performance.now() < end; runs += 1) {
    await nextTask();
    signal?.throwIfAborted();
    const start = performance.now();
    await module.run(tensors);
    total += performance.now() - start;
  }
  return total / runs;
}

/**
 * Inputs of several sizes. The first axis of an input with more than one is a batch, and as small as it may be.
 * @param {Manifest} manifest
 * @returns {Generator<Tensor[]>}
 */
function* zeros({ inputs, dims }) {
  const batches = new Set(inputs.flatMap(({ shape }) => (shape.length > 1 ? [shape[0]] : [])));
  for (const size of SIZES) {
    const bounded = dims.map(({ name, minimum, maximum }) => {
      const wanted = Math.max(batches.has(name) ? 1 : size, minimum);
      return /** @type {const} */ ([name, Math.min(wanted, maximum ?? wanted)]);
    });
    const extents = new Map(bounded);
    yield inputs.map(({ dtype, shape: axes }) => {
      const shape = axes.map((axis) => (typeof axis === 'number' ? axis : (extents.get(axis) ?? 1)));
      const { array } = dtypeOf(dtype);
      return { dtype, shape, data: new array(shape.reduce((product, extent) => product * extent, 1)) };
    });
  }
}

/**
 * Where a choice is kept: that of one build of a model, on one GPU.
 * @param {Manifest} manifest
 * @param {URL} home
 * @param {GPUAdapterInfo} info
 * @param {unknown} given what else may change it
 */
function keyOf({ files }, home, { vendor, architecture, device, description }, given) {
  const code = files.filter(({ name }) => /\.(wasm|wgsl)$/.test(name)).map(({ sha256 }) => sha256.slice(0, 16));
  const key = JSON.stringify([code, vendor, architecture, device, description, given]);
  return `${home.origin}${home.pathname}?device=${encodeURIComponent(key)}`;
}
