// Outputs that stay where the model runs, so that later runs can take them as inputs without a copy.

import { dtypeOf } from './dtypes.mjs';
import { UsageError } from './errors.mjs';

/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */
/** @typedef {import('./module.mjs').Tensor} Tensor */

/** A value in a buffer of a GPU. The buffer is released when nobody uses it. */
export class Held {
  #users = 1;

  /**
   * @param {GpuDriver} driver
   * @param {number} number of the buffer
   * @param {number} bytes
   */
  constructor(driver, number, bytes) {
    this.driver = driver;
    this.number = number;
    this.bytes = bytes;
  }

  retain() {
    this.#users += 1;
  }

  release() {
    this.#users -= 1;
    if (this.#users === 0) {
      this.driver.discard(this.number);
    }
  }

  /**
   * A copy of the value.
   * @param {string} dtype
   */
  async read(dtype) {
    this.retain();
    try {
      const { array } = dtypeOf(dtype);
      return new array(await this.driver.read(this), 0, this.bytes / array.BYTES_PER_ELEMENT);
    } finally {
      this.release();
    }
  }
}

/**
 * Check that an input is in the page's memory or on this device.
 * @param {GpuDriver | null} driver
 * @param {string} name
 * @param {Tensor} tensor
 * @throws {UsageError}
 */
export function requireOn(driver, name, { held }) {
  if (held && held.driver !== driver) {
    throw new UsageError(`input '${name}' is on the device of another model: pass its data()`);
  }
}

/** An output that a run kept. Runs never change it. On WebAssembly it is in the memory of the page. */
export class DeviceTensor {
  /** @type {Tensor | null} */
  #tensor;

  /** @param {Tensor} tensor */
  constructor(tensor) {
    this.#tensor = tensor;
    this.dtype = tensor.dtype;
    this.shape = tensor.shape;
  }

  /** Whether it is in the memory of a GPU. */
  get onDevice() {
    return Boolean(this.tensor.held);
  }

  /**
   * A copy of its elements.
   * @returns {Promise<Elements>}
   * @throws {UsageError | DeviceLostError}
   */
  async data() {
    const { dtype, data, held } = this.tensor;
    return held ? held.read(dtype) : data.slice();
  }

  /** Release its memory. It cannot be used afterwards; runs that were called before still have it. */
  free() {
    this.#tensor?.held?.release();
    this.#tensor = null;
  }

  /** The tensor as an input. */
  get tensor() {
    if (!this.#tensor) {
      throw new UsageError('this tensor was freed: keep the output of another run');
    }
    return this.#tensor;
  }
}
