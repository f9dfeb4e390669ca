// The buffers of a model on a GPU, by the numbers that its steps know them by (driver.h), and how shaders bind them.

import { MemoryError } from './errors.mjs';
import { BLOCK } from './limits.mjs';

/** @typedef {{ buffer: number, offset: number, bytes: number }} Slice */

/** The first number of a buffer that keeps a value between runs. */
const KEPT = 2 ** 20;
/** The most such buffers that are not in use and serve again. */
const MOST_DISCARDED = 8;
/** The number of the weights' buffer. The weights may take several buffers, which have the numbers -1, -2, ... */
const WEIGHTS = 1;
/** The most bind groups that are kept; each size of the inputs needs its own. */
const MOST_KEPT = 4096;
/** Bytes of the largest element of an array: a vector. */
const MOST_ELEMENT = 16;

/**
 * The bytes of the binding of a slice.
 * @param {number} bytes of the slice
 */
export function bytesBound(bytes) {
  return Math.ceil(bytes / MOST_ELEMENT) * MOST_ELEMENT;
}

export class Buffers {
  /** @type {Set<GPUBuffer>} */
  #made = new Set();
  #fail;

  /**
   * @param {GPUDevice} device
   * @param {(error: GPUError) => void} fail called if the device has no memory for a buffer
   */
  constructor(device, fail) {
    this.device = device;
    this.#fail = fail;
    const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
    /** The most bytes of a buffer. */
    this.most = maxBufferSize;
    /** The most bytes that the device binds at once. */
    this.bindable = Math.min(maxBufferSize, maxStorageBufferBindingSize);
    /** Tensors begin at multiples of so many bytes. */
    this.alignment = BLOCK;
    /** @type {Map<number, GPUBuffer>} */
    this.numbered = new Map();
    /**
     * Buffers that kept values, the first to be discarded first.
     * @type {number[]}
     */
    this.discarded = [];
    this.nextKept = KEPT;
    /** The offsets in the weights at which their buffers begin. */
    this.starts = [0];
    /** @type {Map<string, GPUBindGroup>} */
    this.groups = new Map();
    /**
     * Buffers that empty tensors are bound to, by the index of the operand.
     * @type {GPUBuffer[]}
     */
    this.nothing = [];
  }

  /** @param {number} number */
  get(number) {
    return /** @type {GPUBuffer} */ (this.numbered.get(number));
  }

  /**
   * @param {number} size
   * @param {number} usage
   * @param {string} label
   */
  make(size, usage, label) {
    if (size > this.most) {
      const words = `${label} would take ${size} bytes of the GPU, which gives at most ${this.most}`;
      throw new MemoryError(`${words}: load with device 'wasm'`, size);
    }
    // Other models share the device; none gets the errors of others.
    this.device.pushErrorScope('out-of-memory');
    const buffer = this.device.createBuffer({ size, usage, label });
    this.device.popErrorScope().then((error) => error && this.#fail(error), () => {});
    this.#made.add(buffer);
    return buffer;
  }

  /** @param {GPUBuffer} buffer */
  release(buffer) {
    buffer.destroy();
    this.#made.delete(buffer);
  }

  /** Release all buffers. */
  destroy() {
    this.#made.forEach((buffer) => buffer.destroy());
  }

  /**
   * Make sure that the buffer with this number has at least `bytes`; a smaller one is replaced.
   * @param {number} number
   * @param {number} bytes
   * @param {string} label
   */
  provide(number, bytes, label) {
    const size = Math.max(BLOCK, Math.ceil(bytes / BLOCK) * BLOCK);
    // There is none, or a smaller one.
    if (!(this.get(number)?.size >= size)) {
      this.remove(number);
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.numbered.set(number, this.make(size, usage, label));
    }
  }

  /**
   * Replace the buffer with this number by one of zeros.
   * @param {number} number
   * @param {number} bytes
   * @param {string} label
   */
  clear(number, bytes, label) {
    this.remove(number);
    this.provide(number, bytes, label);
  }

  /** @param {number} number */
  remove(number) {
    if (this.numbered.has(number)) {
      this.release(this.get(number));
      this.numbered.delete(number);
      this.groups.clear();
    }
  }

  /**
   * A buffer for a value that stays on the device; returns its number.
   * @param {number} bytes
   * @param {string} label
   */
  keep(bytes, label) {
    const fits = (/** @type {number} */ size) => size >= bytes && size <= Math.max(BLOCK, 2 * bytes);
    const again = this.discarded.findIndex((number) => fits(this.get(number).size));
    if (again >= 0) {
      return this.discarded.splice(again, 1)[0];
    }
    this.provide(this.nextKept, bytes, label);
    this.nextKept += 1;
    return this.nextKept - 1;
  }

  /**
   * Release a buffer that no run uses.
   * @param {number} number
   */
  discard(number) {
    this.discarded.push(number);
    if (this.discarded.length > MOST_DISCARDED) {
      this.remove(/** @type {number} */ (this.discarded.shift()));
    }
  }

  /**
   * Make as few buffers for the weights as possible; returns the bytes of all weights. A tensor is in one buffer,
   * unless it is larger than a buffer can be.
   * @param {readonly import('./module.mjs').Piece[]} pieces
   * @param {number} part a tensor is divided only at multiples of this many bytes
   */
  provideWeights(pieces, part) {
    const starts = [0];
    let start = 0;
    let tensor = 0;
    let end = 0;
    for (const { bytes, goesOn } of pieces) {
      tensor = goesOn ? tensor : end;
      const fits = tensor > start ? tensor : end - ((end - start) % part);
      end += bytes;
      if (end - start > this.most && fits > start) {
        starts.push((start = fits));
      }
    }
    this.starts = starts;
    starts.forEach((start, index) => this.provide(-1 - index, (starts[index + 1] ?? end) - start, 'the weights'));
    return end;
  }

  /**
   * @param {number} offset
   * @param {Uint8Array<ArrayBuffer>} data a piece: a multiple of 4 bytes
   */
  writeWeights(offset, data) {
    const place = this.placed({ buffer: WEIGHTS, offset, bytes: data.length });
    this.device.queue.writeBuffer(this.get(place.buffer), place.offset, data);
  }

  /**
   * The buffer and offset of a slice; slices of the weights are placed in one of their buffers.
   * @param {Slice} slice
   * @returns {Slice}
   */
  placed({ buffer, offset, bytes }) {
    if (buffer !== WEIGHTS) {
      return { buffer, offset, bytes };
    }
    const index = this.starts.findLastIndex((start) => start <= offset);
    return { buffer: -1 - index, offset: offset - this.starts[index], bytes };
  }

  /**
   * The bind group of a dispatch; equal dispatches share one.
   * @param {number} kernel
   * @param {GPUComputePipeline} pipeline
   * @param {GPUBuffer} uniforms with the scalars
   * @param {readonly Slice[]} places
   */
  group(kernel, pipeline, uniforms, places) {
    const key = `${kernel}:${places.map(({ buffer, offset, bytes }) => `${buffer},${offset},${bytes}`).join(';')}`;
    const known = this.groups.get(key);
    if (known) {
      return known;
    }
    const entries = places.map(({ buffer, offset, bytes }, index) => {
      if (bytes === 0) {
        // The offset of an empty tensor may be the end of a buffer, which cannot be bound, or overlap another tensor.
        this.nothing[index] ??= this.make(BLOCK, GPUBufferUsage.STORAGE, 'nothing');
        return { binding: index + 1, resource: { buffer: this.nothing[index] } };
      }
      const size = bytesBound(bytes);
      if (size > this.bindable) {
        throw new MemoryError(`a tensor of ${size} bytes is larger than the ${this.bindable} that this GPU can bind`, size);
      }
      return { binding: index + 1, resource: { buffer: this.get(buffer), offset, size } };
    });
    const scalars = { binding: 0, resource: { buffer: uniforms, size: BLOCK } };
    const made = this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [scalars, ...entries] });
    if (this.groups.size === MOST_KEPT) {
      this.groups.clear();
    }
    this.groups.set(key, made);
    return made;
  }
}
