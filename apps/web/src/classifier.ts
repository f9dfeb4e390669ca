// Loads the model from the package that deploykit built into digits/, and runs it on one picture at a time.

import { load, type LoadOptions, type Model } from '../digits/index.mjs';
import { SIZE } from './raster';

export interface Reading {
  /** The probability of each digit. */
  readonly probabilities: Float32Array;
  readonly milliseconds: number;
}

export class Classifier {
  readonly #model: Model;
  /** Milliseconds from the start of loading to the end of the first run. */
  readonly loading: number;

  private constructor(model: Model, loading: number) {
    this.#model = model;
    this.loading = loading;
  }

  /**
   * Load the model for a device: `auto`, or one that the package knows. Rejects with the package's errors.
   * The model is too small for several threads.
   */
  static async load(device: string, signal: AbortSignal, onProgress: (part: number) => void): Promise<Classifier> {
    const start = performance.now();
    const model = await load({
      device: device as NonNullable<LoadOptions['device']>,
      threads: 1,
      signal,
      onProgress: ({ phase, loaded, total }) => {
        if (phase === 'load') onProgress(loaded / total);
      },
    });
    await model.run({ picture: new Float32Array(SIZE * SIZE) });
    signal.throwIfAborted();
    return new Classifier(model, performance.now() - start);
  }

  /** The device that the model runs on. */
  get device(): string {
    return this.#model.device;
  }

  /** Why the model runs there. */
  get reason(): string {
    return this.#model.deviceReason;
  }

  /** Resolves when the device is final. */
  get chosen(): Promise<unknown> {
    return this.#model.chosen;
  }

  /** Bytes that a run needs. */
  get memory(): { weights: number; arena: number; total: number } {
    return this.#model.memory({ batch: 1 });
  }

  async read(picture: Float32Array): Promise<Reading> {
    const start = performance.now();
    const { probability } = await this.#model.run({ picture });
    return { probabilities: probability.data, milliseconds: performance.now() - start };
  }

  dispose(): void {
    this.#model.dispose();
  }
}
