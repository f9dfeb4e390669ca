// Remembers in Cache Storage what `auto` chose: for one build of a model, and for the GPU that was tried.

import { openCache } from './files.mjs';

/** @typedef {{ device: import('./model.mjs').Device, reason: string, adapter: string }} Known */

export class Memory {
  #cache;
  #key;

  /**
   * @param {boolean} kept whether anything is remembered
   * @param {import('./model.mjs').Manifest} manifest
   * @param {URL} home where the manifest is
   * @param {unknown} given what else may change the choice
   */
  constructor(kept, { files }, home, given) {
    this.#cache = kept ? openCache() : null;
    const code = files.filter(({ name }) => /\.(wasm|wgsl)$/.test(name)).map(({ sha256 }) => sha256.slice(0, 16));
    this.#key = `${home.origin}${home.pathname}?device=${encodeURIComponent(JSON.stringify([code, given]))}`;
  }

  /** @returns {Promise<Known | undefined>} */
  async recall() {
    return (await (await this.#cache)?.match(this.#key))?.json();
  }

  /** @param {Known} known */
  async keep(known) {
    await (await this.#cache)?.put(this.#key, new Response(JSON.stringify(known))).catch(() => {});
  }

  async forget() {
    await (await this.#cache)?.delete(this.#key);
  }
}
