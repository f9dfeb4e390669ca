// A model's WebAssembly module whose kernels run on a GPU. It holds the steps, and the kernels that a GPU cannot run.

import { openDevice } from './device.mjs';
import { DeviceLostError, MemoryError, partOf } from './errors.mjs';
import { FAILED, GpuDriver, PENDING } from './gpu.mjs';
import { Held } from './held.mjs';
import { ModelModule, MOST_RUNS, OK, ON_DEVICE } from './module.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */

/** The line before each shader. */
const SHADER = /^\/\/ shader .*\n/m;
/** The line before a section of a shader: `if` for some devices only, or `always`. */
const SECTION = /^\/\/ (?:if (!?)(\S+)|always)\n/m;
/** The directives that must come first in a shader. */
const DIRECTIVE = /^(?:enable|diagnostic).*\n/gm;

/**
 * The shaders of a model, without the sections for other devices.
 * @param {string} text of shaders.wgsl
 * @param {ReadonlySet<string>} features of the device, and of the language on it
 * @param {number} bindable the most bytes that the device binds at once
 */
export function shadersOf(text, features, bindable) {
  const sources = text.split(SHADER).slice(1);
  return sources.map((source) => {
    const [start, ...parts] = source.split(SECTION);
    let whole = start;
    for (let i = 0; i < parts.length; i += 3) {
      const [not, feature, section] = parts.slice(i);
      const has = bindable >= +feature || features.has(feature);
      whole += !feature || has !== (not === '!') ? section : '';
    }
    return (whole.match(DIRECTIVE) ?? []).join('') + whole.replace(DIRECTIVE, '');
  });
}

/** Numbers of buffers; 1 is for the weights, 2 for the states. */
const ARENA = 0;
const PORTS = 3;

/** Bits of `host_memory`. */
const HOST_ARENA = 1;
const HOST_WEIGHTS = 2;

/** The module for values that others have. */
function lending() {
  return partOf(import('./lent.mjs'));
}

export class GpuModule extends ModelModule {
  #compiled;

  /**
   * @param {any} exports
   * @param {WebAssembly.Memory} memory
   * @param {import('./model.mjs').Manifest} manifest
   * @param {GpuDriver} driver
   * @param {Promise<void>} compiled resolves when the shaders are compiled
   */
  constructor(exports, memory, { inputs, outputs, dims }, driver, compiled) {
    super(exports, memory, inputs, outputs, dims.length);
    /** @override */
    this.driver = driver;
    this.#compiled = compiled;
    /** What the host needs memory for: HOST_ARENA, HOST_WEIGHTS. */
    this.onHost = 0;
    /**
     * Whether an output of the current run stays on the device, and the buffers of those that do.
     * @type {readonly boolean[]}
     */
    this.keep = [];
    /** @type {Map<number, Held>} */
    this.held = new Map();
    driver.memory = memory;
  }

  /**
   * A module with a device. Its shaders are compiled in the meantime; `open` waits for them.
   * @param {import('./model.mjs').Manifest} manifest
   * @param {Promise<Uint8Array<ArrayBuffer>>} code
   * @param {Promise<Uint8Array<ArrayBuffer>>} shaders
   * @param {import('./model.mjs').LoadOptions} options
   * @param {(by: { compiled?: number, shaders?: number }) => void} advance called with numbers of shaders
   * @throws {UnsupportedError}
   */
  static async make(manifest, code, shaders, { powerPreference, gpuDevice }, advance) {
    const driver = new GpuDriver(gpuDevice ?? (await openDevice(powerPreference)));
    const compiled = shaders.then((text) => {
      const features = new Set([...driver.device.features, ...(navigator.gpu.wgslLanguageFeatures ?? [])]);
      const sources = shadersOf(new TextDecoder().decode(text), features, driver.buffers.bindable);
      advance({ shaders: sources.length });
      return driver.compile(sources, () => advance({ compiled: 1 }));
    });
    // `open` handles a failure.
    compiled.catch(() => {});
    try {
      const more = { gpu: driver.imports() };
      return await ModelModule.instantiate(await code, manifest, 1, more, (exports, memory) => {
        return new GpuModule(exports, memory, manifest, driver, compiled);
      });
    } catch (error) {
      driver.destroy();
      throw error;
    }
  }

  /** @override */
  async open() {
    await this.#compiled;
    // Throws if a command has failed so far.
    await this.driver.settle();
    return super.open();
  }

  /**
   * @override
   * @param {readonly import('./module.mjs').Piece[]} pieces
   * @param {number} arena
   */
  reserveWeights(pieces, arena) {
    this.onHost = this.exports.host_memory();
    super.reserveWeights(this.onHost & HOST_WEIGHTS ? pieces : [], this.onHost & HOST_ARENA ? arena : 0);
    this.weightBytes = this.driver.buffers.provideWeights(pieces, this.exports.part_bytes());
  }

  /**
   * @override
   * @param {number} offset
   * @param {Uint8Array<ArrayBuffer>} part
   */
  placeWeights(offset, part) {
    if (this.onHost & HOST_WEIGHTS) {
      super.placeWeights(offset, part);
    }
    this.driver.buffers.writeWeights(offset, part);
  }

  /**
   * @override
   * @param {readonly Tensor[]} tensors
   * @param {import('./module.mjs').Arrays} [arrays]
   * @param {readonly boolean[]} [keep]
   */
  async provided(tensors, arrays, keep = []) {
    /** @type {Held[]} */
    const others = [];
    try {
      const giving = tensors.map((tensor, index) => this.given(tensor, index, others));
      // If one fails, none is under way any more.
      await Promise.allSettled(giving);
      const given = await Promise.all(giving);
      this.keep = keep.map((kept, index) => kept && this.resident(this.inputs.length + index));
      return await this.attempts(given, arrays);
    } finally {
      // The results have users of their own.
      this.release();
      this.keep = [];
      if (others.length > 0) {
        others.forEach((held) => held.release());
        (await lending()).forgetOthers(this.driver);
      }
    }
  }

  /**
   * An input as the run takes it: on the device only where the host does not use it.
   * @param {Tensor} tensor
   * @param {number} index
   * @param {Held[]} others gets those that are released after the run
   * @returns {Promise<Tensor>}
   */
  async given(tensor, index, others) {
    let { held } = tensor;
    if (tensor.lent || (held && held.driver !== this.driver)) {
      held = await (await lending()).borrowed(this.driver, tensor, this.inputs[index].name);
      others.push(held);
    }
    return held && !this.resident(index) ? { ...tensor, held: undefined, data: await held.read(tensor.dtype) } : { ...tensor, held };
  }

  /**
   * Whether the value of a port may stay on the device.
   * @param {number} port
   */
  resident(port) {
    return new Uint8Array(this.memory.buffer, this.exports.resident(), port + 1)[port] > 0;
  }

  /**
   * Run, and repeat with more memory as long as the run asks for it.
   * @param {readonly Tensor[]} tensors
   * @param {import('./module.mjs').Arrays} [arrays]
   */
  async attempts(tensors, arrays) {
    for (let runs = 0; runs < MOST_RUNS; runs += 1) {
      this.release();
      const results = this.begin(tensors);
      this.places(tensors);
      this.driver.restart();
      this.exports.restart(this.driver.buffers.bindable);
      let status = this.exports.run();
      while (status === PENDING) {
        await this.driver.settle();
        status = this.exports.run();
      }
      if (status === FAILED) {
        this.driver.raise();
        throw new DeviceLostError('the GPU device failed: load the model again');
      }
      if (status === OK) {
        return this.results(results, arrays).map((tensor, index) => this.kept(tensor, index));
      }
      this.provide(status);
    }
    throw new MemoryError('the model asks for more memory without end', 0);
  }

  /** @param {number} output @override */
  keeps(output) {
    return Boolean(this.keep[output]);
  }

  /** Let go of the buffers that outputs of the last attempt got. */
  release() {
    this.held.forEach((held) => held.release());
    this.held.clear();
  }

  /**
   * A result, which has the buffer that it was left in.
   * @param {Tensor} tensor
   * @param {number} index
   * @returns {Tensor}
   */
  kept(tensor, index) {
    const held = this.held.get(index);
    if (held) {
      held.retain();
      held.bytes = tensor.shape.reduce((bytes, extent) => bytes * extent, tensor.data.BYTES_PER_ELEMENT);
    }
    return { ...tensor, held };
  }

  /**
   * Tell the model which ports have buffers of their own.
   * @param {readonly Tensor[]} tensors
   */
  places(tensors) {
    const count = this.inputs.length;
    const kept = new Int32Array(this.memory.buffer, this.exports.kept(), count + this.outputs.length).fill(0);
    tensors.forEach(({ held }, index) => (kept[index] = held?.number ?? 0));
    this.held.forEach(({ number }, index) => (kept[count + index] = number));
  }

  /**
   * The GPU has the arena and a buffer for each input and output; the host has an arena too if it computes something.
   * @override
   * @param {number} top
   */
  layOut(top) {
    const places = super.layOut(top);
    this.driver.buffers.provide(ARENA, this.exports.arena_bytes(), 'intermediate results');
    const view = this.view();
    this.inputs.forEach(({ name }, index) => {
      const input = this.exports.input(index);
      if (view.getUint32(input, true) !== ON_DEVICE) {
        this.driver.buffers.provide(PORTS + index, view.getUint32(input + 4, true), `input '${name}'`);
      }
    });
    this.outputs.forEach(({ name }, index) => {
      const number = PORTS + this.inputs.length + index;
      const bytes = view.getUint32(this.exports.output(index) + 4, true);
      if (this.keeps(index)) {
        this.held.set(index, new Held(this.driver, this.driver.buffers.keep(bytes, `output '${name}'`), bytes));
      } else {
        this.driver.buffers.provide(number, bytes, `output '${name}'`);
      }
    });
    return places;
  }

  /** @override */
  hostArena() {
    return this.onHost & HOST_ARENA ? this.exports.arena_bytes() : 0;
  }

  /** @override */
  end() {
    super.end();
    this.driver.destroy();
  }
}
