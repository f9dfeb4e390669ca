// Values in buffers of a GPU that outlive a run.

import { dtypeOf } from './dtypes.mjs';

/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */

/** A value in a buffer of a GPU. A buffer of the driver is released when nobody uses it. */
export class Held {
  #users = 1;

  /**
   * @param {GpuDriver} driver
   * @param {number} number of the buffer
   * @param {number} bytes
   * @param {boolean} [own] whether the buffer is the driver's
   */
  constructor(driver, number, bytes, own = true) {
    this.driver = driver;
    this.number = number;
    this.bytes = bytes;
    this.own = own;
  }

  get gpuBuffer() {
    return this.driver.buffers.get(this.number);
  }

  retain() {
    this.#users += 1;
  }

  release() {
    this.#users -= 1;
    if (this.#users === 0 && this.own) {
      this.driver.buffers.discard(this.number);
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
