// Values in buffers of a GPU that outlive a run.

import { dtypeOf } from './dtypes.mjs';
import { UsageError } from './errors.mjs';

/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */

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
      this.driver.buffers.discard(this.number);
    }
  }

  /**
   * Check that the value can be an input of a model with this driver.
   * @param {GpuDriver | null} driver
   * @param {string} name of the input
   * @throws {UsageError}
   */
  requireOn(driver, name) {
    if (driver !== this.driver) {
      throw new UsageError(`input '${name}' is on the device of another model: pass its data()`);
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
