// `load` for models with several functions or with states: each function is a `Model`, and all share one module.

import { dtypeOf } from './dtypes.mjs';
import { UsageError } from './errors.mjs';
import { checkOptions, valuesOf } from './inputs.mjs';
import { ALIGNMENT } from './memory.mjs';
import { COMMON, Model } from './model.mjs';
import { ModelModule } from './module.mjs';
import { fetchManifest, opener } from './opening.mjs';
import { headerBytes, States, STATES } from './states.mjs';
import { Turns } from './tasks.mjs';

/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {Record<string, number>} Sizes by the names of dims */
/** @typedef {{ name: string, states: boolean } & Pick<Manifest, 'inputs' | 'outputs' | 'dims' | 'peak_memory'>} Entry */
/** @typedef {{ module: ModelModule, entry: Entry }} Part */
/** @typedef {{ tensors: import('./module.mjs').Port[], dims: Manifest['dims'] }} OfStates */

/** @type {readonly (keyof import('./model.mjs').LoadOptions)[]} */
const OPTIONS = ['device', 'onProgress', 'signal', 'threads', 'cache', 'folder', ...COMMON];
/** The name of a function that is the only one. */
const ONLY = 'main';

/**
 * Load an artifact.
 * @param {import('./model.mjs').Locate} locate
 * @param {import('./model.mjs').LoadOptions} [options] `device`: `wasm`, the default, or `webgpu`
 * @returns {Promise<FunctionsModel>}
 */
export async function load(locate, options) {
  const given = checkOptions(options, OPTIONS, 'load');
  const { device = 'wasm', signal } = given;
  if (device !== 'wasm' && device !== 'webgpu') {
    throw new UsageError(`there is no device '${device}' for a model of several functions: there are wasm, webgpu`);
  }
  /** @type {Manifest & { states?: OfStates }} */
  const manifest = await fetchManifest(locate, given);
  const entries = manifest.functions ?? [{ ...manifest, name: ONLY, states: true }];
  const module = await opener(locate, manifest, signal ?? new AbortController().signal, given)(device);
  const parts = entries.map((entry, index) => ({ entry, module: index ? beside(module, entry) : module }));
  return new FunctionsModel(manifest, device, parts);
}

/**
 * Another function of an open module. Its exports start with its name; those of the first function have no prefix.
 * @param {ModelModule} module
 * @param {Entry} entry
 * @returns {ModelModule}
 */
function beside(module, { name, inputs, outputs, dims }) {
  const exports = { ...module.exports };
  for (const [key, value] of Object.entries(module.exports)) {
    if (key.startsWith(`${name}.`)) {
      Object.assign(exports, { [key.slice(name.length + 1)]: value });
    }
  }
  // Only the first one counts as loaded.
  const own = { exports, inputs, outputs, dimCount: dims.length, room: outputs.map(() => 0), ended: true };
  const other = Object.assign(Object.create(Object.getPrototypeOf(module)), module, own);
  // Not the override for a GPU, whose work is already done.
  return /** @type {ModelModule} */ (ModelModule.prototype.open.call(other));
}

/**
 * A loaded model with several functions or states. All calls wait for each other, also those of different functions, in
 * the order in which they were made.
 */
export class FunctionsModel {
  #parts;
  #end;
  #dims;
  #tensors;
  /** @type {Sizes} */
  #sizes = {};
  #turns = new Turns();
  #models;
  #reason;

  /**
   * @param {Manifest & { states?: OfStates }} manifest
   * @param {Device} device
   * @param {readonly Part[]} parts
   */
  constructor(manifest, device, parts) {
    this.name = manifest.name;
    this.device = device;
    this.#parts = parts;
    this.#dims = manifest.states?.dims;
    this.#tensors = manifest.states?.tensors ?? [];
    const [{ module }] = parts;
    this.#end = module.top;
    const plan = () => Promise.reject(new UsageError('profiles are for models of one function without states'));
    const model = (/** @type {Part} */ { entry, module: own }) => {
      const choice = { device, module: own, reason: 'asked for' };
      return new Model({ ...manifest, ...entry }, choice, plan, undefined, this.#turns);
    };
    /** @type {Record<string, Model>} */
    this.functions = Object.fromEntries(parts.map((part) => [part.entry.name, model(part)]));
    this.#models = Object.values(this.functions);
    this.#reason = module.threadsReason;
    if (this.#dims) {
      this.#reset({});
    }
  }

  /** The number of threads that run parallel loops: one if threads cannot share memory. */
  get threads() {
    return this.#models[0].threads;
  }

  /** Why there are that many. A function of which a run failed has a reason of its own. */
  get threadsReason() {
    const reasons = this.#models.map(({ threadsReason }) => threadsReason);
    return reasons.find((reason) => reason !== this.#reason) ?? this.#reason;
  }

  /** Whether the files are kept for the next visit. */
  get cached() {
    return this.#models[0].cached;
  }

  /** Why they are, or are not: asked for, no Cache Storage, or what kept it from taking them. */
  get cachedReason() {
    return this.#models[0].cachedReason;
  }

  /** The device of the GPU that the model runs on; null on WebAssembly. Buffers of the page must be made by it. */
  get gpuDevice() {
    return this.#models[0].gpuDevice;
  }

  /**
   * Make the states zeros. `sizes` gives their sizes by the names of dims; other dims have their least size.
   * @param {Sizes} [sizes]
   * @throws {ShapeError | MemoryError | UsageError}
   */
  async reset(sizes = {}) {
    return this.#turns.take(undefined, () => this.#reset(sizes));
  }

  /** Of each state, the bytes of an item of its first axis, where no other axis has a dim. */
  get itemBytes() {
    return this.#tensors.map(({ dtype, shape }) => {
      const extents = /** @type {number[]} */ (shape.slice(1));
      return extents.reduce((bytes, extent) => bytes * extent, dtypeOf(dtype).array.BYTES_PER_ELEMENT);
    });
  }

  /**
   * Let `work` read or write items of the states, when all earlier calls are done.
   * @template T
   * @param {(states: States) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  async withStates(work) {
    return this.#turns.take(undefined, () => {
      const [{ module }] = this.#parts;
      if (module.ended) {
        throw new UsageError(`the model '${this.name}' is disposed of: load it again`);
      }
      const bytes = this.itemBytes;
      const sizes = this.#tensors.map(({ shape: [first] }, index) => ({
        count: this.#sizes[first] ?? Number(first),
        bytes: bytes[index],
      }));
      return work(new States(module, this.#end + headerBytes(Object.keys(this.#sizes).length), sizes));
    });
  }

  /** For `using`: dispose of the model at the end of the block. */
  [Symbol.dispose]() {
    this.dispose();
  }

  /** Release the memory. The model cannot be used afterwards. */
  dispose() {
    Object.values(this.functions).forEach((model) => model.dispose());
  }

  /** @param {Sizes} sizes */
  #reset(sizes) {
    if (!this.#dims) {
      throw new UsageError(`the model '${this.name}' has no states`);
    }
    const names = this.#dims.map(({ name }) => name);
    const values = valuesOf(this.#dims, sizes);
    const stateful = this.#parts.filter(({ entry }) => entry.states);
    const needs = stateful.map(({ module, entry }) => {
      const { exports, memory, dimCount } = module;
      const dims = new BigInt64Array(memory.buffer, exports.dims(), dimCount);
      entry.dims.forEach(({ name }, index) => {
        dims[index] = BigInt(names.includes(name) ? values[names.indexOf(name)] : 0);
      });
      return { whole: exports.state_bytes(), host: (exports.host_state_bytes ?? exports.state_bytes)() };
    });
    const bytes = Math.max(...needs.map(({ host }) => host));
    const [{ module }] = stateful;
    module.reserve(this.#end + bytes, 'the states', 'choose smaller ones');
    module.driver?.buffers.clear(STATES, needs[0].whole, 'the states');
    stateful.forEach(({ module: { exports } }) => module.check(exports.reset_state(this.#end, bytes)));
    stateful.forEach(({ module: own }) => own.check(own.exports.set_state(this.#end, bytes)));
    const top = Math.ceil((this.#end + bytes) / ALIGNMENT) * ALIGNMENT;
    this.#parts.forEach((part) => (part.module.top = top));
    this.#sizes = Object.fromEntries(names.map((name, index) => [name, values[index]]));
  }
}
