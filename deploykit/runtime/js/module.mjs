// A model's WebAssembly module with its memory: weights first, then inputs, outputs and the arena of the current run.
//
// Offsets in structs are those of `dk_tensor` and `dk_need` in deploykit.h, with pointers of 32 bits.

import { dtypeOf } from './dtypes.mjs';
import { DataError, DeploykitError, MemoryError, partOf, ShapeError, UnsupportedError, UsageError, WorkerError } from './errors.mjs';
import { MATH } from './math.mjs';
import { ALIGNMENT, checkSize, LOADED, memoryFor, PAGE } from './memory.mjs';

/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./held.mjs').Held} Held */
/** @typedef {import('./lent.mjs').Lent} Lent */
/**
 * A tensor without elements in the page's memory is `held` by a GPU, or `lent` by the page.
 * @typedef {{ dtype: string, shape: readonly number[], data: Elements, held?: Held, lent?: Lent }} Tensor
 */
/** @typedef {readonly (Elements | undefined)[]} Arrays */
/** @typedef {readonly (number | string)[]} Extents numbers, names of dims or formulas */
/**
 * `instance` is the shape of an instance of a ragged tensor; a name is that of the input with the extents.
 * @typedef {{ name: string, dtype: string, shape: Extents, instance?: Extents }} Port
 */
/** @typedef {{ bytes: number, goesOn: boolean }} Piece of weights; `goesOn`: continues the last piece's tensor */

/**
 * @typedef {object} Exports
 * @property {WebAssembly.Global} __heap_base
 * @property {(weights: number, bytes: number) => number} open
 * @property {() => number} weights_bytes
 * @property {(index: number) => number} input
 * @property {(index: number) => number} output
 * @property {() => number} dims
 * @property {() => number} capacities
 * @property {() => number} bind
 * @property {() => number} arena_bytes
 * @property {(arena: number, bytes: number) => number} set_arena
 * @property {(index: number) => number} output_shape
 * @property {() => number} run
 * @property {(on: number) => void} profile
 * @property {(bindable: number) => void} restart only if kernels run on a GPU, as the next four
 * @property {() => number} kept
 * @property {() => number} resident
 * @property {() => number} host_memory
 * @property {() => number} part_bytes
 * @property {() => number} state_bytes only if the function has states, as the next three
 * @property {() => number} [host_state_bytes]
 * @property {(state: number, bytes: number) => number} reset_state
 * @property {(state: number, bytes: number) => number} set_state
 * @property {() => number} need
 * @property {() => number} error
 * @property {(threads: number, patient: number) => void} share
 * @property {() => number} stack_bytes
 * @property {() => number} failures
 */

export const OK = 0;
/** `DK_ON_DEVICE`: the address of a tensor in a buffer that is kept. */
export const ON_DEVICE = 64;
const CAPACITY = 5;
const OF_INPUTS = [1, 2];
const DATA = 7;
/** How often a run is repeated. A run that fails for lack of memory says which memory it needs, and is repeated. */
export const MOST_RUNS = 64;
/** Bytes that an output gets at first if its size is known only during the run. */
const FIRST_GUESS = 4096;

/** Whether this engine has the instructions of a feature: `simd` or `relaxed`. */
export const FEATURES = {
  simd: () => validates([0x41, 0, 0xfd, 0x0f, 0xfd, 0x62, 0x0b]),
  relaxed: () => validates([0x41, 1, 0xfd, 0x0f, 0x41, 2, 0xfd, 0x0f, 0xfd, 0x80, 2, 0x0b]),
};

/**
 * Whether a function with this code, which returns a vector, is valid.
 * @param {number[]} code
 */
function validates(code) {
  const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0];
  return WebAssembly.validate(new Uint8Array([...header, 10, code.length + 3, 1, code.length + 1, 0, ...code]));
}

export class ModelModule {
  /**
   * @param {Exports} exports
   * @param {WebAssembly.Memory} memory
   * @param {readonly Port[]} inputs
   * @param {readonly Port[]} outputs
   * @param {number} dims the number of dims
   */
  constructor(exports, memory, inputs, outputs, dims) {
    this.exports = exports;
    this.memory = memory;
    /** @type {import('./pool.mjs').Pool | null} */
    this.pool = null;
    /** Why there are that many threads. */
    this.threadsReason = 'kernels run on the GPU';
    /** Whether the files are kept for the next visit, and why. */
    this.cached = false;
    this.cachedReason = '';
    /**
     * The driver of the GPU, if kernels run on one.
     * @type {import('./gpu.mjs').GpuDriver | null}
     */
    this.driver = null;
    this.inputs = inputs;
    this.outputs = outputs;
    this.dimCount = dims;
    this.room = outputs.map(() => FIRST_GUESS);
    this.top = align(Number(exports.__heap_base.value));
    this.weights = this.top;
    this.weightBytes = 0;
    this.ended = false;
    LOADED.count += 1;
    /** Called when a step of a profiled run begins, and with -1 after the last one. */
    this.onStep = (/** @type {number} */ _step) => {};
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} code
   * @param {import('./model.mjs').Manifest} manifest
   * @param {number} threads
   * @param {URL} [script] of workers, if it is not beside this module
   */
  static async compile(code, manifest, threads, script) {
    const { inputs, outputs, dims } = manifest;
    const make = (/** @type {Exports} */ exports, /** @type {WebAssembly.Memory} */ memory) => {
      return new ModelModule(exports, memory, inputs, outputs, dims.length);
    };
    return ModelModule.instantiate(code, manifest, threads, {}, make, script);
  }

  /**
   * @template {ModelModule} M
   * @param {Uint8Array<ArrayBuffer>} code
   * @param {import('./model.mjs').Manifest} manifest
   * @param {number} threads
   * @param {WebAssembly.Imports} more imports, besides those of every module
   * @param {(exports: any, memory: WebAssembly.Memory) => M} make
   * @param {URL} [script]
   */
  static async instantiate(code, manifest, threads, more, make, script) {
    const { memory, code: fitting } = memoryFor(code, threads > 1, manifest);
    /** @type {M | undefined} */
    let opened;
    try {
      const step = (/** @type {number} */ number) => opened?.onStep(number);
      const imports = { env: { memory }, math: MATH, profile: { step }, ...more };
      const { instance, module } = await WebAssembly.instantiate(fitting, imports);
      opened = make(instance.exports, memory);
      if (threads > 1) {
        const { Pool } = await partOf(import('./pool.mjs'));
        opened.pool = await Pool.start(opened.tasks(module, threads - 1), script);
      }
      return opened;
    } catch (cause) {
      opened?.end();
      if (cause instanceof DeploykitError) {
        throw cause;
      }
      const words = cause instanceof Error ? cause.message : cause;
      throw new UnsupportedError(`this engine cannot compile the model's WebAssembly: ${words}`, { cause });
    }
  }

  /**
   * The tasks of the workers; each has its own stack.
   * @param {WebAssembly.Module} module
   * @param {number} workers
   */
  tasks(module, workers) {
    const { memory } = this;
    return Array.from({ length: workers }, () => {
      this.top += this.exports.stack_bytes();
      this.reserve(this.top, 'the stacks of threads', 'load with fewer of them');
      return { module, memory, stack: this.top };
    });
  }

  /**
   * Reserve memory for the weights and for the arena.
   * @param {readonly Piece[]} pieces of the weights
   * @param {number} arena bytes that every run needs
   */
  reserveWeights(pieces, arena) {
    this.weightBytes = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
    this.weights = this.top;
    this.top = align(this.weights + this.weightBytes);
    this.reserve(this.top + arena, 'the weights and intermediate results', 'the model is too large for it');
  }

  /**
   * @param {number} offset
   * @param {Uint8Array} part of the weights
   */
  placeWeights(offset, part) {
    new Uint8Array(this.memory.buffer).set(part, this.weights + offset);
  }

  /**
   * A part of the weights.
   * @param {number} offset
   * @param {number} bytes
   */
  weightsAt(offset, bytes) {
    return new Uint8Array(this.memory.buffer, this.weights + offset, bytes);
  }

  /**
   * Open the model, after all weights are placed.
   * @returns {this | Promise<this>}
   */
  open() {
    this.check(this.exports.open(this.weights, this.exports.weights_bytes()));
    if (this.pool) {
      this.exports.share(1 + this.pool.size, Number(this.pool.patient));
    }
    return this;
  }

  /** End the workers. The memory is free when nobody refers to this. */
  end() {
    this.pool?.end();
    LOADED.count -= Number(!this.ended);
    this.ended = true;
  }

  /**
   * @param {readonly Tensor[]} tensors the inputs in order
   * @param {Arrays} [arrays] that get the outputs, in order
   * @param {readonly boolean[]} [keep] whether an output is to stay on the device, if there is one
   * @returns {Promise<Tensor[]>} the outputs in order
   */
  async run(tensors, arrays, keep) {
    const before = this.demands();
    try {
      return await this.provided(tensors, arrays, keep);
    } catch (error) {
      this.restore(before);
      throw error;
    }
  }

  /** The capacities and the room for outputs that runs have asked for so far. */
  demands() {
    return { capacities: this.capacities().slice(), room: [...this.room] };
  }

  /**
   * Go back to earlier demands after a run that failed, so that they do not affect later runs.
   * @param {{ capacities: BigInt64Array, room: number[] }} demands
   */
  restore({ capacities, room }) {
    this.capacities().set(capacities);
    this.room = room;
  }

  /**
   * Run, and repeat with more memory as long as the run asks for it.
   * @param {readonly Tensor[]} tensors
   * @param {Arrays} [arrays]
   * @param {readonly boolean[]} [_keep]
   * @returns {Tensor[] | Promise<Tensor[]>}
   */
  provided(tensors, arrays, _keep) {
    for (let runs = 0; runs < MOST_RUNS; runs += 1) {
      const results = this.begin(tensors);
      const status = this.execute();
      if (status === OK) {
        return this.results(results, arrays);
      }
      this.provide(status);
    }
    throw new MemoryError('the model asks for more memory without end', 0);
  }

  /** Run once; returns the status. */
  execute() {
    let status;
    try {
      status = this.exports.run();
    } catch (cause) {
      // The workers may be in a loop that is never closed now.
      this.pool?.end();
      this.exports.share(1, 0);
      this.threadsReason = 'a run failed';
      throw cause;
    }
    if (this.exports.failures()) {
      this.threadsReason = 'a worker failed';
      throw new WorkerError('a worker failed in the middle of the run: run again, without it');
    }
    return status;
  }

  /**
   * Put the inputs into memory, and lay out the outputs and the arena after them; returns the outputs' addresses.
   * @param {readonly Tensor[]} tensors
   */
  begin(tensors) {
    let top = this.top;
    const addresses = tensors.map((tensor, index) => {
      if (!this.driver && (tensor.held ?? tensor.lent)) {
        const found = `input '${this.inputs[index].name}' is on a GPU, unlike the model`;
        throw new UsageError(`${found}: load with device 'webgpu', or pass its elements`);
      }
      const address = tensor.held ? ON_DEVICE : top;
      top = align(top + tensor.data.byteLength);
      this.describe(this.exports.input(index), address, tensor);
      return address;
    });
    this.check(this.exports.bind());
    const results = this.layOut(top);
    tensors.forEach((tensor, index) => {
      this.elements(tensor.dtype, addresses[index], tensor.data.length).set(/** @type {any} */ (tensor.data));
    });
    return results;
  }

  /**
   * Whether an output of this run stays on the device.
   * @param {number} _output
   */
  keeps(_output) {
    return false;
  }

  /** Bytes of arena that the host needs for the bound inputs. */
  hostArena() {
    return this.exports.arena_bytes();
  }

  /**
   * Bytes of arena that a run with these dims needs.
   * @param {readonly number[]} values in the order of the manifest
   */
  arenaBytes(values) {
    const dims = new BigInt64Array(this.memory.buffer, this.exports.dims(), this.dimCount);
    values.forEach((value, index) => {
      dims[index] = BigInt(value);
    });
    return this.exports.arena_bytes();
  }

  /** The dims that the model keeps between runs. */
  capacities() {
    return new BigInt64Array(this.memory.buffer, this.exports.capacities(), this.dimCount);
  }

  /**
   * Lay out the outputs and the arena after `top`, for bound inputs; returns the outputs' addresses.
   * @param {number} top
   */
  layOut(top) {
    const places = this.outputs.map(({ dtype }, index) => {
      this.check(this.exports.output_shape(index));
      const tensor = this.exports.output(index);
      const view = this.view();
      const shape = this.shape(tensor, view.getInt32(tensor + 12, true));
      const known = shape.every((extent) => extent >= 0);
      const element = dtypeOf(dtype).array.BYTES_PER_ELEMENT;
      const bytes = known ? shape.reduce((product, extent) => product * extent, element) : this.room[index];
      const address = this.keeps(index) ? ON_DEVICE : top;
      top = align(top + (this.keeps(index) ? 0 : bytes));
      view.setUint32(tensor, address, true);
      view.setUint32(tensor + 4, bytes, true);
      return address;
    });
    this.reserve(top + this.hostArena(), 'inputs, outputs and intermediate results', 'use smaller inputs');
    this.check(this.exports.set_arena(top, this.exports.arena_bytes()));
    return places;
  }

  /**
   * If a run lacked memory, note how much to give the next one; else throw its error.
   * @param {number} status
   */
  provide(status) {
    const need = this.exports.need();
    const view = this.view();
    const output = view.getInt32(need + 8, true);
    const dim = view.getInt32(need + 12, true);
    if (status === CAPACITY && output >= 0) {
      this.room[output] = Number(view.getBigInt64(need, true));
    } else if (status === CAPACITY && dim >= 0) {
      this.capacities()[dim] = view.getBigInt64(need + 16, true);
    } else {
      this.check(status, Number(view.getBigInt64(need, true)));
    }
  }

  /**
   * Write a `dk_tensor`.
   * @param {number} tensor
   * @param {number} address
   * @param {Tensor} value
   */
  describe(tensor, address, value) {
    const view = this.view();
    view.setUint32(tensor, address, true);
    view.setUint32(tensor + 4, value.held?.bytes ?? value.data.byteLength, true);
    view.setInt32(tensor + 8, dtypeOf(value.dtype).code, true);
    view.setInt32(tensor + 12, value.shape.length, true);
    value.shape.forEach((extent, axis) => view.setBigInt64(tensor + 16 + 8 * axis, BigInt(extent), true));
  }

  /**
   * Copy the outputs into these arrays, or into new ones. If one of the arrays does not fit, nothing is copied.
   * @param {readonly number[]} addresses
   * @param {Arrays} [arrays]
   * @returns {Tensor[]}
   */
  results(addresses, arrays = []) {
    const found = addresses.map((address, index) => {
      const { name, dtype } = this.outputs[index];
      const tensor = this.exports.output(index);
      const shape = this.shape(tensor, this.view().getInt32(tensor + 12, true));
      const length = shape.reduce((product, extent) => product * extent, 1);
      const own = arrays[index];
      if (own && own.length !== length) {
        throw new ShapeError(`output '${name}' has ${length} elements, and its array ${own.length} elements`);
      }
      return { dtype, shape, data: this.elements(dtype, address, this.keeps(index) ? 0 : length) };
    });
    return found.map((tensor, index) => {
      const own = arrays[index];
      own?.set(/** @type {any} */ (tensor.data));
      return { ...tensor, data: own ?? tensor.data.slice() };
    });
  }

  /**
   * @param {number} tensor
   * @param {number} rank
   */
  shape(tensor, rank) {
    const view = this.view();
    return Array.from({ length: rank }, (_, axis) => Number(view.getBigInt64(tensor + 16 + 8 * axis, true)));
  }

  /**
   * @param {string} dtype
   * @param {number} address
   * @param {number} length
   */
  elements(dtype, address, length) {
    return new (dtypeOf(dtype).array)(this.memory.buffer, address, length);
  }

  view() {
    return new DataView(this.memory.buffer);
  }

  /**
   * Grow the memory until it has `bytes`.
   * @param {number} bytes
   * @param {string} what
   * @param {string} advice
   */
  reserve(bytes, what, advice) {
    const missing = bytes - this.memory.buffer.byteLength;
    if (missing <= 0) {
      return;
    }
    checkSize(bytes, what, advice);
    try {
      this.memory.grow(Math.ceil(missing / PAGE));
    } catch (cause) {
      throw new MemoryError(`${what} need ${missing} more bytes than this engine gives: ${advice}`, missing, { cause });
    }
  }

  /**
   * Throw the error of a status other than OK.
   * @param {number} status
   * @param {number} [needed] bytes that were missing
   */
  check(status, needed = 0) {
    if (status === OK) {
      return;
    }
    const bytes = new Uint8Array(this.memory.buffer, this.exports.error(), 256);
    const text = new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    if (status === CAPACITY) {
      throw new MemoryError(text, needed);
    }
    if (status === DATA) {
      throw new DataError(text);
    }
    throw OF_INPUTS.includes(status) ? new ShapeError(text) : new DeploykitError(text);
  }
}

/** @param {number} address */
function align(address) {
  return Math.ceil(address / ALIGNMENT) * ALIGNMENT;
}
