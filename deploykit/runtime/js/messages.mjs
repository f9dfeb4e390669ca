// Models that generate: texts or messages in, an answer out, piece by piece.

import { answering, Call } from './answering.mjs';
import { Chooser, SEQUENCES } from './chooser.mjs';
import { Conversations } from './conversations.mjs';
import { DataError, MemoryError, UsageError } from './errors.mjs';
import { Saver } from './saved.mjs';
import { SETTINGS, settingsOf, Stops } from './settings.mjs';
import { fetchFiles } from './texts.mjs';
import { publicOf, Tokenizer } from './tokenizer.mjs';

/** @typedef {import('./functions.mjs').FunctionsModel} FunctionsModel */
/** @typedef {import('./chooser.mjs').Exports} Exports */
/** @typedef {import('./conversations.mjs').Message} Message */
/** @typedef {string | readonly Message[] | readonly number[]} Given a text, messages, or tokens */
/** @typedef {{ text: string, tokens: number[], logprobs: number[] }} Piece */
/** @typedef {'stop' | 'length'} Reason */
/** @typedef {{ promptTokens: number, promptSeconds: number, tokens: number, seconds: number }} Timings */
/** @typedef {{ text: string, tokens: number[], reason: Reason, timings: Timings }} Answer */

/**
 * @typedef {object} Task
 * @property {string[]} outputs
 * @property {string[]} files
 * @property {number} context tokens of a sequence
 * @property {number} page tokens of a page
 * @property {number} words
 * @property {number | null} window
 * @property {boolean} whole
 * @property {number[]} stops tokens that end an answer
 * @property {string} program the template of conversations, in base64; empty if there is none
 * @property {string} build tells models from each other, in hexadecimal digits
 */

const MODULE = 'language.wasm';
const OPTIONS = [
  ...['tools', 'maxTokens', 'stop', 'ignoreEnd', 'overflow', 'sinks', 'seed', 'logitBias', 'onPiece'],
  ...Object.keys(SETTINGS),
];
/** Milliseconds that a step of a long prompt takes: the page waits meanwhile. */
const STEP = 50;
/** Tokens of the first step of a prompt. */
const FIRST = 8;
/** Tokens for which there are pages at first. */
const ROOM = 2048;

/** A function that loads a model that generates, from one that loads a model with states. */
export const messages = answering(fetchLanguage, methodsOf, () => {
  throw new UsageError('a model that generates takes no sample: it has no devices to choose from');
});

/**
 * The task of a model, its tokenizer, and the module that chooses tokens.
 * @param {import('./model.mjs').Locate} locate
 * @param {import('./model.mjs').LoadOptions} [options]
 */
async function fetchLanguage(locate, options) {
  const { task, files } = await fetchFiles(locate, options, ['text.wasm', MODULE]);
  const [code, language, tables] = files;
  const made = await Promise.all([code, language, language].map((bytes) => WebAssembly.instantiate(bytes)));
  const [text, own, other] = made.map(({ instance }) => /** @type {any} */ (instance.exports));
  const found = /** @type {Task} */ (/** @type {unknown} */ (task));
  const conversations = new Conversations(other, found.program);
  return { task: found, tokenizer: new Tokenizer(text, tables), own: /** @type {Exports} */ (own), conversations };
}

/** A text whose tokens the model remembers, the first ones of them. */
class Sequence {
  /** @type {number[]} */
  tokens = [];
  busy = true;

  /** @param {number} row */
  constructor(row) {
    this.row = row;
  }
}

/**
 * The methods of a model with this task.
 * @param {import('./model.mjs').Model} loaded
 * @param {{ task: Task, tokenizer: Tokenizer, own: Exports, conversations: Conversations }} fetched
 */
function methodsOf(loaded, { task, tokenizer, own, conversations }) {
  const model = /** @type {FunctionsModel} */ (/** @type {unknown} */ (loaded));
  const step = Object.values(model.functions)[0];
  const resetStates = model.reset.bind(model);
  const most = step.dims.find(({ name }) => name === 'tokens')?.maximum ?? task.context;
  const blocks = Math.ceil(task.context / task.page);
  /** @type {Promise<void> | null} while memory is made */
  let making = null;
  /** @type {Chooser | null} */
  let chooser = null;
  /** @type {Sequence[]} */
  let sequences = [];
  /** @type {Sequence | null} what was written or restored last */
  let last = null;
  let pace = 0;
  const saver = new Saver(own, model, task);

  /** Make memory for so many tokens of all sequences; what was remembered is forgotten. */
  const reset = async (/** @type {{ pages?: number }} */ { pages = Math.min(blocks, Math.ceil(ROOM / task.page)) } = {}) => {
    if (sequences.some(({ busy }) => busy)) {
      throw new UsageError('an answer is being written: end it first');
    }
    const made = resetStates({ pages }).then(() => {
      sequences = [];
      last = null;
      chooser = new Chooser(own, task, pages);
    });
    making = made;
    await made.finally(() => (making = making === made ? null : making));
  };

  /** Wait until there is memory, and none is made. */
  const ready = async () => {
    while (making || !chooser) {
      await (making ? making.catch(() => {}) : reset());
    }
  };

  /** Forget what was read first of all that nobody writes; false: there is no such sequence. */
  const forget = () => {
    const oldest = sequences.findIndex(({ busy }) => !busy);
    if (oldest >= 0) {
      own.pages_end(sequences[oldest].row);
      sequences.splice(oldest, 1);
    }
    return oldest >= 0;
  };

  /** A new sequence. */
  const opened = () => {
    const row = own.pages_begin();
    if (row < 0) {
      throw new UsageError(`${SEQUENCES} answers are being written, as many as there can be: end one first`);
    }
    const made = new Sequence(row);
    sequences.push(made);
    return made;
  };

  const full = () => {
    const tokens = (chooser?.count ?? 0) * task.page;
    return new MemoryError(`the memory for ${tokens} tokens is full: make it larger with model.reset({ pages })`, 0);
  };

  /** A sequence for these tokens, with what is remembered of them. */
  const begin = (/** @type {number[]} */ tokens) => {
    const common = (/** @type {Sequence} */ { tokens: old }) => {
      const end = tokens.findIndex((token, index) => token !== old[index]);
      return end < 0 ? tokens.length : end;
    };
    const idle = sequences.filter(({ busy }) => !busy);
    let best = idle.sort((a, b) => common(b) - common(a))[0];
    if (!best || (common(best) === 0 && sequences.length < SEQUENCES)) {
      best = opened();
    } else {
      // The last token is read again: the scores of what follows are asked for.
      own.pages_cut(best.row, Math.min(common(best), tokens.length - 1));
    }
    best.busy = true;
    best.tokens = tokens;
    last = best;
    return best;
  };

  /** Pages for further tokens; sequences that nobody writes are forgotten for them. */
  const reserve = (/** @type {Sequence} */ sequence, /** @type {number} */ count) => {
    while (!own.pages_reserve(sequence.row, count)) {
      if (!forget()) {
        throw full();
      }
    }
  };

  /** Read the next tokens of a sequence; gives the scores of what follows, if they are the last ones. */
  const read = async (/** @type {Sequence} */ sequence, /** @type {AbortSignal | undefined} */ signal) => {
    const start = own.pages_length(sequence.row);
    const left = sequence.tokens.length - start;
    const paced = model.device === 'wasm' ? Math.max(FIRST, Math.floor(pace * STEP)) : most;
    const count = Math.min(left, most, paced);
    reserve(sequence, count);
    const part = sequence.tokens.slice(start, start + count);
    const used = Math.ceil((start + count) / task.page);
    const rows = count === left ? [BigInt(count - 1)] : [];
    const whole = (/** @type {bigint[]} */ numbers) => ({ data: BigInt64Array.from(numbers), shape: [numbers.length] });
    const began = performance.now();
    const inputs = {
      tokens: whole(part.map(BigInt)),
      positions: whole(part.map((_, index) => BigInt(start + index))),
      sequences: whole(part.map(() => 0n)),
      pages: { data: /** @type {Chooser} */ (chooser).row(sequence.row, used), shape: [1, used] },
      rows: whole(rows),
    };
    const found = await step.run(inputs, { signal }).catch((error) => {
      own.pages_fail(sequence.row);
      throw error;
    });
    pace = count / (performance.now() - began);
    own.pages_append(sequence.row, count);
    return rows.length ? /** @type {Float32Array} */ (found[task.outputs[0]].data) : null;
  };

  /**
   * The pieces of an answer; it returns the whole.
   * @param {Given} given
   * @param {import('./answering.mjs').CallOptions & Record<string, any>} [options]
   * @returns {AsyncGenerator<Piece, Answer, void>}
   */
  async function* generate(given, options) {
    const call = new Call('generate', options, OPTIONS, 1);
    const asked = options ?? {};
    const sinks = sinksOf(asked, task);
    const text = textOf(given, conversations, asked.tools);
    const whole = tokensOf(text, task, tokenizer, text !== given, sinks !== null);
    const tokens = whole.length > task.context ? windowed(whole, task, sinks ?? 0) : whole;
    const state = settingsOf(asked, task.words);
    const stops = new Stops(asked.stop ?? []);
    const room = Math.min(asked.maxTokens ?? Infinity, sinks === null ? task.context - tokens.length + 1 : Infinity);
    if (!(room >= 0) || (asked.maxTokens !== undefined && !Number.isInteger(asked.maxTokens))) {
      throw new UsageError(`maxTokens must be a whole number, found ${asked.maxTokens}`);
    }
    const ends = new Set(asked.ignoreEnd ? [] : task.stops);
    const decode = tokenizer.stream();
    await ready();
    /** @type {Answer} */
    const answer = {
      text: '',
      tokens: [],
      reason: 'length',
      timings: { promptTokens: 0, promptSeconds: 0, tokens: 0, seconds: 0 },
    };
    const { timings } = answer;
    const sequence = begin(tokens);
    timings.promptTokens = tokens.length - own.pages_length(sequence.row);
    const began = performance.now();
    let first = 0;
    try {
      for (let going = room > 0; going; ) {
        let scores = null;
        while (!scores) {
          await call.rest();
          scores = await read(sequence, call.signal);
        }
        const { token, logprob } = /** @type {Chooser} */ (chooser).choose(scores, sequence.tokens, state);
        const now = performance.now();
        first ||= now;
        timings.promptSeconds = (first - began) / 1000;
        timings.seconds = (now - first) / 1000;
        timings.tokens += 1;
        const ended = ends.has(token);
        if (!ended) {
          answer.tokens.push(token);
        }
        going = !ended && answer.tokens.length < room;
        let { shown, found } = stops.add(decode(ended ? [] : [token], !going));
        if (!going && !found) {
          shown += stops.held;
        }
        answer.reason = ended || found ? 'stop' : 'length';
        going &&= !found;
        answer.text += shown;
        if (going && sinks !== null && sequence.tokens.length >= task.context) {
          sequence.tokens = windowed([...sequence.tokens, token], task, sinks);
          own.pages_cut(sequence.row, sinks);
        } else if (going) {
          sequence.tokens.push(token);
        }
        const piece = { text: shown, tokens: [token], logprobs: [logprob] };
        asked.onPiece?.(piece);
        yield piece;
      }
      return answer;
    } finally {
      sequence.busy = false;
    }
  }

  /**
   * The whole answer; `onPiece` gets its pieces.
   * @param {Given} given
   * @param {import('./answering.mjs').CallOptions & Record<string, any>} [options]
   * @returns {Promise<Answer>}
   */
  const complete = async (given, options) => {
    const pieces = generate(given, options);
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) {
        return value;
      }
    }
  };

  /**
   * The text that was written last, with what the model remembers of it, as bytes; the messages of its conversation may
   * go with it.
   * @param {readonly Message[]} [spoken]
   */
  const save = async (spoken) => {
    const sequence = last;
    if (!sequence || !chooser || !sequences.includes(sequence)) {
      throw new UsageError('the model remembers no text: let it write an answer first');
    }
    if (sequence.busy) {
      throw new UsageError('the answer is being written: end it first');
    }
    sequence.busy = true;
    try {
      return await saver.save(chooser, sequence.row, sequence.tokens, spoken);
    } finally {
      sequence.busy = false;
    }
  };

  /**
   * Remember a text that was saved, by this or another runtime of the model.
   * @param {Uint8Array<ArrayBuffer> | ArrayBuffer} given
   */
  const restore = async (given) => {
    const saved = given instanceof ArrayBuffer ? new Uint8Array(given) : given;
    if (!(saved instanceof Uint8Array)) {
      throw new UsageError('restore takes the bytes that save gave');
    }
    await ready();
    await saver.check(/** @type {Chooser} */ (chooser), saved);
    await ready();
    const into = /** @type {Chooser} */ (chooser);
    const found = saver.look(into, saved);
    if (found.tokens.length > task.context) {
      throw new DataError(`the text has ${found.tokens.length} tokens, and the model takes ${task.context}`);
    }
    if (sequences.length === SEQUENCES) {
      forget();
    }
    const sequence = opened();
    try {
      while (!own.saved_hold(sequence.row)) {
        if (!forget()) {
          throw full();
        }
      }
      await saver.fill(into, sequence.row, found);
      own.pages_append(sequence.row, found.read);
    } catch (error) {
      own.pages_end(sequence.row);
      sequences = sequences.filter((other) => other !== sequence);
      throw error;
    }
    sequence.tokens = found.tokens;
    sequence.busy = false;
    last = sequence;
    return { tokens: found.tokens.length, messages: found.messages };
  };

  const { encode, decode } = publicOf(tokenizer, null);
  const count = (/** @type {Given} */ given) => {
    const text = textOf(given, conversations);
    return tokensOf(text, task, tokenizer, text !== given).length;
  };
  return { generate, complete, save, restore, reset, tokenizer: { encode, decode, count } };
}

/**
 * The pieces of answers of a model that has `complete` only, as one in a worker.
 * @param {(given: Given, options?: any) => Promise<Answer>} complete
 */
export function piecesOf(complete) {
  /** @returns {AsyncGenerator<Piece, Answer, void>} */
  return async function* generate(/** @type {Given} */ given, /** @type {any} */ options) {
    const stopping = new AbortController();
    const { signal } = options ?? {};
    signal?.addEventListener('abort', () => stopping.abort(signal.reason), { once: true });
    if (signal?.aborted) {
      stopping.abort(signal.reason);
    }
    /** @type {Piece[]} */
    const waiting = [];
    let wake = () => {};
    const onPiece = (/** @type {Piece} */ piece) => {
      options?.onPiece?.(piece);
      waiting.push(piece);
      wake();
    };
    let ended = false;
    const whole = complete(given, { ...options, signal: stopping.signal, onPiece }).finally(() => {
      ended = true;
      wake();
    });
    whole.catch(() => {});
    try {
      while (!ended || waiting.length) {
        if (waiting.length) {
          yield /** @type {Piece} */ (waiting.shift());
        } else {
          await new Promise((resolve) => (wake = () => resolve(undefined)));
        }
      }
      return await whole;
    } finally {
      if (!ended) {
        stopping.abort(new DOMException('the answer was ended', 'AbortError'));
      }
    }
  };
}

/**
 * How many of the first tokens are kept of a text that fills the context; null: an answer ends there.
 * @param {Record<string, any>} asked
 * @param {Task} task
 */
function sinksOf({ overflow = 'error', sinks = 4 }, { context }) {
  if (overflow !== 'error' && overflow !== 'window') {
    throw new UsageError(`overflow is ${overflow}; there are 'error' and 'window'`);
  }
  if (!Number.isInteger(sinks) || sinks < 0 || sinks > context - 2) {
    throw new UsageError(`sinks is ${sinks}; it must be a whole number from 0 to ${context - 2}`);
  }
  return overflow === 'window' ? /** @type {number} */ (sinks) : null;
}

/**
 * The first tokens of a text, and the newest ones, for which half of the rest of the context is used.
 * @param {readonly number[]} tokens
 * @param {Task} task
 * @param {number} sinks
 */
function windowed(tokens, { context }, sinks) {
  return [...tokens.slice(0, sinks), ...tokens.slice(tokens.length - Math.floor((context - sinks) / 2))];
}

/**
 * The text of a conversation; other prompts as they are.
 * @param {Given} given
 * @param {Conversations} conversations
 * @param {readonly object[] | null} [tools]
 * @returns {string | readonly number[]}
 */
function textOf(given, conversations, tools) {
  const spoken = Array.isArray(given) && given.length && typeof given[0] === 'object';
  return spoken ? conversations.text(given, tools) : /** @type {string | readonly number[]} */ (given);
}

/**
 * The tokens of a text, or those that are given. `bare`: without special tokens, which a conversation has; `long`: they
 * may be more than the model takes.
 * @param {string | readonly number[]} given
 * @param {Task} task
 * @param {Tokenizer} tokenizer
 */
function tokensOf(given, task, tokenizer, bare = false, long = false) {
  /** @type {number[]} */
  let tokens;
  if (typeof given === 'string') {
    tokens = [...tokenizer.encode(given, null, 0, bare).ids];
  } else if (Array.isArray(given) && given.every((token) => Number.isInteger(token) && token >= 0 && token < task.words)) {
    tokens = [...given];
  } else {
    throw new UsageError('generate takes a text, a list of messages, or a list of tokens');
  }
  if (!tokens.length) {
    throw new UsageError('the text is empty: there is nothing to continue');
  }
  if (tokens.length > task.context && !long) {
    throw new DataError(`the text has ${tokens.length} tokens, and the model takes ${task.context}: shorten it`);
  }
  return tokens;
}
