// The model: loaded from the package that deploykit built into public/digits, run on one picture at a time.

import type { LoadOptions, Model } from '../public/digits/index.mjs';
import { SIZE } from './raster';

type Package = typeof import('../public/digits/index.mjs');

export interface Reading {
  /** The probability of each digit. */
  readonly probabilities: Float32Array;
  readonly milliseconds: number;
}

/** Where the package is: files of it find each other by their addresses, so it is not bundled. */
const PACKAGE = new URL('digits/', document.baseURI);

export class Classifier {
  readonly #model: Model;
  /** Milliseconds until the first run was done. */
  readonly loading: number;

  private constructor(model: Model, loading: number) {
    this.#model = model;
    this.loading = loading;
  }

  /**
   * Load the model for a device: `auto`, or one that the package knows. Rejects with the package's errors.
   * The service worker keeps the files, so the package need not.
   */
  static async load(device: string, signal: AbortSignal, onProgress: (part: number) => void): Promise<Classifier> {
    const start = performance.now();
    const { load } = (await import(/* @vite-ignore */ new URL('index.mjs', PACKAGE).href)) as Package;
    const model = await load({
      device: device as NonNullable<LoadOptions['device']>,
      cache: false,
      signal,
      onProgress: ({ loaded, total }) => onProgress(loaded / total),
    });
    await model.run({ picture: new Float32Array(SIZE * SIZE) });
    signal.throwIfAborted();
    return new Classifier(model, performance.now() - start);
  }

  /** What the model runs on. */
  get device(): string {
    return this.#model.device;
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
