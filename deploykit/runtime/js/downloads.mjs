// What a run reads from a GPU: parts of buffers, which one submission copies to a buffer that the host can map.

import { DeviceLostError } from './errors.mjs';
import { BLOCK } from './limits.mjs';

/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */
/** @typedef {import('./buffers.mjs').Slice} Slice */

/** Milliseconds after which a device that ends no work counts as lost. */
const PATIENCE = 100;

/**
 * Wait until the host can read a buffer.
 * @param {GpuDriver} driver
 * @param {GPUBuffer} staging
 * @param {number} bytes
 */
export async function mapped(driver, staging, bytes) {
  try {
    await staging.mapAsync(GPUMapMode.READ, 0, bytes);
  } catch (cause) {
    await Promise.race([driver.device.lost, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
    const message = `the GPU device did not end its work, load the model again: ${cause}`;
    throw driver.lost ?? new DeviceLostError(message, { cause });
  }
}

export class Downloads {
  /** @type {{ address: number, source: Slice, at: number }[]} */
  #parts = [];
  #bytes = 0;
  /** @type {GPUBuffer | null} */
  #staging = null;
  #driver;

  /** @param {GpuDriver} driver */
  constructor(driver) {
    this.#driver = driver;
  }

  get none() {
    return this.#parts.length === 0;
  }

  clear() {
    this.#parts = [];
    this.#bytes = 0;
  }

  /**
   * Copy a slice to this address of the host's memory, later.
   * @param {number} address
   * @param {Slice} source
   */
  add(address, source) {
    if (source.bytes > 0) {
      this.#parts.push({ address, source, at: this.#bytes });
      this.#bytes += Math.ceil(source.bytes / 8) * 8;
    }
  }

  /**
   * Record the copies; they come after all commands so far.
   * @param {GPUCommandEncoder} encoder
   */
  record(encoder) {
    const staging = this.#room();
    for (const { source, at } of this.#parts) {
      const { buffer, offset, bytes } = source;
      encoder.copyBufferToBuffer(this.#driver.buffers.get(buffer), offset, staging, at, Math.ceil(bytes / 4) * 4);
    }
  }

  /** Wait for the copies, which are submitted, and put them into the host's memory. */
  async read() {
    const staging = this.#room();
    await mapped(this.#driver, staging, this.#bytes);
    const data = new Uint8Array(staging.getMappedRange(0, this.#bytes));
    for (const { address, source, at } of this.#parts) {
      new Uint8Array(this.#driver.bytes(), address, source.bytes).set(data.subarray(at, at + source.bytes));
    }
    staging.unmap();
    this.clear();
  }

  /** A buffer that has room for all parts. */
  #room() {
    if (!this.#staging || this.#staging.size < this.#bytes) {
      if (this.#staging) {
        this.#driver.buffers.release(this.#staging);
      }
      this.#staging = null;
      const size = Math.max(BLOCK, 2 ** Math.ceil(Math.log2(this.#bytes)));
      this.#staging = this.#driver.buffers.make(size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, 'results');
    }
    return this.#staging;
  }
}
