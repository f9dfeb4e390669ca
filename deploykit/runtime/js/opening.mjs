// Opens a model on a device: fetches its files, puts the weights into memory, and reports progress.

import { IntegrityError, NetworkError, partOf, UnsupportedError } from './errors.mjs';
import { fetchFile, fetchJson, givenFile } from './files.mjs';
import { checkSize } from './memory.mjs';
import { FEATURES, ModelModule } from './module.mjs';
import { inTasks } from './tasks.mjs';

/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./model.mjs').Open} Open */
/** @typedef {import('./model.mjs').Progress} Progress */
/** @typedef {Omit<Progress, 'phase'>} Counts */

export const MANIFEST = 'manifest.json';
const WEIGHTS = 'weights/';
/** Prefixes of weights that are laid out for one kind of device only. */
const OF_WASM = 'weights/wasm-';
const OF_GPU = 'weights/gpu-';
const CPU_MODULES = ['model.wasm', 'model-relaxed.wasm'];
const GPU_MODULE = 'model-gpu.wasm';
const SHADERS = 'shaders.wgsl';

/** @param {Manifest} manifest */
export function hasKernels({ files }) {
  return files.some((file) => file.name === GPU_MODULE);
}

/** @param {Manifest} manifest */
export function isOnlyForGpu({ files }) {
  return !files.some((file) => CPU_MODULES.includes(file.name));
}

/** The module that keeps files, where there is Cache Storage. A model loads without it, too. */
const loadStorage = () => (globalThis.caches ? import('./storage.mjs').catch(() => null) : null);

/**
 * The manifest. If the network does not answer, it is that of the version that was loaded last.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 * @returns {Promise<Manifest>}
 */
export async function fetchManifest(locate, { signal, cache = true, ...source } = {}) {
  if (source.files) {
    return JSON.parse(new TextDecoder().decode(await givenFile(MANIFEST, source.files)));
  }
  const storage = cache ? loadStorage() : null;
  try {
    return await fetchJson(locate(MANIFEST), signal, source);
  } catch (error) {
    const silent = error instanceof NetworkError && error.status === 0;
    const kept = silent && (await (await storage)?.keptManifest(locate(MANIFEST)));
    if (kept) {
      return kept;
    }
    throw error;
  }
}

/**
 * Keeps the files of a model. Bundlers replace small ones by `data:` URLs, which are in no folder.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {LoadOptions} options
 */
export async function storeOf(locate, { name, files }, { cache = true, files: given }) {
  const places = [MANIFEST, ...files.map((file) => file.name)].map(locate);
  const address = places.find((place) => place?.protocol.startsWith('http'));
  const storage = cache && !given && address ? await loadStorage() : null;
  return storage && address ? storage.Store.of(address, name) : null;
}

/**
 * A function that opens the model on a device. Calls at the same time share transfers. `onProgress` is called only when
 * progress grows, so that it reaches the end once.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {AbortSignal} signal
 * @param {LoadOptions} options
 * @param {Progress['phase']} [phase]
 * @returns {Open}
 */
export function opener(locate, manifest, signal, options, phase = 'load') {
  const { onProgress = () => {}, threads } = options;
  /** @type {Progress} */
  const progress = { phase, loaded: 0, total: 0, compiled: 0, shaders: 0 };
  let told = 0;
  const advance = (/** @type {Partial<Counts>} */ by) => {
    for (const [key, count] of Object.entries(by)) {
      progress[/** @type {keyof Counts} */ (key)] += count;
    }
    const part = progress.loaded / progress.total;
    if (part > told || 'shaders' in by || 'compiled' in by) {
      told = Math.max(part, told);
      onProgress({ ...progress });
    }
  };
  const store = storeOf(locate, manifest, options).catch(() => null);
  const transfer = { signal, store, source: options, onBytes: (/** @type {number} */ loaded) => advance({ loaded }) };
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
    if (!onGpu && isOnlyForGpu(manifest)) {
      throw new UnsupportedError("this package has no kernels for WebAssembly: load with device 'webgpu'");
    }
    const simd = CPU_MODULES[Number(FEATURES.relaxed())];
    const code = get(fileOf(locate, manifest, onGpu ? GPU_MODULE : simd));
    const made = onGpu
      ? makeForGpu(manifest, code, get(fileOf(locate, manifest, SHADERS)), options, advance)
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
      const opened = await module.open();
      // Not awaited: the model does not need it.
      store.then((found) => found?.settle(manifest, locate(MANIFEST))).catch(() => {});
      return opened;
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
 * @param {LoadOptions} options
 * @param {(by: Partial<Counts>) => void} advance
 * @returns {Promise<ModelModule>}
 */
async function makeForGpu(manifest, code, shaders, options, advance) {
  const { GpuModule } = await partOf(import('./gpu-module.mjs'));
  return GpuModule.make(manifest, code, shaders, options, advance);
}

/**
 * The module with its workers. If workers cannot be started, and `threads` is not given, it has none.
 * @param {Manifest} manifest
 * @param {Promise<Uint8Array<ArrayBuffer>>} code
 * @param {number} [threads]
 * @param {URL} [script] of workers, if it is not beside the modules
 */
async function makeForCpu(manifest, code, threads, script) {
  const alone = whyAlone(threads);
  // Loaded while the code is fetched.
  const pool = alone ? null : partOf(import('./pool.mjs'));
  pool?.catch(() => {});
  const binary = await code;
  const compiled = async (/** @type {number} */ count, /** @type {string} */ threadsReason) =>
    Object.assign(await ModelModule.compile(binary, manifest, count, script), { threadsReason });
  if (!pool) {
    return compiled(1, alone);
  }
  try {
    const { count, reason } = await (await pool).threadCount(threads);
    return await compiled(count, reason);
  } catch (error) {
    if (threads !== undefined) {
      throw error;
    }
    return compiled(1, /** @type {Error} */ (error).message);
  }
}

/**
 * Why a model must have one thread; empty if it may have more.
 * @param {number} [threads] asked for
 */
function whyAlone(threads) {
  const shares = globalThis.crossOriginIsolated || globalThis.process?.versions?.node;
  return threads === 1 ? 'asked for' : shares ? '' : 'the page is not cross-origin isolated';
}

/**
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {string} name
 */
export function fileOf(locate, manifest, name) {
  const found = manifest.files.find((file) => file.name === name);
  if (!found) {
    throw new IntegrityError(`${locate(MANIFEST)} names no ${name}: build the model again`);
  }
  return found;
}
