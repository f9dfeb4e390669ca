// Models of texts: texts in, answers out. `texts` lets a model take texts, by a tokenizer in a module of its own.

import { answering } from './answering.mjs';
import { DataError, IntegrityError, MemoryError, ShapeError, UsageError } from './errors.mjs';
import { fetchFile, fetchJson } from './files.mjs';
import { labelled, scoresOf } from './labels.mjs';
import { MANIFEST } from './opening.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./files.mjs').FileEntry} FileEntry */

/**
 * @typedef {object} Task
 * @property {'embed' | 'classify' | 'tokens' | 'answer' | 'fill'} kind
 * @property {string} ids
 * @property {string | null} types
 * @property {string[]} outputs
 * @property {string[]} labels
 * @property {'softmax' | 'sigmoid' | 'as_is'} scores
 * @property {number | null} most_tokens
 * @property {boolean} alone
 * @property {string} mask
 * @property {number} mask_id
 * @property {string[]} files
 */

/** @typedef {{ ids: Int32Array, types: Int32Array, chars: Int32Array, texts: Int8Array, special: Uint8Array }} Tokens */
/** @typedef {import('./labels.mjs').Label} Label */
/** @typedef {Label & { start: number, end: number, text: string }} Span */

/**
 * The functions of the module; addresses and sizes are in bytes.
 * @typedef {object} Exports
 * @property {WebAssembly.Memory} memory
 * @property {{ value: number }} __heap_base
 * @property {(tables: number, bytes: number) => number} open
 * @property {(bytes: number) => number} workspace
 * @property {(...values: number[]) => number} encode
 * @property {(id: number, out: number, capacity: number) => number} decode of models that fill masks
 * @property {() => number} count
 * @property {() => number} error
 */

const MODULE = 'text.wasm';
const OK = 0;
const CAPACITY = 5;
/** Bytes of the arrays for a token. */
const TOKEN = 4 * 4 + 2;
/** A run has about this many tokens, so that memory does not grow with the number of texts. */
const TOKENS_AT_ONCE = 1 << 14;
/** The most tokens of an answer to a question. */
const LONGEST_ANSWER = 30;

/** A function that loads a model of texts, from one that loads a ragged model. */
export const texts = answering(fetchTokenizer, methodsOf);

/**
 * The task of a model, and its tokenizer.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 */
export async function fetchTokenizer(locate, { signal, cache = true } = {}) {
  /** @type {{ files: FileEntry[], task: Task }} */
  const { files, task } = await fetchJson(locate(MANIFEST), signal);
  const transfer = { signal, cache, onBytes: () => {} };
  const get = async (/** @type {string} */ name) => {
    const entry = files.find((file) => file.name === name);
    if (!entry) {
      throw new IntegrityError(`${locate(MANIFEST)} does not list ${name}: build the model again`);
    }
    return fetchFile(locate(name), entry, transfer);
  };
  const [code, tables] = await Promise.all([get(MODULE), get(task.files[0])]);
  const { instance } = await WebAssembly.instantiate(code);
  return { task, tokenizer: new Tokenizer(/** @type {any} */ (instance.exports), tables) };
}

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
   * @returns {Tokens}
   */
  encode(first, second, most) {
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
      const rest = [most, workspaceAt, scratch, arraysAt, this.#capacity];
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

  /** The text of a token. */
  decode(/** @type {number} */ id) {
    for (let capacity = 64; ; capacity *= 2) {
      this.#room(this.#place + capacity);
      const bytes = this.#module.decode(id, this.#place, capacity);
      if (bytes <= capacity) {
        return new TextDecoder().decode(new Uint8Array(this.#module.memory.buffer, this.#place, bytes).slice());
      }
    }
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
 * The methods of a model with this task.
 * @param {Model} model
 * @param {{ tokenizer: Tokenizer, task: Task }} fetched
 */
function methodsOf(model, { tokenizer, task }) {
  const tokensOf = (/** @type {string} */ text, /** @type {string | null} */ pair = null) =>
    tokenizer.encode(text, pair, task.most_tokens ?? 0);
  const { kind, outputs, labels } = task;
  /**
   * What `read` makes of the results for each text.
   * @template T
   * @param {string | readonly string[]} given
   * @param {(results: any, index: number, tokens: Tokens, text: string) => T} read
   * @param {(tokens: Tokens) => void} [check] before anything runs
   * @returns {Promise<T[]>}
   */
  const each = async (given, read, check = () => {}) => {
    const all = listOf(given);
    const encoded = all.map((text) => tokensOf(text));
    encoded.forEach(check);
    /** @type {T[]} */
    const found = [];
    for (const part of partsOf(encoded, task.alone)) {
      const results = await model.run(inputsOf(model, task, part));
      part.forEach((tokens, index) => found.push(read(results, index, tokens, all[found.length])));
    }
    return found;
  };
  const single = (/** @type {string | readonly string[]} */ given, /** @type {unknown[]} */ found) =>
    typeof given === 'string' ? found[0] : found;
  const methods = {
    embed: async (/** @type {string | readonly string[]} */ given) =>
      single(given, await each(given, (results, index) => rowOf(results[outputs[0]], index))),
    classify: async (/** @type {string | readonly string[]} */ given) =>
      single(
        given,
        await each(given, (results, index) => labelled(rowOf(results[outputs[0]], index), labels, task.scores)),
      ),
    tokens: async (/** @type {string | readonly string[]} */ given) =>
      single(
        given,
        await each(given, (results, index, tokens, text) => {
          const logits = tokenRows(results[outputs[0]], index, tokens.ids.keys());
          const places = unitsOf(text);
          const spans = logits.map((row, token) => {
            const scores = scoresOf(row, 'softmax');
            const best = scores.indexOf(Math.max(...scores));
            return spanOf(text, places, tokens, token, token, labels[best], scores[best]);
          });
          return spans.filter((_, token) => !tokens.special[token]);
        }),
      ),
    fill: async (/** @type {string | readonly string[]} */ given, /** @type {{ count?: number }} */ { count = 5 } = {}) => {
      if (!(Number.isInteger(count) && count > 0)) {
        throw new UsageError(`count must be a whole number of at least 1; found ${count}`);
      }
      return single(
        given,
        await each(
          given,
          (results, index, { ids }) => {
            const masks = Array.from(ids.keys()).filter((token) => ids[token] === task.mask_id);
            return tokenRows(results[outputs[0]], index, masks).map((row) => bestTokens(row, count, tokenizer));
          },
          ({ ids }) => requireMask(ids, task),
        ),
      );
    },
    answer: async (/** @type {string} */ question, /** @type {string} */ context) => {
      const tokens = tokensOf(question, context);
      const results = await model.run(inputsOf(model, task, [tokens]));
      const ends = outputs.map((name) => tokenRows(/** @type {any} */ (results)[name], 0, tokens.ids.keys()));
      const [start, end] = ends.map((rows) => scoresOf(Float32Array.from(rows, (row) => row[0]), 'softmax'));
      const [first, last] = bestSpan(start, end, tokens.texts);
      return spanOf(context, unitsOf(context), tokens, first, last, 'answer', start[first] * end[last]);
    },
  };
  return kind in methods ? { [kind]: methods[/** @type {keyof typeof methods} */ (kind)] } : {};
}

/**
 * The most probable tokens, the best first.
 * @param {Float32Array} logits
 * @param {number} count
 * @param {Tokenizer} tokenizer
 * @returns {Label[]}
 */
function bestTokens(logits, count, tokenizer) {
  const scores = scoresOf(logits, 'softmax');
  const order = Array.from(scores, (_, id) => id).sort((a, b) => scores[b] - scores[a]);
  return order.slice(0, count).map((id) => ({ label: tokenizer.decode(id), score: scores[id] }));
}

/**
 * @param {Int32Array} ids
 * @param {Task} task
 */
function requireMask(ids, { mask, mask_id }) {
  if (!ids.includes(mask_id)) {
    throw new DataError(`the text has no ${mask}, or it is cut off before it: ${mask} stands for what is to be filled in`);
  }
}

/**
 * The most probable span of the context.
 * @param {Float32Array} start
 * @param {Float32Array} end
 * @param {Int8Array} texts
 */
function bestSpan(start, end, texts) {
  let best = [-1, -1];
  let score = -1;
  for (let first = 0; first < start.length; first += 1) {
    for (let last = first; texts[last] === 1 && last - first < LONGEST_ANSWER && texts[first] === 1; last += 1) {
      if (start[first] * end[last] > score) {
        [best, score] = [[first, last], start[first] * end[last]];
      }
    }
  }
  if (score < 0) {
    throw new DataError('the question leaves no room for the context: it has too many tokens');
  }
  return best;
}

/**
 * @param {string} text
 * @param {number[]} places
 * @param {Tokens} tokens
 * @param {number} first
 * @param {number} last
 * @param {string} label
 * @param {number} score
 * @returns {Span}
 */
function spanOf(text, places, { chars }, first, last, label, score) {
  const [start, end] = [places[chars[2 * first]], places[chars[2 * last + 1]]];
  return { label, score, start, end, text: text.slice(start, end) };
}

/** Where each character of a text begins in units of UTF-16, and its length. */
function unitsOf(/** @type {string} */ text) {
  const places = [0];
  for (const character of text) {
    places.push(places[places.length - 1] + character.length);
  }
  return places;
}

/**
 * @param {Model} model
 * @param {Task} task
 * @param {readonly Tokens[]} part
 */
function inputsOf({ inputs }, { ids, types }, part) {
  const ragged = inputs.some(({ name, instance }) => name === ids && instance);
  const longest = Math.max(...part.map((tokens) => tokens.ids.length));
  const rows = (/** @type {(tokens: Tokens) => Int32Array} */ of) => {
    const lists = part.map((tokens) => BigInt64Array.from(of(tokens), BigInt));
    if (ragged) {
      return lists;
    }
    const data = new BigInt64Array(part.length * longest);
    lists.forEach((list, row) => data.set(list, row * longest));
    return { data, shape: [part.length, longest] };
  };
  const given = { [ids]: rows((tokens) => tokens.ids) };
  if (types !== null) {
    given[types] = rows((tokens) => tokens.types);
  }
  const mask = ragged ? undefined : inputs.find(({ name }) => name !== ids && name !== types);
  if (mask) {
    given[mask.name] = rows((tokens) => new Int32Array(tokens.ids.length).fill(1));
  }
  return /** @type {any} */ (given);
}

/**
 * Parts of about `TOKENS_AT_ONCE` tokens, in order; with `alone`, of one text.
 * @param {readonly Tokens[]} all
 * @param {boolean} alone
 */
function* partsOf(all, alone) {
  /** @type {Tokens[]} */
  let part = [];
  let count = 0;
  for (const tokens of all) {
    if (part.length > 0 && (alone || count + tokens.ids.length > TOKENS_AT_ONCE)) {
      yield part;
      [part, count] = [[], 0];
    }
    part.push(tokens);
    count += tokens.ids.length;
  }
  if (part.length > 0) {
    yield part;
  }
}

/** The texts that were given. */
function listOf(/** @type {string | readonly string[]} */ given) {
  const all = typeof given === 'string' ? [given] : given;
  if (!Array.isArray(all) || all.some((text) => typeof text !== 'string')) {
    throw new ShapeError('texts must be a string or a list of strings');
  }
  return all;
}

/** @typedef {{ data: Float32Array, shape: readonly number[] }} Dense */

/** Element `index` of the first axis, as a view. */
function rowsOf(/** @type {Dense} */ { data, shape }, /** @type {number} */ index) {
  const size = data.length / shape[0];
  return { data: data.subarray(index * size, (index + 1) * size), shape: shape.slice(1) };
}

/** Row `index` of a matrix, with its own memory. */
function rowOf(/** @type {Dense} */ matrix, /** @type {number} */ index) {
  return rowsOf(matrix, index).data.slice();
}

/**
 * The rows of these tokens of one text. A row is a number where the output has none for each token.
 * @param {any} output
 * @param {number} index
 * @param {Iterable<number>} tokens
 * @returns {Float32Array[]}
 */
function tokenRows(output, index, tokens) {
  const { data, shape } = output.instance ? output.instance(index) : rowsOf(output, index);
  const width = shape[1] ?? 1;
  return Array.from(tokens, (row) => data.slice(row * width, (row + 1) * width));
}

/** The next multiple of 16. */
function aligned(/** @type {number} */ place) {
  return (place + 15) & ~15;
}
