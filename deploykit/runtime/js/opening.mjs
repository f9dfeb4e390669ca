// Opens a model on a device: fetches its files, puts the weights into memory, and reports progress.

import { IntegrityError, partOf, UnsupportedError } from './errors.mjs';
import { fetchFile } from './files.mjs';
import { checkSize, FEATURES, ModelModule } from './module.mjs';
import { inTasks } from './tasks.mjs';
import { threadCount } from './threads.mjs';

/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./model.mjs').Open} Open */
/** @typedef {import('./model.mjs').Progress} Progress */

export const MANIFEST = 'manifest.json';
const WEIGHTS = 'weights/';
/** Prefixes of weights that are laid out for one kind of device only. */
const OF_WASM = 'weights/wasm-';
const OF_GPU = 'weights/gpu-';
const GPU_MODULE = 'model-gpu.wasm';
const SHADERS = 'shaders.wgsl';

/** @param {Manifest} manifest */
export function hasKernels({ files }) {
  return files.some((file) => file.name === GPU_MODULE);
}

/**
 * A function that opens the model on a device. Calls at the same time share transfers. `onProgress` is called only when
 * progress grows, so that it reaches the end once.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {AbortSignal} signal
 * @param {LoadOptions} options
 * @returns {Open}
 */
export function opener(locate, manifest, signal, { onProgress = () => {}, cache = true, threads }) {
  const progress = { loaded: 0, total: 0, compiled: 0, shaders: 0 };
  let told = 0;
  const advance = (/** @type {Partial<Progress>} */ by) => {
    for (const [key, count] of Object.entries(by)) {
      progress[/** @type {keyof Progress} */ (key)] += count;
    }
    const part = progress.loaded / progress.total;
    if (part > told || 'shaders' in by || 'compiled' in by) {
      told = Math.max(part, told);
      onProgress({ ...progress });
    }
  };
  const transfer = { signal, cache, onBytes: (/** @type {number} */ loaded) => advance({ loaded }) };
  /** @type {Map<string, Promise<Uint8Array<ArrayBuffer>>>} */
  const underWay = new Map();
  const get = (/** @type {FileEntry} */ entry) => {
    const file = underWay.get(entry.name) ?? fetchFile(locate(entry.name), entry, transfer);
    if (!underWay.has(entry.name)) {
      progress.total += entry.bytes;
      underWay.set(entry.name, file);
      const done = () => underWay.delete(entry.name);
      file.then(done, done);
    }
    return file;
  };
  return async (device, other) => {
    signal.throwIfAborted();
    const onGpu = device === 'webgpu';
    if (onGpu && !hasKernels(manifest)) {
      throw new UnsupportedError("this model has no kernels for a GPU: load with device 'wasm'");
    }
    const shards = shardsOf(manifest, device);
    const weights = shards.reduce((sum, file) => sum + file.bytes, 0);
    if (!onGpu) {
      checkSize(weights, 'the weights', 'the model is too large for it');
    }
    const simd = FEATURES.relaxed() ? 'model-relaxed.wasm' : 'model.wasm';
    const code = get(fileOf(locate, manifest, onGpu ? GPU_MODULE : simd));
    const made = onGpu
      ? makeForGpu(manifest, code, get(fileOf(locate, manifest, SHADERS)), advance)
      : makeForCpu(manifest, code, threads, locate('runtime/worker.mjs'));
    const ready = made.then((module) => withMemory(module, manifest, shards));
    const places = placesOf(shards);
    const held = placesOf(other ? shardsOf(manifest, 'wasm') : []);
    const place = async (/** @type {FileEntry} */ shard) => {
      const bytes = held.has(shard.name) || (await get(shard));
      (await ready).placeWeights(
        Number(places.get(shard.name)),
        bytes === true ? /** @type {ModelModule} */ (other).weightsAt(Number(held.get(shard.name)), shard.bytes) : bytes,
      );
    };
    try {
      const placed = other ? inTasks(shards, place) : Promise.all(shards.map(place));
      const [module] = await Promise.all([ready, placed]);
      signal.throwIfAborted();
      return await module.open();
    } catch (error) {
      ready.then((module) => module.end()).catch(() => {});
      throw error;
    }
  };
}

/**
 * The files of the weights for a device, in their order in memory.
 * @param {Manifest} manifest
 * @param {Device} device
 */
function shardsOf({ files }, device) {
  const others = device === 'webgpu' ? OF_WASM : OF_GPU;
  return files.filter(({ name }) => name.startsWith(WEIGHTS) && !name.startsWith(others));
}

/**
 * The offsets of files that are placed one after another in memory.
 * @param {readonly FileEntry[]} shards
 */
function placesOf(shards) {
  let offset = 0;
  return new Map(shards.map(({ name, bytes }) => [name, (offset += bytes) - bytes]));
}

/**
 * Give a module memory for the weights, and for a run with the least dims, before the weights are fetched.
 * @param {ModelModule} module
 * @param {Manifest} manifest
 * @param {readonly FileEntry[]} shards the files of the weights
 */
function withMemory(module, manifest, shards) {
  try {
    const pieces = shards.map(({ name, bytes }) => ({ bytes, goesOn: name.endsWith('-more.bin') }));
    module.reserveWeights(pieces, module.arenaBytes(manifest.dims.map((dim) => dim.minimum)));
    return module;
  } catch (error) {
    module.end();
    throw error;
  }
}

/**
 * @param {Manifest} manifest
 * @param {Promise<Uint8Array<ArrayBuffer>>} code
 * @param {Promise<Uint8Array<ArrayBuffer>>} shaders
 * @param {(by: Partial<Progress>) => void} advance
 * @returns {Promise<ModelModule>}
 */
async function makeForGpu(manifest, code, shaders, advance) {
  const { GpuModule } = await partOf(import('./gpu-module.mjs'));
  return GpuModule.make(manifest, code, shaders, advance);
}

/**
 * The module with its workers. If workers cannot be started, and `threads` is not given, it has none.
 * @param {Manifest} manifest
 * @param {Promise<Uint8Array<ArrayBuffer>>} code
 * @param {number} [threads]
 * @param {URL} [script] of workers, if it is not beside the modules
 */
async function makeForCpu(manifest, code, threads, script) {
  const count = await threadCount(threads);
  if (count > 1) {
    // Loaded while the code is fetched; a failure is reported when the pool is used.
    import('./pool.mjs').catch(() => {});
  }
  const binary = await code;
  try {
    return await ModelModule.compile(binary, manifest, count, script);
  } catch (error) {
    if (threads !== undefined || count === 1) {
      throw error;
    }
    return ModelModule.compile(binary, manifest, 1);
  }
}

/**
 * Fetch the plan, which has the names of the steps, for profiles.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {Device} device
 * @returns {Promise<import('./profile.mjs').Plan>}
 */
export async function fetchPlan(locate, manifest, device) {
  const name = device === 'webgpu' ? 'plan_webgpu.json' : 'plan.json';
  const bytes = await fetchFile(locate(name), fileOf(locate, manifest, name), { cache: false, onBytes: () => {} });
  return JSON.parse(new TextDecoder().decode(bytes));
}

/**
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {string} name
 */
function fileOf(locate, manifest, name) {
  const found = manifest.files.find((file) => file.name === name);
  if (!found) {
    throw new IntegrityError(`${locate(MANIFEST)} names no ${name}: build the model again`);
  }
  return found;
}
