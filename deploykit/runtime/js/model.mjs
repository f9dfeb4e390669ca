// `load`: from the folder of an artifact to a model that runs.

import { IntegrityError, partOf, UnsupportedError, UsageError } from './errors.mjs';
import { arraysOf, checkOptions, copiesOf, keptOf, tensorsOf, valuesOf } from './inputs.mjs';
import { DeviceTensor } from './kept.mjs';
import { FEATURES } from './module.mjs';
import { fetchManifest, hasKernels, isOnlyForGpu, MANIFEST, opener } from './opening.mjs';
import { nextTask, Turns } from './tasks.mjs';

export * from './errors.mjs';

/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./inputs.mjs').Dim} Dim */
/** @typedef {import('./inputs.mjs').Input} Input */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {import('./files.mjs').Source} Source */
/** @typedef {import('./trial.mjs').Trial} Trial */
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
 * @property {import('./functions.mjs').Entry[]} [functions] if there are several
 */

/**
 * @typedef {object} LoadOptions
 * @property {'auto' | Device} [device] `auto`, the default, chooses the faster one
 * @property {Record<string, Input>} [sample] inputs that `auto` measures with; by default those of the first run
 * @property {(progress: Progress) => void} [onProgress]
 * @property {AbortSignal} [signal] aborts loading
 * @property {number} [threads] for parallel loops, if the page is cross-origin isolated; by default up to 4
 * @property {boolean} [cache] keep files, and what `auto` chose, in Cache Storage, if there is one; by default true
 * @property {string | URL} [folder] where the package is served, which `locate` knows
 * @property {Source['fetch']} [fetch] fetches files, such as with headers, in place of that of the engine
 * @property {Source['files']} [files] the files of the package by name, which are then not fetched
 * @property {GPUPowerPreference} [powerPreference] which adapter is asked for; by default `high-performance`
 * @property {GPUDevice} [gpuDevice] a device of the page that the model shares
 */

/**
 * @typedef {object} RunOptions
 * @property {AbortSignal} [signal] ends the wait for earlier calls
 * @property {Record<string, Elements | undefined>} [outputs] arrays of the outputs' lengths that get the results,
 *   instead of new arrays
 * @property {readonly string[]} [keep] outputs that stay on the device, as `DeviceTensor`s
 */

/**
 * Bytes, then shaders, of the phase: that of `load`, or that of a trial of a GPU behind it.
 * @typedef {{ phase: 'load' | 'trial', loaded: number, total: number, compiled: number, shaders: number }} Progress
 */
/** @typedef {{ device: Device, module: ModelModule, reason: string }} Choice a device, and why it was chosen */
/** @typedef {(name: string) => URL} Locate gives the address of a file of the artifact */
/**
 * Opens the model on a device. Weights that `other` holds are copied, not fetched.
 * @typedef {(device: Device, other?: ModelModule) => Promise<ModelModule>} Open
 */

const DEVICES = ['auto', 'webgpu', 'wasm'];
/** @type {readonly (keyof LoadOptions)[]} */
export const COMMON = ['fetch', 'files', 'powerPreference', 'gpuDevice'];
/** @type {readonly (keyof LoadOptions)[]} */
const OPTIONS = ['device', 'sample', 'onProgress', 'signal', 'threads', 'cache', 'folder', ...COMMON];
const SCHEMA_VERSION = 2;

/**
 * Load an artifact.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 * @returns {Promise<Model>}
 * @throws {NetworkError | IntegrityError | MemoryError | UnsupportedError | ShapeError | UsageError}
 */
export async function load(locate, options) {
  const given = checkOptions(options, OPTIONS, 'load');
  const { device = 'auto', signal, threads } = given;
  if (!DEVICES.includes(device)) {
    throw new UsageError(`there is no device '${device}': there are ${DEVICES.join(', ')}`);
  }
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0)) {
    throw new UsageError(`threads must be a whole number of at least 1, found ${threads}`);
  }
  if (!FEATURES.simd()) {
    throw new UnsupportedError('this engine has no SIMD in WebAssembly: use a browser of 2023 or later');
  }
  // It comes with the manifest, so that nobody waits for it.
  const choosing = device === 'auto' && hasGpu() ? partOf(import('./choosing.mjs')) : null;
  choosing?.catch(() => {});
  const manifest = await fetchManifest(locate, given);
  if (manifest.schema_version !== SCHEMA_VERSION) {
    throw new IntegrityError(`${locate(MANIFEST)} is of another version of deploykit: build the model again`);
  }
  const stop = new AbortController();
  const forward = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', forward);
  try {
    signal?.throwIfAborted();
    const open = opener(locate, manifest, stop.signal, given);
    const plan = async (/** @type {Device} */ name) => (await profiles()).fetchPlan(locate, manifest, name, given);
    const sample = given.sample && tensorsOf(manifest.inputs, given.sample);
    const known = settled(device, manifest);
    if (known) {
      return new Model(manifest, { ...known, module: await open(known.device) }, plan);
    }
    const { choose } = /** @type {typeof import('./choosing.mjs')} */ (await choosing);
    const { choice, trial } = await choose(open, manifest, locate, given, sample);
    return new Model(manifest, choice, plan, trial);
  } catch (error) {
    // Ends other transfers.
    stop.abort(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', forward);
  }
}

/**
 * The device, and why, if nothing has to be measured.
 * @param {'auto' | Device} device
 * @param {Manifest} manifest
 * @returns {{ device: Device, reason: string } | null}
 */
function settled(device, manifest) {
  if (device !== 'auto') {
    return { device, reason: 'asked for' };
  }
  if (!hasKernels(manifest)) {
    return { device: 'wasm', reason: 'the model has no kernels for a GPU' };
  }
  if (isOnlyForGpu(manifest)) {
    return { device: 'webgpu', reason: 'the package has no kernels for WebAssembly' };
  }
  return hasGpu() ? null : { device: 'wasm', reason: 'this engine has no WebGPU' };
}

/** The module that only profiles need. */
function profiles() {
  return partOf(import('./profile.mjs'));
}

function hasGpu() {
  return Boolean(globalThis.navigator?.gpu);
}

/** A loaded model. Calls of `run` wait for each other. */
export class Model {
  /** @type {ModelModule | null} */
  #module;
  #turns;
  #readPlan;
  /** @type {Trial | undefined} */
  #trial;
  /** @type {(device: Device) => void} */
  #settle = () => {};

  /**
   * @param {Manifest} manifest
   * @param {Choice} choice
   * @param {(device: Device) => Promise<import('./profile.mjs').Plan>} readPlan
   * @param {Trial} [trial] of a GPU that may be faster
   * @param {Turns} [turns] those of several models that share a module
   */
  constructor(manifest, { device, module, reason }, readPlan, trial, turns = new Turns()) {
    /** The device that the model runs on. */
    this.device = device;
    /** Why the model runs there: measured times, a missing feature, or a failure. */
    this.deviceReason = reason;
    /**
     * The device that the model stays on, known after the trial of a GPU, if there is one. A later trial, with larger
     * inputs, has a promise of its own.
     * @type {Promise<Device>}
     */
    this.chosen = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.name = manifest.name;
    this.inputs = manifest.inputs;
    this.outputs = manifest.outputs;
    this.dims = manifest.dims;
    this.weightBytes = module.weightBytes;
    this.#module = module;
    this.#readPlan = readPlan;
    this.#trial = trial;
    this.#turns = turns;
    if (!trial) {
      this.#settle(device);
    } else if (trial.sample) {
      this.#try(trial);
    }
  }

  /** The number of threads that run parallel loops: one if threads cannot share memory. */
  get threads() {
    return 1 + (this.#module?.pool?.size ?? 0);
  }

  /** Why there are that many: asked for, a page that is not cross-origin isolated, or a worker that cannot be started. */
  get threadsReason() {
    return this.#module?.threadsReason ?? 'the model is disposed of';
  }

  /** Whether the files are kept for the next visit. */
  get cached() {
    return this.#module?.cached ?? false;
  }

  /** Why they are, or are not: asked for, no Cache Storage, or what kept it from taking them. */
  get cachedReason() {
    return this.#module?.cachedReason ?? 'the model is disposed of';
  }

  /** The device of the GPU that the model runs on; null on WebAssembly. Buffers of the page must be made by it. */
  get gpuDevice() {
    return this.#module?.driver?.device ?? null;
  }

  /**
   * Run the model. An input is a typed array if its shape follows from its length, else `{ data, shape }`, or on a
   * GPU `{ gpuBuffer, shape }`. Arrays may be changed as soon as this returns, buffers when the run has ended.
   * @param {Record<string, Input>} inputs by name
   * @param {RunOptions} [options]
   * @returns {Promise<Record<string, Tensor | DeviceTensor>>} the outputs by name
   * @throws {ShapeError | MemoryError | WorkerError | UsageError}
   */
  async run(inputs, options) {
    const { signal, outputs, keep = [] } = checkOptions(options, ['signal', 'outputs', 'keep'], 'run');
    const arrays = arraysOf(this.outputs, outputs);
    const kept = keptOf(this.outputs, keep, arrays);
    const results = await this.#inTurn(inputs, signal, async (module, tensors) => {
      const trial = this.#trial;
      if (!trial) {
        return module.run(tensors, arrays, kept);
      }
      const first = !trial.sample;
      const made = await trial.timed(module, tensors, arrays, kept);
      if (first && trial.sample) {
        this.#try(trial);
      }
      return made;
    });
    const named = results.map((tensor, index) => (kept[index] ? new DeviceTensor(tensor) : tensor));
    return Object.fromEntries(this.outputs.map((port, index) => [port.name, named[index]]));
  }

  /**
   * A tensor of a picture, or of several ones of the same size, for an input of this model that takes pictures.
   * @param {import('./canvas.mjs').Picture | readonly import('./canvas.mjs').Picture[]} given
   * @param {import('./picture.mjs').PictureOptions} [options]
   * @throws {ShapeError | UsageError}
   */
  async picture(given, options) {
    const { tensorOfPictures } = await partOf(import('./picture.mjs'));
    return tensorOfPictures(this.inputs, given, options);
  }

  /**
   * Time the steps of a run: repeat it with these inputs for about `seconds`.
   * @param {Record<string, Input>} inputs by name
   * @param {{ seconds?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<import('./profile.mjs').Profile>}
   * @throws {ShapeError | MemoryError | UsageError | NetworkError | IntegrityError}
   */
  async profile(inputs, options) {
    const { seconds = 0.5, signal } = checkOptions(options, ['seconds', 'signal'], 'profile');
    const { profileRuns } = await profiles();
    const pause = () => nextTask().then(() => signal?.throwIfAborted());
    return this.#inTurn(inputs, signal, async (module, tensors) =>
      profileRuns(module, tensors, await this.#readPlan(this.device), seconds, pause),
    );
  }

  /**
   * Bytes that a run with these dims needs: for the weights, for the arena of intermediate results, and in total.
   * @param {Record<string, number>} [dims]
   * @throws {ShapeError | UsageError}
   */
  memory(dims = {}) {
    const arena = this.#open().arenaBytes(valuesOf(this.dims, dims));
    return { weights: this.weightBytes, arena, total: this.weightBytes + arena };
  }

  /** For `using`: dispose of the model at the end of the block. */
  [Symbol.dispose]() {
    this.dispose();
  }

  /** Release the memory. The model cannot be used afterwards. */
  dispose() {
    this.#trial?.stop.abort();
    this.#module?.end();
    this.#module = null;
    this.#settle(this.device);
  }

  /**
   * Find out whether a GPU is faster; if so, run there from then on.
   * @param {Trial} trial
   */
  async #try(trial) {
    if (trial.least > 0) {
      this.chosen = new Promise((resolve) => (this.#settle = resolve));
    }
    await nextTask();
    const outcome = await trial.outcome((work) => this.#turn(undefined, work));
    const { reason, module } = outcome;
    const change = (/** @type {ModelModule} */ before) => {
      this.#trial = trial.next(outcome);
      this.deviceReason = reason ?? this.deviceReason;
      if (module) {
        before.end();
        this.#module = module;
        this.weightBytes = module.weightBytes;
        this.device = 'webgpu';
      }
    };
    await this.#turn(undefined, change).catch(() => module?.end());
    this.#settle(this.device);
  }

  #open() {
    if (!this.#module) {
      throw new UsageError(`the model '${this.name}' is disposed of: load it again`);
    }
    return this.#module;
  }

  /**
   * Check the inputs, and call `work` with them when all earlier work is done.
   * @template T
   * @param {Record<string, Input>} inputs
   * @param {AbortSignal | undefined} signal
   * @param {(module: ModelModule, tensors: Tensor[]) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(inputs, signal, work) {
    this.#open();
    const given = tensorsOf(this.inputs, inputs);
    const tensors = this.#turns.unfinished > 0 ? copiesOf(given) : given;
    // The page may free tensors while the run uses them.
    tensors.forEach(({ held }) => held?.retain());
    const result = this.#turn(signal, (module) => work(module, tensors));
    return result.finally(() => tensors.forEach(({ held }) => held?.release()));
  }

  /**
   * Call `work` with the module: at once, or when all earlier work is done.
   * @template T
   * @param {AbortSignal | undefined} signal
   * @param {(module: ModelModule) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  async #turn(signal, work) {
    try {
      return await this.#turns.take(signal, () => work(this.#open()));
    } catch (error) {
      // If the model was disposed of during the run, a GPU fails: report the call of `dispose` instead.
      this.#open();
      throw error;
    }
  }
}
