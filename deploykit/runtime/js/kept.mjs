// Outputs that stay where the model runs, so that later runs can take them as inputs without a copy.

import { UsageError } from './errors.mjs';

/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./module.mjs').Tensor} Tensor */

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
   * The buffer of the GPU that has its elements at the beginning, and may be larger; null where it is not `onDevice`. Once
   * the tensor is freed, other values may get the buffer.
   */
  get gpuBuffer() {
    return this.tensor.held?.gpuBuffer ?? null;
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

  /** For `using`: release its memory at the end of the block. */
  [Symbol.dispose]() {
    this.free();
  }

  /** The tensor as an input. */
  get tensor() {
    if (!this.#tensor) {
      throw new UsageError('this tensor was freed: keep the output of another run');
    }
    return this.#tensor;
  }
}
