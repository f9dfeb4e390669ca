// Items of the states of a model, such as pages: parts of their first axes, in the memory of WebAssembly or on a GPU.

import { ALIGNMENT } from './memory.mjs';

/** @typedef {{ offset: number, bytes: number }} Place */

/** The number of the buffer of states. */
export const STATES = 2;
/** The most bytes that a GPU copies for the page at once. */
const AT_ONCE = 1 << 24;

/** The bytes in front of the states in memory: the sizes that they were made for. */
export function headerBytes(/** @type {number} */ dims) {
  return Math.ceil((8 * (1 + dims)) / ALIGNMENT) * ALIGNMENT;
}

export class States {
  #module;
  #first;
  /** @type {Place[]} */
  #items = [];

  /**
   * @param {import('./module.mjs').ModelModule} module
   * @param {number} first where they begin in its memory
   * @param {readonly { count: number, bytes: number }[]} sizes of each state: how many items it has, and their bytes
   */
  constructor(module, first, sizes) {
    this.#module = module;
    this.#first = first;
    const alignment = module.driver?.buffers.alignment ?? ALIGNMENT;
    let offset = 0;
    for (const { count, bytes } of sizes) {
      this.#items.push({ offset, bytes });
      offset += Math.ceil((count * bytes) / alignment) * alignment;
    }
  }

  /** The bytes of an item of each state, for all together. */
  get bytes() {
    return this.#items.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Copy items to `target`: of each in turn, that of each state.
   * @param {readonly number[]} items
   * @param {Uint8Array} target
   */
  async read(items, target) {
    const { memory, driver } = this.#module;
    const most = Math.max(1, Math.floor(AT_ONCE / this.bytes));
    let place = 0;
    for (let at = 0; at < items.length; at += most) {
      const places = this.#places(items.slice(at, at + most));
      const parts = driver
        ? [await driver.gathered(STATES, places)]
        : places.map(({ offset, bytes }) => new Uint8Array(memory.buffer, this.#first + offset, bytes));
      for (const part of parts) {
        target.set(part, place);
        place += part.length;
      }
    }
  }

  /**
   * Copy items from `source`, where they are as `read` leaves them.
   * @param {readonly number[]} items
   * @param {Uint8Array<ArrayBuffer>} source
   */
  write(items, source) {
    const { memory, driver } = this.#module;
    let place = 0;
    for (const { offset, bytes } of this.#places(items)) {
      if (driver) {
        driver.device.queue.writeBuffer(driver.buffers.get(STATES), offset, source, place, bytes);
      } else {
        new Uint8Array(memory.buffer, this.#first + offset, bytes).set(source.subarray(place, place + bytes));
      }
      place += bytes;
    }
  }

  /** @param {readonly number[]} items */
  #places(items) {
    return items.flatMap((item) => this.#items.map(({ offset, bytes }) => ({ offset: offset + item * bytes, bytes })));
  }
}
