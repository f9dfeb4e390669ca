// The tokenizer of a model: a module of its own (text.wasm) with tables.

import { DataError, IntegrityError, MemoryError, UsageError } from './errors.mjs';
import { checkOptions } from './inputs.mjs';

/** @typedef {{ ids: Int32Array, types: Int32Array, chars: Int32Array, texts: Int8Array, special: Uint8Array }} Tokens */
/**
 * The functions of the module; addresses and sizes are in bytes.
 * @typedef {object} Exports
 * @property {WebAssembly.Memory} memory
 * @property {{ value: number }} __heap_base
 * @property {(tables: number, bytes: number) => number} open
 * @property {(bytes: number) => number} workspace
 * @property {(...values: number[]) => number} encode
 * @property {(ids: number, count: number, skip: number, out: number, capacity: number) => number} decode
 * @property {() => number} stream_bytes
 * @property {(stream: number, ids: number, count: number, end: number, out: number, room: number) => number} decode_next
 * @property {() => number} count
 * @property {() => number} error
 */

const OK = 0;
const CAPACITY = 5;
/** Bytes of the arrays for a token. */
const TOKEN = 4 * 4 + 2;

/** Encodes texts. The memory of the module holds the tables, then what one call needs. */
export class Tokenizer {
  #module;
  #place;
  #encoder = new TextEncoder();
  #capacity = 256;

  /**
   * @param {Exports} module
   * @param {Uint8Array} tables
   */
  constructor(module, tables) {
    this.#module = module;
    const start = aligned(module.__heap_base.value);
    this.#place = aligned(start + tables.length);
    this.#room(this.#place);
    new Uint8Array(module.memory.buffer).set(tables, start);
    if (module.open(start, tables.length) !== OK) {
      throw new IntegrityError(this.#error());
    }
  }

  /**
   * The tokens of a text, or of a pair of texts of which the second is cut.
   * @param {string} first
   * @param {string | null} second
   * @param {number} most tokens; 0 for no limit
   * @param {boolean} [bare] whether special tokens are left out
   * @returns {Tokens}
   */
  encode(first, second, most, bare = false) {
    const [a, b] = [this.#encoder.encode(first), this.#encoder.encode(second ?? '')];
    const scratch = this.#module.workspace(a.length + b.length);
    for (;;) {
      const [firstAt, secondAt] = [this.#place, this.#place + a.length];
      const workspaceAt = aligned(secondAt + b.length);
      const arraysAt = aligned(workspaceAt + scratch);
      this.#room(arraysAt + TOKEN * this.#capacity);
      const bytes = new Uint8Array(this.#module.memory.buffer);
      bytes.set(a, firstAt);
      bytes.set(b, secondAt);
      const pair = second === null ? [0, 0] : [secondAt, b.length];
      const rest = [most, Number(bare), workspaceAt, scratch, arraysAt, this.#capacity];
      const status = this.#module.encode(firstAt, a.length, ...pair, ...rest);
      if (status === OK) {
        return this.#tokens(arraysAt);
      }
      if (status !== CAPACITY) {
        throw new DataError(this.#error());
      }
      this.#capacity = this.#module.count();
    }
  }

  /**
   * The text of tokens.
   * @param {ArrayLike<number>} ids
   * @param {boolean} skipSpecial
   */
  decode(ids, skipSpecial) {
    const out = this.#place + 4 * ids.length;
    for (let capacity = 16 * ids.length + 64; ; capacity *= 2) {
      this.#room(out + capacity);
      const { buffer } = this.#module.memory;
      new Int32Array(buffer, this.#place, ids.length).set(ids);
      const bytes = this.#module.decode(this.#place, ids.length, Number(skipSpecial), out, capacity);
      if (bytes <= capacity) {
        return new TextDecoder().decode(new Uint8Array(buffer, out, bytes).slice());
      }
    }
  }

  /**
   * A text that is decoded piece by piece: a function that takes further tokens, and whether they are the last ones.
   * @returns {(ids: readonly number[], end: boolean) => string}
   */
  stream() {
    const state = new Uint8Array(this.#module.stream_bytes());
    return (ids, end) => {
      const [at, idsAt] = [this.#place, this.#place + aligned(state.length)];
      const out = idsAt + 4 * ids.length;
      for (let capacity = 16 * ids.length + 64; ; capacity *= 2) {
        this.#room(out + capacity);
        const { buffer } = this.#module.memory;
        new Uint8Array(buffer).set(state, at);
        new Int32Array(buffer, idsAt, ids.length).set(ids);
        const bytes = this.#module.decode_next(at, idsAt, ids.length, Number(end), out, capacity);
        if (bytes <= capacity) {
          state.set(new Uint8Array(buffer, at, state.length));
          return new TextDecoder().decode(new Uint8Array(buffer, out, bytes).slice());
        }
      }
    };
  }

  /** @param {number} at */
  #tokens(at) {
    const [count, capacity, { buffer }] = [this.#module.count(), this.#capacity, this.#module.memory];
    const numbers = (/** @type {number} */ array, width = 1) =>
      new Int32Array(buffer, at + 4 * array * capacity, width * count).slice();
    const bytes = at + 16 * capacity;
    return {
      ids: numbers(0),
      types: numbers(1),
      chars: numbers(2, 2),
      texts: new Int8Array(buffer, bytes, count).slice(),
      special: new Uint8Array(buffer, bytes + capacity, count).slice(),
    };
  }

  /** Make the memory reach `end`. */
  #room(/** @type {number} */ end) {
    const { memory } = this.#module;
    const missing = end - memory.buffer.byteLength;
    if (missing > 0) {
      try {
        memory.grow(Math.ceil(missing / (1 << 16)));
      } catch (cause) {
        throw new MemoryError(`a text needs ${end} bytes of memory, more than there is: cut it`, end, { cause });
      }
    }
  }

  #error() {
    const bytes = new Uint8Array(this.#module.memory.buffer, this.#module.error(), 256);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }
}

/**
 * The tokenizer as pages use it.
 * @param {Tokenizer} tokenizer
 * @param {number | null} most tokens that the model takes
 */
export function publicOf(tokenizer, most) {
  /** @typedef {{ pair?: string, truncate?: boolean }} Options */
  const encode = (/** @type {string} */ text, /** @type {Options | undefined} */ options) => {
    const { pair = null, truncate = false } = checkOptions(options, ['pair', 'truncate'], 'encode');
    if (typeof text !== 'string' || !(pair === null || typeof pair === 'string')) {
      throw new UsageError('the tokenizer takes a string, and perhaps another one as the option pair');
    }
    return tokenizer.encode(text, pair, truncate ? (most ?? 0) : 0);
  };
  return {
    /** The tokens of a text, all of them unless `truncate` is true. */
    encode: (/** @type {string} */ text, /** @type {Options | undefined} */ options) => {
      const { ids, types, special } = encode(text, options);
      return { ids, types, special };
    },
    /** How many tokens a text has. */
    count: (/** @type {string} */ text, /** @type {Options | undefined} */ options) => encode(text, options).ids.length,
    /** The text of tokens, without special ones unless `skipSpecial` is false. */
    decode: (
      /** @type {Iterable<number | bigint>} */ ids,
      /** @type {{ skipSpecial?: boolean } | undefined} */ options,
    ) => {
      const { skipSpecial = true } = checkOptions(options, ['skipSpecial'], 'decode');
      return tokenizer.decode(Array.from(ids, Number), skipSpecial);
    },
  };
}

/** The next multiple of 16. */
function aligned(/** @type {number} */ place) {
  return (place + 15) & ~15;
}
