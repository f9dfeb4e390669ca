// `load`: from the folder of an artifact to a model that runs.

import { DTYPES } from './dtypes.mjs';
import { IntegrityError, ShapeError, UnsupportedError, UsageError } from './errors.mjs';
import { fetchFile, fetchJson } from './files.mjs';
import { checkSize, FEATURES, ModelModule } from './module.mjs';
import { threadCount } from './pool.mjs';

export * from './errors.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {{ name: string, minimum: number, maximum: number | null, capacity_of: string | null }} Dim */
/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {Elements | { data: Elements, shape: readonly number[] }} Input */

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
 * @property {'auto' | 'webgpu' | 'wasm'} [device] `auto` is WebAssembly
 * @property {(progress: { loaded: number, total: number }) => void} [onProgress] bytes so far and in all
 * @property {AbortSignal} [signal] ends the loading
 * @property {number} [threads] for parallel loops, where a page is cross-origin isolated; by default up to 4
 * @property {boolean} [cache] keep the files in Cache Storage, where there is one; by default true
 */

const DEVICES = ['auto', 'webgpu', 'wasm'];
const SCHEMA_VERSION = 1;
const MANIFEST = 'manifest.json';
const WEIGHTS = 'weights/';
/** Weights that are laid out for one kind of device only. */
const OF_WASM = 'weights/wasm-';
const OF_GPU = 'weights/gpu-';
const GPU_MODULE = 'model-gpu.wasm';
/** What comes before each shader of `shaders.wgsl`. */
const SHADER = /^\/\/ shader .*\n/m;

/** @typedef {(name: string) => URL} Locate where a file of the artifact is */

/**
 * Load an artifact.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 * @returns {Promise<Model>}
 * @throws {NetworkError | IntegrityError | MemoryError | UnsupportedError | UsageError}
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
    if (device === 'webgpu' && !manifest.files.some((file) => file.name === GPU_MODULE)) {
      throw new UnsupportedError("this model has no kernels for a GPU: load with device 'wasm'");
    }
    const driver = device === 'webgpu' ? await openDriver() : null;
    try {
      const module = await loadModule(locate, manifest, driver, stop.signal, options);
      const plan = driver ? 'plan_webgpu.json' : 'plan.json';
      return new Model(manifest, module, driver ? 'webgpu' : 'wasm', () => fetchPlan(locate, manifest, plan));
    } catch (error) {
      driver?.destroy();
      throw error;
    }
  } catch (error) {
    // What else is on its way is not waited for.
    stop.abort(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', forward);
  }
}

/** The driver of a GPU; its code is loaded where there is to be one only. */
async function openDriver() {
  const { GpuDriver, openDevice } = await import('./gpu.mjs');
  return new GpuDriver(await openDevice());
}

/**
 * Code and weights, fetched side by side. Memory is taken before the weights are there.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {import('./gpu.mjs').GpuDriver | null} driver
 * @param {AbortSignal} signal
 * @param {LoadOptions} options
 */
async function loadModule(locate, manifest, driver, signal, { onProgress = () => {}, cache = true, threads }) {
  const name = FEATURES.relaxed() ? 'model-relaxed.wasm' : 'model.wasm';
  const code = fileOf(locate, manifest, driver ? GPU_MODULE : name);
  const shaders = driver ? [fileOf(locate, manifest, 'shaders.wgsl')] : [];
  const others = driver ? OF_WASM : OF_GPU;
  const shards = manifest.files.filter((file) => file.name.startsWith(WEIGHTS) && !file.name.startsWith(others));
  const weights = shards.reduce((sum, file) => sum + file.bytes, 0);
  checkSize(weights, 'the weights', 'the model is too large for it');
  const total = [code, ...shaders, ...shards].reduce((sum, file) => sum + file.bytes, 0);
  let loaded = 0;
  const onBytes = (/** @type {number} */ bytes) => {
    loaded += bytes;
    onProgress({ loaded, total });
  };
  const transfer = { signal, cache, onBytes };
  const ready = fetchFile(locate(code.name), code, transfer).then((binary) => {
    return prepare(manifest, binary, weights, driver, threads);
  });
  const compiled = shaders.map(async (file) => {
    const text = new TextDecoder().decode(await fetchFile(locate(file.name), file, transfer));
    await driver?.compile(text.split(SHADER).slice(1));
  });
  let offset = 0;
  const placed = shards.map(async (shard) => {
    const at = offset;
    offset += shard.bytes;
    const bytes = await fetchFile(locate(shard.name), shard, transfer);
    (await ready).placeWeights(at, bytes);
  });
  try {
    const [module] = await Promise.all([ready, ...compiled, ...placed]);
    signal.throwIfAborted();
    return module.open();
  } catch (error) {
    ready.then((module) => module.end()).catch(() => {});
    throw error;
  }
}

/**
 * The module of a model, with its workers, memory for the weights and for a run with the least dims.
 * @param {Manifest} manifest
 * @param {Uint8Array<ArrayBuffer>} binary
 * @param {number} weights bytes
 * @param {import('./gpu.mjs').GpuDriver | null} driver
 * @param {number} [threads]
 */
async function prepare(manifest, binary, weights, driver, threads) {
  const module = driver ? await compileFor(manifest, binary, driver) : await compile(manifest, binary, threads);
  try {
    module.reserveWeights(weights, module.arenaBytes(manifest.dims.map((dim) => dim.minimum)));
    return module;
  } catch (error) {
    module.end();
    throw error;
  }
}

/**
 * @param {Manifest} manifest
 * @param {Uint8Array<ArrayBuffer>} binary
 * @param {import('./gpu.mjs').GpuDriver} driver
 */
async function compileFor(manifest, binary, driver) {
  const { GpuModule } = await import('./gpu-module.mjs');
  return GpuModule.compileFor(binary, manifest, driver);
}

/**
 * The module with its workers, or without them where they cannot be had and nobody asked for them.
 * @param {Manifest} manifest
 * @param {Uint8Array<ArrayBuffer>} binary
 * @param {number} [threads]
 */
async function compile(manifest, binary, threads) {
  const count = await threadCount(threads);
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
 * @param {string} name
 * @returns {Promise<import('./profile.mjs').Plan>}
 */
async function fetchPlan(locate, manifest, name) {
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
   * @param {ModelModule} module
   * @param {'webgpu' | 'wasm'} device
   * @param {() => Promise<import('./profile.mjs').Plan>} readPlan
   */
  constructor(manifest, module, device, readPlan) {
    /** What the model runs on. */
    this.device = device;
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
   * @param {{ signal?: AbortSignal }} [options] `signal` ends the wait for earlier calls
   * @returns {Promise<Record<string, Tensor>>} the outputs by name
   * @throws {ShapeError | MemoryError | WorkerError | UsageError}
   */
  async run(inputs, { signal } = {}) {
    const results = await this.#inTurn(inputs, signal, (module, tensors) => module.run(tensors));
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
    const profile = await this.#inTurn(inputs, signal, work);
    // A GPU is told of steps before it does them.
    return this.device === 'webgpu' ? { ...profile, steps: [] } : profile;
  }

  /**
   * Bytes that a run with these dims needs: of weights, of the arena for intermediate results, and of both.
   * @param {Record<string, number>} [dims]
   * @throws {ShapeError | UsageError}
   */
  memory(dims = {}) {
    for (const name of Object.keys(dims)) {
      if (!this.dims.some((dim) => dim.name === name)) {
        throw new ShapeError(`there is no dim '${name}': the model has ${listed(this.dims)}`);
      }
    }
    const arena = this.#open().arenaBytes(this.dims.map((dim) => valueOf(dim, dims[dim.name])));
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

  /** @param {Record<string, Input>} inputs */
  #tensors(inputs) {
    for (const name of Object.keys(inputs)) {
      if (!this.inputs.some((port) => port.name === name)) {
        throw new ShapeError(`there is no input '${name}': the model has ${listed(this.inputs)}`);
      }
    }
    return this.inputs.map((port) => tensorOf(port, inputs[port.name]));
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
    const given = this.#tensors(inputs);
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
function nextTask() {
  return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * An input after checks of dtype, rank and number of elements.
 * @param {Port} port
 * @param {Input | undefined} input
 * @returns {Tensor}
 */
function tensorOf(port, input) {
  if (input === undefined) {
    throw new ShapeError(`input '${port.name}' is missing`);
  }
  const data = ArrayBuffer.isView(input) ? input : input.data;
  const { array } = /** @type {{ array: Function }} */ (DTYPES.get(port.dtype));
  if (!(data instanceof array)) {
    const found = /** @type {any} */ (data)?.constructor?.name ?? typeof data;
    throw new ShapeError(`input '${port.name}' is ${port.dtype}: expected ${array.name}, found ${found}`);
  }
  const elements = /** @type {Elements} */ (data);
  const shape = ArrayBuffer.isView(input) ? shapeOf(port, elements.length) : [...input.shape];
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (shape.some((extent) => !Number.isInteger(extent) || extent < 0) || count !== elements.length) {
    throw new ShapeError(`input '${port.name}' has shape [${shape}] and ${elements.length} elements`);
  }
  return { dtype: port.dtype, shape, data: elements };
}

/**
 * The shape of so many elements, where at most one extent is not known.
 * @param {Port} port
 * @param {number} length
 */
function shapeOf(port, length) {
  const open = port.shape.filter((extent) => typeof extent !== 'number');
  const known = port.shape.reduce((/** @type {number} */ n, extent) => (typeof extent === 'number' ? n * extent : n), 1);
  if (open.length > 1 || (open.length === 1 && (known === 0 || length % known !== 0))) {
    const want = `[${port.shape.join(', ')}]`;
    throw new ShapeError(`input '${port.name}' is ${want}, which ${length} elements do not tell: pass { data, shape }`);
  }
  return port.shape.map((extent) => (typeof extent === 'number' ? extent : length / known));
}

/**
 * @param {Dim} dim
 * @param {number | undefined} given
 */
function valueOf(dim, given) {
  const value = given ?? (dim.capacity_of === null ? undefined : dim.minimum);
  if (value === undefined) {
    throw new ShapeError(`dim '${dim.name}' is missing`);
  }
  if (!Number.isInteger(value) || value < dim.minimum || (dim.maximum !== null && value > dim.maximum)) {
    throw new ShapeError(`dim '${dim.name}' must be in ${dim.minimum}..${dim.maximum ?? ''}, found ${value}`);
  }
  return value;
}

/** @param {readonly { name: string }[]} things */
function listed(things) {
  return things.map(({ name }) => `'${name}'`).join(', ') || 'none';
}
