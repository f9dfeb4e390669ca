// `load`: from the folder of an artifact to a model that runs.

import { DTYPES } from './dtypes.mjs';
import { IntegrityError, ShapeError, UnsupportedError, UsageError } from './errors.mjs';
import { fetchFile, fetchJson } from './files.mjs';
import { FEATURES, ModelModule } from './module.mjs';

export * from './errors.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {{ name: string, minimum: number, maximum: number | null, capacity_of: string | null }} Dim */
/** @typedef {Elements | { data: Elements, shape: readonly number[] }} Input */

/**
 * @typedef {object} Manifest
 * @property {number} schema_version
 * @property {string} name
 * @property {string} target
 * @property {Port[]} inputs
 * @property {Port[]} outputs
 * @property {Dim[]} dims
 * @property {{ formula: string, weights: number }} peak_memory
 * @property {import('./files.mjs').FileEntry[]} files
 */

/**
 * @typedef {object} LoadOptions
 * @property {'auto' | 'wasm'} [device] `auto` takes what is there
 * @property {(progress: { loaded: number, total: number }) => void} [onProgress] bytes so far and in all
 * @property {AbortSignal} [signal] ends the loading
 * @property {boolean} [cache] keep the files in Cache Storage, where there is one; by default true
 */

const SCHEMA_VERSION = 1;
const WEIGHTS = 'weights/';

/**
 * Load the artifact in the folder at `base`.
 * @param {URL | string} base ends in a slash
 * @param {LoadOptions} [options]
 * @returns {Promise<Model>}
 * @throws {NetworkError | IntegrityError | MemoryError | UnsupportedError | UsageError}
 */
export async function load(base, options = {}) {
  const { device = 'auto', onProgress = () => {}, signal, cache = true } = options;
  if (device !== 'auto' && device !== 'wasm') {
    throw new UsageError(`there is no device '${device}' in this artifact: it has 'wasm'`);
  }
  if (!FEATURES.simd()) {
    throw new UnsupportedError('this engine has no SIMD in WebAssembly: use a browser of 2023 or later');
  }
  const folder = new URL(base);
  /** @type {Manifest} */
  const manifest = await fetchJson(new URL('manifest.json', folder), signal);
  if (manifest.schema_version !== SCHEMA_VERSION) {
    throw new IntegrityError(`${folder}manifest.json is of another version of deploykit: build the model again`);
  }
  const files = new Map(manifest.files.map((file) => [file.name, file]));
  const relaxed = files.get('model-relaxed.wasm');
  const code = relaxed && FEATURES.relaxed() ? relaxed : files.get('model.wasm');
  if (!code) {
    throw new IntegrityError(`${folder}manifest.json names no model.wasm: build the model again`);
  }
  const shards = manifest.files.filter((file) => file.name.startsWith(WEIGHTS));
  const total = [code, ...shards].reduce((sum, file) => sum + file.bytes, 0);
  let loaded = 0;
  const onBytes = (/** @type {number} */ bytes) => {
    loaded += bytes;
    onProgress({ loaded, total });
  };
  const transfer = { signal, cache, onBytes };
  const [binary, ...parts] = await Promise.all([code, ...shards].map((file) => fetchFile(folder, file, transfer)));
  const { inputs, outputs, dims } = manifest;
  const module = await ModelModule.compile(binary, inputs, outputs, dims.length);
  signal?.throwIfAborted();
  module.openWeights(manifest.peak_memory.weights, parts);
  return new Model(manifest, module);
}

/** A loaded model. Calls of `run` wait for each other. */
export class Model {
  /** @type {ModelModule | null} */
  #module;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /**
   * @param {Manifest} manifest
   * @param {ModelModule} module
   */
  constructor(manifest, module) {
    this.name = manifest.name;
    this.inputs = manifest.inputs;
    this.outputs = manifest.outputs;
    this.dims = manifest.dims;
    this.weightBytes = manifest.peak_memory.weights;
    this.#module = module;
  }

  /** What the model runs on. */
  get device() {
    return 'wasm';
  }

  /**
   * Run the model. An input is a typed array where its shape follows from its length, else `{ data, shape }`.
   * @param {Record<string, Input>} inputs by name
   * @returns {Promise<Record<string, Tensor>>} the outputs by name
   * @throws {ShapeError | MemoryError | UsageError}
   */
  run(inputs) {
    const result = this.#last.then(() => this.#run(inputs));
    this.#last = result.catch(() => {});
    return result;
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
    this.#module = null;
  }

  #open() {
    if (!this.#module) {
      throw new UsageError(`the model '${this.name}' is disposed of: load it again`);
    }
    return this.#module;
  }

  /** @param {Record<string, Input>} inputs */
  #run(inputs) {
    const module = this.#open();
    for (const name of Object.keys(inputs)) {
      if (!this.inputs.some((port) => port.name === name)) {
        throw new ShapeError(`there is no input '${name}': the model has ${listed(this.inputs)}`);
      }
    }
    const results = module.run(this.inputs.map((port) => tensorOf(port, inputs[port.name])));
    return Object.fromEntries(this.outputs.map((port, index) => [port.name, results[index]]));
  }
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
