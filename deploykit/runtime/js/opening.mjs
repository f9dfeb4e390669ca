// Opens a model on a device: fetches its files, puts the weights into memory, and reports progress.

import { IntegrityError, NetworkError, partOf, UnsupportedError } from './errors.mjs';
import { fetchFile, fetchJson, givenFile, whenKept } from './files.mjs';
import { checkSize } from './memory.mjs';
import { FEATURES, ModelModule } from './module.mjs';
import { inLanes, inTasks } from './tasks.mjs';

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
/** How many files of weights are fetched at the same time; so many are twice in memory. */
const LANES = 4;

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
  const get = (/** @type {FileEntry} */ entry) => {
    const file = fetchFile(locate(entry.name), entry, transfer);
    // Whoever waits for it may have failed before.
    file.catch(() => {});
    return file;
  };
  // The module that is made is that of the first function.
  const first = { ...manifest, ...manifest.functions?.[0] };
  return async (device, other) => {
    signal.throwIfAborted();
    checkDevice(manifest, device);
    const onGpu = device === 'webgpu';
    const shards = shardsOf(manifest, device);
    if (!onGpu) {
      checkSize(sizeOf(shards), 'the weights', 'the model is too large for it');
    }
    const places = placesOf(shards);
    const held = placesOf(other ? shardsOf(manifest, 'wasm') : []);
    const files = codeOf(device).map((name) => fileOf(locate, manifest, name));
    progress.total += sizeOf([...files, ...shards.filter(({ name }) => !held.has(name))]);
    const [code, shaders] = files.map(get);
    const made = onGpu
      ? makeForGpu(first, code, shaders, options, advance)
      : makeForCpu(first, code, threads, locate('runtime/worker.mjs'));
    const ready = made.then((module) => withMemory(module, first, shards));
    const place = async (/** @type {FileEntry} */ shard) => {
      const bytes = held.has(shard.name) || (await get(shard));
      (await ready).placeWeights(
        Number(places.get(shard.name)),
        bytes === true ? /** @type {ModelModule} */ (other).weightsAt(Number(held.get(shard.name)), shard.bytes) : bytes,
      );
      // Files that wait to be written would be in memory all together.
      await whenKept(locate(shard.name), shard);
    };
    try {
      const placed = other ? inTasks(shards, place) : inLanes(shards, LANES, place);
      const [module] = await Promise.all([ready, placed]);
      signal.throwIfAborted();
      const opened = await module.open();
      const found = await store;
      // Not awaited: the model does not need it.
      found?.settle(manifest, locate(MANIFEST)).catch(() => {});
      return Object.assign(opened, keepingOf(found, options));
    } catch (error) {
      ready.then((module) => module.end()).catch(() => {});
      throw error;
    }
  };
}

/**
 * Throw if the package has no kernels for a device.
 * @param {Manifest} manifest
 * @param {Device} device
 * @throws {UnsupportedError}
 */
export function checkDevice(manifest, device) {
  if (device === 'webgpu' && !hasKernels(manifest)) {
    throw new UnsupportedError("this model has no kernels for a GPU: load with device 'wasm'");
  }
  if (device === 'wasm' && isOnlyForGpu(manifest)) {
    throw new UnsupportedError("this package has no kernels for WebAssembly: load with device 'webgpu'");
  }
}

/**
 * Whether the files of a model are kept for the next visit, and why.
 * @param {import('./storage.mjs').Store | null} store
 * @param {LoadOptions} options
 */
function keepingOf(store, { cache, files }) {
  const without = files ? 'the page gave the files' : 'there is no Cache Storage: it needs HTTPS, and a page or a worker';
  const reason = cache === false ? 'asked for' : !store ? without : store.failure;
  return { cached: !reason, cachedReason: reason || 'kept in Cache Storage' };
}

/**
 * The names of the files for a device besides weights: the module, and for a GPU the shaders.
 * @param {Device} device
 */
export function codeOf(device) {
  return device === 'webgpu' ? [GPU_MODULE, SHADERS] : [CPU_MODULES[Number(FEATURES.relaxed())]];
}

/** @param {readonly FileEntry[]} files */
export function sizeOf(files) {
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

/**
 * The files of the weights for a device, in their order in memory.
 * @param {Manifest} manifest
 * @param {Device} device
 */
export function shardsOf({ files }, device) {
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
