// The pages of sequences, and the choice of tokens, by language.wasm.

import { DataError } from './errors.mjs';

/**
 * The functions of language.wasm; addresses and sizes are in bytes.
 * @typedef {object} Exports
 * @property {WebAssembly.Memory} memory
 * @property {{ value: number }} __heap_base
 * @property {(count: number, sequences: number, blocks: number) => number} pages_bytes
 * @property {(...values: number[]) => void} pages_open
 * @property {() => number} pages_begin
 * @property {(sequence: number, more: number) => number} pages_reserve
 * @property {(sequence: number, more: number) => void} pages_append
 * @property {(sequence: number, length: number) => void} pages_cut
 * @property {(sequence: number) => void} pages_fail
 * @property {(sequence: number) => void} pages_end
 * @property {(sequence: number) => number} pages_length
 * @property {(sequence: number) => number} pages_first
 * @property {(sequence: number) => number} pages_row
 * @property {(pageBytes: number, build: number, count: number) => void} saved_of
 * @property {(sequence: number, tokens: number, count: number, note: number, noteBytes: number, head: number) => number} saved_head
 * @property {(sum: bigint, bytes: number, count: number) => bigint} saved_sum
 * @property {(words: number, head: number, there: number, bytes: number, found: number) => number} saved_look
 * @property {(sequence: number) => number} saved_hold
 * @property {(words: number) => number} sample_bytes
 * @property {(...values: number[]) => number} sample
 */

/** Sequences that may be there at once: those that go on, and those that are remembered. */
export const SEQUENCES = 4;

/** Pages of sequences, and the choice of tokens, in the memory of language.wasm. */
export class Chooser {
  #own;
  #words;
  #at;
  #end;

  /**
   * @param {Exports} own
   * @param {import('./messages.mjs').Task} task
   * @param {number} count pages
   */
  constructor(own, { words, context, page, window, whole }, count) {
    this.#own = own;
    this.#words = words;
    this.count = count;
    const blocks = Math.ceil(context / page);
    const sizes = {
      pages: own.pages_bytes(count, SEQUENCES, blocks),
      settings: 80,
      random: 8,
      choice: 8,
      biases: 8 * words,
      scores: 4 * words,
      earlier: 4 * context,
      workspace: own.sample_bytes(words),
    };
    let place = own.__heap_base.value;
    this.#at = /** @type {Record<keyof typeof sizes, number>} */ ({});
    for (const [name, bytes] of Object.entries(sizes)) {
      place = (place + 15) & ~15;
      this.#at[/** @type {keyof typeof sizes} */ (name)] = place;
      place += bytes;
    }
    this.#end = place;
    this.scratch(0);
    own.pages_open(count, SEQUENCES, blocks, page, window ?? 0, Number(whole), this.#at.pages);
  }

  /** The address of so many bytes, until they are asked for again. */
  scratch(/** @type {number} */ bytes) {
    const place = (this.#end + 15) & ~15;
    const missing = place + bytes - this.#own.memory.buffer.byteLength;
    if (missing > 0) {
      this.#own.memory.grow(Math.ceil(missing / (1 << 16)));
    }
    return place;
  }

  /** The pages of a sequence, as many as `tokens` need; those that are gone are 0. */
  row(/** @type {number} */ sequence, /** @type {number} */ blocks) {
    const row = new BigInt64Array(this.#own.memory.buffer, this.#own.pages_row(sequence), blocks).slice();
    return row.map((page) => (page < 0n ? 0n : page));
  }

  /**
   * The next token, and the logarithm of its probability.
   * @param {Float32Array} scores
   * @param {readonly number[]} earlier tokens
   * @param {{ numbers: number[], biases: [number, number][], random: bigint }} state whose random numbers go on
   */
  choose(scores, earlier, state) {
    const at = this.#at;
    const { buffer } = this.#own.memory;
    new Float64Array(buffer, at.settings, 10).set([...state.numbers, state.biases.length]);
    const view = new DataView(buffer);
    state.biases.forEach(([token, value], index) => {
      view.setInt32(at.biases + 8 * index, token, true);
      view.setFloat32(at.biases + 8 * index + 4, value, true);
    });
    view.setBigUint64(at.random, state.random, true);
    new Float32Array(buffer, at.scores, this.#words).set(scores);
    new Int32Array(buffer, at.earlier, earlier.length).set(earlier);
    const places = [at.earlier, earlier.length, at.random, at.workspace, at.choice];
    if (this.#own.sample(at.settings, at.biases, at.scores, this.#words, ...places) !== 0) {
      throw new DataError('no token is possible: the model gave scores that are no numbers, or all were ruled out');
    }
    state.random = view.getBigUint64(at.random, true);
    return { token: view.getInt32(at.choice, true), logprob: view.getFloat32(at.choice + 4, true) };
  }
}
