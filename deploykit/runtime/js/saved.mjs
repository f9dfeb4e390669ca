// What a model remembers of a text, as bytes. saved.c says what they are, and writes what is in front of the pages; these
// are in the memory of the model, or on a GPU.

import { DataError, UsageError } from './errors.mjs';
import { nextTask } from './tasks.mjs';

/** @typedef {import('./functions.mjs').FunctionsModel} FunctionsModel */
/** @typedef {import('./conversations.mjs').Message} Message */
/**
 * The parts of what was saved: `tokens`, of which the model has `read` the first ones, the `first` block whose page is
 * there, the messages, if there are some, and the pages.
 * @typedef {object} Found
 * @property {number[]} tokens
 * @property {number} read
 * @property {number} first
 * @property {Message[] | null} messages
 * @property {Uint8Array<ArrayBuffer>} pages
 */

/** Where saved.c puts how many tokens there are, and how many bytes the note has; bytes in front of the tokens. */
const [COUNT, NOTE, HEAD] = [8, 24, 64];
const CHECKSUM = 8;
const FIRST_SUM = 0xcbf29ce484222325n;
/** Bytes whose checksum is computed at once. */
const PART = 1 << 22;
/** A status of deploykit.h. */
const ERROR_DATA = 7;

export class Saver {
  #own;
  #model;
  #task;

  /**
   * @param {import('./chooser.mjs').Exports} own
   * @param {FunctionsModel} model
   * @param {import('./messages.mjs').Task} task
   */
  constructor(own, model, task) {
    this.#own = own;
    this.#model = model;
    this.#task = task;
  }

  /**
   * The bytes of a text that no answer goes on with.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {number} row
   * @param {readonly number[]} tokens
   * @param {readonly Message[]} [messages]
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async save(chooser, row, tokens, messages) {
    const note = messages ? new TextEncoder().encode(JSON.stringify({ messages })) : new Uint8Array();
    return this.#model.withStates(async (states) => {
      const own = this.#own;
      const [first, end] = [own.pages_first(row), Math.ceil(own.pages_length(row) / this.#task.page)];
      const items = [...chooser.row(row, end)].slice(first).map(Number);
      const head = HEAD + 4 * tokens.length + note.length;
      const place = this.#described(chooser, 4 * tokens.length + note.length + head);
      const noted = place + 4 * tokens.length;
      new Int32Array(own.memory.buffer, place, tokens.length).set(tokens);
      new Uint8Array(own.memory.buffer, noted, note.length).set(note);
      own.saved_head(row, place, tokens.length, noted, note.length, noted + note.length);
      const saved = new Uint8Array(head + items.length * states.bytes + CHECKSUM);
      saved.set(new Uint8Array(own.memory.buffer, noted + note.length, head));
      await states.read(items, saved.subarray(head, -CHECKSUM));
      new DataView(saved.buffer).setBigUint64(saved.length - CHECKSUM, await this.#sum(chooser, saved), true);
      return saved;
    });
  }

  /**
   * Compare the checksum of what was saved.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {Uint8Array<ArrayBuffer>} saved
   * @throws {DataError}
   */
  async check(chooser, saved) {
    const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
    const least = HEAD + CHECKSUM;
    if (saved.length < least || view.getBigUint64(saved.length - CHECKSUM, true) !== (await this.#sum(chooser, saved))) {
      throw new DataError('this is no saved text of a model, or it is cut off or altered');
    }
  }

  /**
   * Look at what was saved and checked. Pages can be held for it until something else is looked at.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {Uint8Array<ArrayBuffer>} saved
   * @returns {Found}
   * @throws {DataError | UsageError}
   */
  look(chooser, saved) {
    const own = this.#own;
    const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
    const needed = HEAD + 4 * view.getInt32(COUNT, true) + Number(view.getBigInt64(NOTE, true));
    const there = Math.max(HEAD, Math.min(needed, saved.length - CHECKSUM));
    const place = this.#described(chooser, 16 + there);
    new Uint8Array(own.memory.buffer, place + 16, there).set(saved.subarray(0, there));
    const status = own.saved_look(this.#task.words, place + 16, there, saved.length, place);
    if (status) {
      throw status === ERROR_DATA
        ? new DataError('this is no saved text of a model, or it is cut off or altered')
        : new UsageError('it was saved with another build of a model: what that remembers means nothing here');
    }
    const [count, read, first, noted] = new Int32Array(own.memory.buffer, place, 4);
    const tokens = [...new Int32Array(own.memory.buffer, place + 16 + HEAD, count)];
    const messages = messagesOf(saved.subarray(noted, there));
    return { tokens, read, first, messages, pages: saved.subarray(there, saved.length - CHECKSUM) };
  }

  /**
   * Put the pages of what was saved where a row of the table says, which holds pages for them.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {number} row
   * @param {Found} found
   */
  async fill(chooser, row, { read, first, pages }) {
    const items = [...chooser.row(row, Math.ceil(read / this.#task.page))].slice(first).map(Number);
    await this.#model.withStates((states) => states.write(items, pages));
  }

  /**
   * Tell language.wasm what the states are; returns the address of so many bytes.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {number} bytes
   */
  #described(chooser, bytes) {
    const sizes = this.#model.itemBytes;
    const build = (this.#task.build.match(/../g) ?? []).map((byte) => parseInt(byte, 16));
    const place = chooser.scratch(8 * sizes.length + build.length + bytes);
    new BigInt64Array(this.#own.memory.buffer, place, sizes.length).set(sizes.map(BigInt));
    new Uint8Array(this.#own.memory.buffer, place + 8 * sizes.length, build.length).set(build);
    this.#own.saved_of(place, place + 8 * sizes.length, sizes.length);
    return place + 8 * sizes.length + build.length;
  }

  /**
   * The checksum of all bytes but the last ones.
   * @param {import('./chooser.mjs').Chooser} chooser
   * @param {Uint8Array} saved
   */
  async #sum(chooser, saved) {
    let sum = FIRST_SUM;
    for (let start = 0; start < saved.length - CHECKSUM; start += PART) {
      const part = saved.subarray(start, Math.min(start + PART, saved.length - CHECKSUM));
      const place = chooser.scratch(part.length);
      new Uint8Array(this.#own.memory.buffer, place, part.length).set(part);
      sum = this.#own.saved_sum(sum, place, part.length);
      await nextTask();
    }
    return BigInt.asUintN(64, sum);
  }
}

/**
 * The messages of a conversation that was saved, here or by another runtime; null: a text without messages.
 * @param {Uint8Array} note
 * @returns {Message[] | null}
 */
function messagesOf(note) {
  try {
    const { messages } = JSON.parse(new TextDecoder().decode(note));
    return Array.isArray(messages) ? messages : null;
  } catch {
    return null;
  }
}
