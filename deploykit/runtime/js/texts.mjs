// Models of texts: texts in, answers out. `texts` lets a model take texts, by a tokenizer in a module of its own.

import { answering, Call } from './answering.mjs';
import { DataError, IntegrityError, ShapeError, UsageError } from './errors.mjs';
import { fetchFile } from './files.mjs';
import { labelled, scoresOf } from './labels.mjs';
import { fetchManifest, MANIFEST, storeOf } from './opening.mjs';
import { publicOf, Tokenizer } from './tokenizer.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./model.mjs').Manifest} Manifest */
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

/** @typedef {import('./tokenizer.mjs').Tokens} Tokens */
/** @typedef {import('./labels.mjs').Label} Label */
/** @typedef {string | readonly string[]} Given */
/** @typedef {import('./answering.mjs').CallOptions & { truncate?: boolean } | undefined} Options */
/** @typedef {Label & { start: number, end: number, text: string }} Span */

const MODULE = 'text.wasm';
/** A run has about this many tokens at most, so that memory does not grow with the number of texts. */
const MOST_TOKENS = 1 << 14;
/** Milliseconds that a run of several texts takes on each device: WebAssembly keeps the page waiting. */
const TIMES = { wasm: 30, webgpu: 250 };
/** Tokens of the first run on each device. */
const FIRST = { wasm: 64, webgpu: 1 << 11 };
/** The most tokens of an answer to a question. */
const LONGEST_ANSWER = 30;

/** A function that loads a model of texts, from one that loads a ragged model. */
export const texts = answering(fetchTokenizer, methodsOf, (inputs, { tokenizer, task }, sample) => {
  const { question, context } = Object(sample);
  const encoded =
    task.kind === 'answer'
      ? [tokenizer.encode(question, context, task.most_tokens ?? 0)]
      : listOf(sample).map((text) => tokenizer.encode(text, null, task.most_tokens ?? 0));
  return inputsOf({ inputs }, task, encoded);
});

/**
 * The task of a model, and its tokenizer.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 */
export async function fetchTokenizer(locate, options) {
  const { task, files } = await fetchFiles(locate, options, [MODULE]);
  const [code, tables] = files;
  const { instance } = await WebAssembly.instantiate(code);
  return { task, tokenizer: new Tokenizer(/** @type {any} */ (instance.exports), tables) };
}

/**
 * The task of a model, the files of these names, and those that the task names.
 * @param {Locate} locate
 * @param {LoadOptions | undefined} options
 * @param {readonly string[]} names
 */
export async function fetchFiles(locate, options, names) {
  const manifest = /** @type {Manifest & { task: Task }} */ (await fetchManifest(locate, options));
  const { files, task } = manifest;
  const given = options ?? {};
  const store = storeOf(locate, manifest, given).catch(() => null);
  const transfer = { signal: given.signal, store, source: given, onBytes: () => {} };
  const get = async (/** @type {string} */ name) => {
    const entry = files.find((file) => file.name === name);
    if (!entry) {
      throw new IntegrityError(`${locate(MANIFEST)} does not list ${name}: build the model again`);
    }
    return fetchFile(locate(name), entry, transfer);
  };
  return { task, files: await Promise.all([...names, ...task.files].map(get)) };
}

/**
 * The methods of a model with this task.
 * @param {Model} model
 * @param {{ tokenizer: Tokenizer, task: Task }} fetched
 */
function methodsOf(model, { tokenizer, task }) {
  const { kind, outputs, labels } = task;
  const most = task.most_tokens ?? 0;
  /**
   * The tokens of a text, or of a pair; they are cut, or too many are refused.
   * @param {Options} options
   * @param {string} what the text is
   * @param {string} text
   * @param {string | null} [pair]
   */
  const tokensOf = (options, what, text, pair = null) => {
    const truncate = options?.truncate ?? true;
    const tokens = tokenizer.encode(text, pair, truncate ? most : 0);
    if (most > 0 && tokens.ids.length > most) {
      const found = `${what} has ${tokens.ids.length} tokens, and the model takes ${most}`;
      throw new DataError(`${found}: shorten it, or let it be cut off with truncate: true`);
    }
    return tokens;
  };
  const batches = new Batches();
  /**
   * What `read` makes of the results for each text.
   * @template T
   * @param {Given} given
   * @param {Options} options
   * @param {(results: any, index: number, tokens: Tokens, text: string) => T} read
   * @param {(tokens: Tokens) => void} [check] before anything runs
   * @param {readonly string[]} [more] names of options
   * @returns {Promise<T | T[]>}
   */
  const each = async (given, options, read, check = () => {}, more = []) => {
    const all = listOf(given);
    const call = new Call(kind, options, ['truncate', ...more], all.length);
    /** @type {Tokens[]} */
    const encoded = [];
    for (const text of all) {
      await call.rest();
      encoded.push(tokensOf(options, `text ${encoded.length}`, text));
    }
    encoded.forEach(check);
    /** @type {T[]} */
    const found = [];
    while (found.length < all.length) {
      await call.rest();
      const part = task.alone ? [encoded[found.length]] : batches.take(encoded, found.length, model.device);
      const start = performance.now();
      const results = await model.run(inputsOf(model, task, part), { signal: call.signal });
      part.forEach((tokens, index) => found.push(read(results, index, tokens, all[found.length])));
      batches.note(part, performance.now() - start, model.device);
      call.advance(part.length);
    }
    return typeof given === 'string' ? found[0] : found;
  };
  const methods = {
    embed: (/** @type {Given} */ given, /** @type {Options} */ options) =>
      each(given, options, (results, index) => rowOf(results[outputs[0]], index)),
    classify: (/** @type {Given} */ given, /** @type {Options} */ options) =>
      each(given, options, (results, index) => labelled(rowOf(results[outputs[0]], index), labels, task.scores)),
    tokens: (/** @type {Given} */ given, /** @type {Options} */ options) =>
      each(given, options, (results, index, tokens, text) => {
        const logits = tokenRows(results[outputs[0]], index, tokens.ids.keys());
        const places = unitsOf(text);
        const spans = logits.map((row, token) => {
          const scores = scoresOf(row, 'softmax');
          const best = scores.indexOf(Math.max(...scores));
          return spanOf(text, places, tokens, token, token, labels[best], scores[best]);
        });
        return spans.filter((_, token) => !tokens.special[token]);
      }),
    fill: async (/** @type {Given} */ given, /** @type {Options & { count?: number }} */ options) => {
      const { count = 5 } = options ?? {};
      if (!(Number.isInteger(count) && count > 0)) {
        throw new UsageError(`count must be a whole number of at least 1; found ${count}`);
      }
      return each(
        given,
        options,
        (results, index, { ids }) => {
          const masks = Array.from(ids.keys()).filter((token) => ids[token] === task.mask_id);
          return tokenRows(results[outputs[0]], index, masks).map((row) => bestTokens(row, count, tokenizer));
        },
        ({ ids }) => requireMask(ids, task),
        ['count'],
      );
    },
    answer: async (/** @type {string} */ question, /** @type {string} */ context, /** @type {Options} */ options) => {
      listOf([question, context]);
      const call = new Call(kind, options, ['truncate'], 1);
      await call.rest();
      const tokens = tokensOf(options, 'the question with the context', question, context);
      const results = await model.run(inputsOf(model, task, [tokens]), { signal: call.signal });
      call.advance(1);
      const ends = outputs.map((name) => tokenRows(/** @type {any} */ (results)[name], 0, tokens.ids.keys()));
      const [start, end] = ends.map((rows) => scoresOf(Float32Array.from(rows, (row) => row[0]), 'softmax'));
      const [first, last] = bestSpan(start, end, tokens.texts);
      return spanOf(context, unitsOf(context), tokens, first, last, 'answer', start[first] * end[last]);
    },
  };
  const own = kind in methods ? { [kind]: methods[/** @type {keyof typeof methods} */ (kind)] } : {};
  return { ...own, tokenizer: publicOf(tokenizer, task.most_tokens), mostTokens: task.most_tokens };
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
  return order.slice(0, count).map((id) => ({ label: tokenizer.decode([id], false), score: scores[id] }));
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
 * @param {{ inputs: readonly import('./module.mjs').Port[] }} model
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

/** How many texts a run takes: as many as take about `TIMES`, going by the runs before. */
class Batches {
  #most = { ...FIRST };

  /**
   * The texts of the next run: at least one.
   * @param {readonly Tokens[]} all
   * @param {number} from
   * @param {import('./model.mjs').Device} device
   */
  take(all, from, device) {
    let end = from;
    let count = 0;
    do {
      count += all[end].ids.length;
      end += 1;
    } while (end < all.length && count + all[end].ids.length <= this.#most[device]);
    return all.slice(from, end);
  }

  /**
   * @param {readonly Tokens[]} part
   * @param {number} ms that its run took
   * @param {import('./model.mjs').Device} device
   */
  note(part, ms, device) {
    const count = part.reduce((sum, { ids }) => sum + ids.length, 0);
    const fitting = (count * TIMES[device]) / Math.max(ms, 0.1);
    // One slow run, such as the first one, or a quick one says little.
    this.#most[device] = Math.min(Math.max(fitting, count / 4), 4 * count, MOST_TOKENS);
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
