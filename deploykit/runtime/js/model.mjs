// `load`: from the folder of an artifact to a model that runs.

import { IntegrityError, UnsupportedError, UsageError } from './errors.mjs';
import { fetchFile, fetchJson } from './files.mjs';
import { arraysOf, tensorsOf, valuesOf } from './inputs.mjs';
import { checkSize, FEATURES, ModelModule } from './module.mjs';
import { threadCount } from './threads.mjs';

export * from './errors.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./inputs.mjs').Dim} Dim */
/** @typedef {import('./inputs.mjs').Input} Input */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {'webgpu' | 'wasm'} Device */

/**
 * @typedef {object} Manifest
 * @property {number} schema_version
 * @property {string} name
 * @property {string} target
 * @property {Port[]} inputs
 * @property {Port[]} outputs
 * @property {Dim[]} dims
 * @property {{ formula: string, weights: number, at_bounds: number | null }} peak_memory
 * @property {FileEntry[]} files
 */

/**
 * @typedef {object} LoadOptions
 * @property {'auto' | Device} [device] `auto`, the default, is the fastest of those that there are
 * @property {Record<string, Input>} [sample] inputs that `auto` measures with; by default zeros of moderate sizes
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal] ends the loading
 * @property {number} [threads] for parallel loops, where a page is cross-origin isolated; by default up to 4
 * @property {boolean} [cache] keep files, and what `auto` chose, in Cache Storage, where there is one; by default true
 */

/** @typedef {{ loaded: number, total: number, compiled: number, shaders: number }} Progress bytes, then shaders */
/** @typedef {{ device: Device, module: ModelModule, reason: string }} Choice a device, and why it is this one */
/** @typedef {(name: string) => URL} Locate where a file of the artifact is */
/** @typedef {(device: Device) => Promise<ModelModule>} Open */

const DEVICES = ['auto', 'webgpu', 'wasm'];
const SCHEMA_VERSION = 1;
const MANIFEST = 'manifest.json';
const WEIGHTS = 'weights/';
/** Weights that are laid out for one kind of device only. */
const OF_WASM = 'weights/wasm-';
const OF_GPU = 'weights/gpu-';
const GPU_MODULE = 'model-gpu.wasm';
const SHADERS = 'shaders.wgsl';

/**
 * Load an artifact.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 * @returns {Promise<Model>}
 * @throws {NetworkError | IntegrityError | MemoryError | UnsupportedError | ShapeError | UsageError}
 */
export async function load(locate, options = {}) {
  const { device = 'auto', signal, threads } = options;
  if (!DEVICES.includes(device)) {
    throw new UsageError(`there is no device '${device}': there are ${DEVICES.join(', ')}`);
  }
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0)) {
    throw new UsageError(`threads must be a whole number of at least 1, found ${threads}`);
  }
  if (!FEATURES.simd()) {
    throw new UnsupportedError('this engine has no SIMD in WebAssembly: use a browser of 2023 or later');
  }
  /** @type {Manifest} */
  const manifest = await fetchJson(locate(MANIFEST), signal);
  if (manifest.schema_version !== SCHEMA_VERSION) {
    throw new IntegrityError(`${locate(MANIFEST)} is of another version of deploykit: build the model again`);
  }
  const stop = new AbortController();
  const forward = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', forward);
  try {
    signal?.throwIfAborted();
    const open = opener(locate, manifest, stop.signal, options);
    const choice =
      device === 'auto'
        ? await choose(open, manifest, locate, options)
        : { device, module: await open(device), reason: 'asked for' };
    return new Model(manifest, choice, () => fetchPlan(locate, manifest, choice.device));
  } catch (error) {
    // What else is on its way is not waited for.
    stop.abort(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', forward);
  }
}

/**
 * The faster device; WebAssembly at once where there is no other.
 * @param {Open} open
 * @param {Manifest} manifest
 * @param {Locate} locate
 * @param {LoadOptions} options
 * @returns {Promise<Choice>}
 */
async function choose(open, manifest, locate, options) {
  const { sample } = options;
  const given = sample && tensorsOf(manifest.inputs, sample);
  const wasm = async (/** @type {string} */ reason) => {
    return { device: /** @type {const} */ ('wasm'), module: await open('wasm'), reason };
  };
  if (!hasKernels(manifest)) {
    return wasm('the model has no kernels for a GPU');
  }
  if (!globalThis.navigator?.gpu) {
    return wasm('this engine has no WebGPU');
  }
  const { chooseFaster } = await import('./auto.mjs');
  return chooseFaster(open, wasm, manifest, locate(MANIFEST), given, options);
}

/** @param {Manifest} manifest */
function hasKernels({ files }) {
  return files.some((file) => file.name === GPU_MODULE);
}

/**
 * What opens the model on a device. Two that are opened at the same time share what they fetch.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {AbortSignal} signal
 * @param {LoadOptions} options
 * @returns {Open}
 */
function opener(locate, manifest, signal, { onProgress = () => {}, cache = true, threads }) {
  const progress = { loaded: 0, total: 0, compiled: 0, shaders: 0 };
  const advance = (/** @type {Partial<Progress>} */ by) => {
    for (const [key, count] of Object.entries(by)) {
      progress[/** @type {keyof Progress} */ (key)] += count;
    }
    onProgress({ ...progress });
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
  return async (device) => {
    const onGpu = device === 'webgpu';
    if (onGpu && !hasKernels(manifest)) {
      throw new UnsupportedError("this model has no kernels for a GPU: load with device 'wasm'");
    }
    const others = onGpu ? OF_WASM : OF_GPU;
    const shards = manifest.files.filter(({ name }) => name.startsWith(WEIGHTS) && !name.startsWith(others));
    const weights = shards.reduce((sum, file) => sum + file.bytes, 0);
    if (!onGpu) {
      checkSize(weights, 'the weights', 'the model is too large for it');
    }
    const simd = FEATURES.relaxed() ? 'model-relaxed.wasm' : 'model.wasm';
    const code = get(fileOf(locate, manifest, onGpu ? GPU_MODULE : simd));
    const made = onGpu
      ? makeForGpu(manifest, code, get(fileOf(locate, manifest, SHADERS)), advance)
      : makeForCpu(manifest, code, threads);
    const ready = made.then((module) => withMemory(module, manifest, shards));
    let offset = 0;
    const placed = shards.map(async (shard) => {
      const at = offset;
      offset += shard.bytes;
      const bytes = await get(shard);
      (await ready).placeWeights(at, bytes);
    });
    try {
      const [module] = await Promise.all([ready, ...placed]);
      signal.throwIfAborted();
      return await module.open();
    } catch (error) {
      ready.then((module) => module.end()).catch(() => {});
      throw error;
    }
  };
}

/**
 * A module with memory for the weights, and for a run with the least dims: before the weights are there.
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
  const { GpuModule } = await import('./gpu-module.mjs');
  return GpuModule.make(manifest, code, shaders, advance);
}

/**
 * The module with its workers, or without them where they cannot be had and nobody asked for them.
 * @param {Manifest} manifest
 * @param {Promise<Uint8Array<ArrayBuffer>>} code
 * @param {number} [threads]
 */
async function makeForCpu(manifest, code, threads) {
  const count = await threadCount(threads);
  if (count > 1) {
    // It is there when the code is; whether it cannot be loaded is found out then.
    import('./pool.mjs').catch(() => {});
  }
  const binary = await code;
  try {
    return await ModelModule.compile(binary, manifest, count);
  } catch (error) {
    if (threads !== undefined || count === 1) {
      throw error;
    }
    return ModelModule.compile(binary, manifest, 1);
  }
}

/**
 * The names of the steps, for profiles.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {Device} device
 * @returns {Promise<import('./profile.mjs').Plan>}
 */
async function fetchPlan(locate, manifest, device) {
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

/** A loaded model. Calls of `run` wait for each other. */
export class Model {
  /** @type {ModelModule | null} */
  #module;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  #unfinished = 0;
  #readPlan;

  /**
   * @param {Manifest} manifest
   * @param {Choice} choice
   * @param {() => Promise<import('./profile.mjs').Plan>} readPlan
   */
  constructor(manifest, { device, module, reason }, readPlan) {
    /** What the model runs on. */
    this.device = device;
    /** Why it runs there: what was measured, what was missing, or what failed. */
    this.deviceReason = reason;
    this.name = manifest.name;
    this.inputs = manifest.inputs;
    this.outputs = manifest.outputs;
    this.dims = manifest.dims;
    this.weightBytes = module.weightBytes;
    this.#module = module;
    this.#readPlan = readPlan;
  }

  /** On how many threads parallel loops run: one where threads cannot share memory. */
  get threads() {
    return 1 + (this.#module?.pool?.size ?? 0);
  }

  /**
   * Run the model. An input is a typed array where its shape follows from its length, else `{ data, shape }`; it may be
   * changed as soon as this returns.
   * @param {Record<string, Input>} inputs by name
   * @param {{ signal?: AbortSignal, outputs?: Record<string, Elements | undefined> }} [options] `signal` ends the wait
   *   for earlier calls; `outputs` are arrays to put outputs into, as long as these are, which saves making new ones
   * @returns {Promise<Record<string, Tensor>>} the outputs by name
   * @throws {ShapeError | MemoryError | WorkerError | UsageError}
   */
  async run(inputs, { signal, outputs } = {}) {
    const arrays = arraysOf(this.outputs, outputs);
    const results = await this.#inTurn(inputs, signal, (module, tensors) => module.run(tensors, arrays));
    return Object.fromEntries(this.outputs.map((port, index) => [port.name, results[index]]));
  }

  /**
   * Time the steps of runs: again and again with these inputs, for about so many seconds.
   * @param {Record<string, Input>} inputs by name
   * @param {{ seconds?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<import('./profile.mjs').Profile>}
   * @throws {ShapeError | MemoryError | UsageError | NetworkError | IntegrityError}
   */
  async profile(inputs, { seconds = 0.5, signal } = {}) {
    const [{ profileRuns }, plan] = await Promise.all([import('./profile.mjs'), this.#readPlan()]);
    const pause = () => nextTask().then(() => signal?.throwIfAborted());
    const work = (/** @type {ModelModule} */ module, /** @type {Tensor[]} */ tensors) =>
      profileRuns(module, tensors, plan, seconds, pause);
    return this.#inTurn(inputs, signal, work);
  }

  /**
   * Bytes that a run with these dims needs: of weights, of the arena for intermediate results, and of both.
   * @param {Record<string, number>} [dims]
   * @throws {ShapeError | UsageError}
   */
  memory(dims = {}) {
    const arena = this.#open().arenaBytes(valuesOf(this.dims, dims));
    return { weights: this.weightBytes, arena, total: this.weightBytes + arena };
  }

  /** Give the memory back. The model cannot be used afterwards. */
  dispose() {
    this.#module?.end();
    this.#module = null;
  }

  #open() {
    if (!this.#module) {
      throw new UsageError(`the model '${this.name}' is disposed of: load it again`);
    }
    return this.#module;
  }

  /**
   * Check the inputs, and work on them: at once, or when all earlier work is done.
   * @template T
   * @param {Record<string, Input>} inputs
   * @param {AbortSignal | undefined} signal
   * @param {(module: ModelModule, tensors: Tensor[]) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(inputs, signal, work) {
    this.#open();
    const given = tensorsOf(this.inputs, inputs);
    const earlier = this.#unfinished > 0 ? this.#last : null;
    const tensors = earlier ? given.map((tensor) => ({ ...tensor, data: tensor.data.slice() })) : given;
    const turn = async () => {
      this.#unfinished += 1;
      try {
        if (earlier) {
          // The page has its turn between two runs, and so has the one who aborts.
          await earlier.then(nextTask);
        }
        signal?.throwIfAborted();
        return await work(this.#open(), tensors);
      } catch (error) {
        // A GPU fails when it is disposed of in the middle of a run.
        this.#open();
        throw error;
      } finally {
        this.#unfinished -= 1;
      }
    };
    const result = turn();
    this.#last = result.catch(() => {});
    return result;
  }
}

/** The end of all that the engine has to do before. Timers would wait for seconds in a tab in the background. */
export function nextTask() {
  return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
