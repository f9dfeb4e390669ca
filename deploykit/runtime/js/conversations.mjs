// Conversations as texts: the template of a model is a program that language.wasm runs.

import { UsageError } from './errors.mjs';

/** @typedef {{ role: string, content: unknown, [key: string]: unknown }} Message */

/**
 * The function of language.wasm for templates; addresses and sizes are in bytes. `found` receives the bytes of the text
 * and the address of an error.
 * @typedef {object} Exports
 * @property {WebAssembly.Memory} memory
 * @property {{ value: number }} __heap_base
 * @property {(program: number, bytes: number, json: number, jsonBytes: number, now: number, workspace: number, workspaceBytes: number, text: number, capacity: number, found: number) => number} render
 */

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'];
const [OK, BUFFER, ARENA] = [0, 3, 4];
/** The most bytes of a text; where one needs more, something is wrong. */
const MOST = 1 << 26;

/** The template of a model, in an instance of language.wasm of its own. */
export class Conversations {
  #own;
  #program;

  /**
   * @param {Exports} own
   * @param {string} program in base64; empty: there is none
   */
  constructor(own, program) {
    this.#own = own;
    this.#program = Uint8Array.from(atob(program), (letter) => letter.charCodeAt(0));
  }

  /**
   * The text of a conversation.
   * @param {readonly Message[]} messages
   * @param {readonly object[] | null} [tools] that the model may call
   */
  text(messages, tools = null) {
    if (!this.#program.length) {
      throw new UsageError('this model has no template of conversations here: give it a text to continue');
    }
    for (const [index, message] of messages.entries()) {
      if (typeof message?.role !== 'string' || message.content === undefined) {
        throw new UsageError(`message ${index} is no object with 'role' and 'content'`);
      }
      if (!ROLES.includes(message.role)) {
        throw new UsageError(`message ${index} has the role '${message.role}'; there are ${ROLES.join(', ')}`);
      }
    }
    const json = new TextEncoder().encode(JSON.stringify({ messages, tools }));
    for (let room = 4 * json.length + (1 << 16); ; room *= 4) {
      const { status, text } = this.#rendered(json, room);
      if (status === OK) {
        return text;
      }
      if ((status !== BUFFER && status !== ARENA) || room > MOST) {
        throw new UsageError(text);
      }
    }
  }

  /**
   * The text of a conversation, or what is wrong with it.
   * @param {Uint8Array} json
   * @param {number} room bytes for the text
   */
  #rendered(json, room) {
    const { memory, __heap_base: heap, render } = this.#own;
    const program = (heap.value + 15) & ~15;
    const given = (program + this.#program.length + 15) & ~15;
    const text = (given + json.length + 15) & ~15;
    const found = (text + room + 15) & ~15;
    const workspace = found + 16;
    const missing = workspace + 16 * room - memory.buffer.byteLength;
    if (missing > 0) {
      memory.grow(Math.ceil(missing / (1 << 16)));
    }
    new Uint8Array(memory.buffer, program).set(this.#program);
    new Uint8Array(memory.buffer, given).set(json);
    const clock = new Date();
    const now = Math.floor(clock.getTime() / 1000) - 60 * clock.getTimezoneOffset();
    const sizes = [this.#program.length, json.length];
    const status = render(program, sizes[0], given, sizes[1], now, workspace, 16 * room, text, room, found);
    const [bytes, error] = new Uint32Array(memory.buffer, found, 2);
    const start = status === OK ? text : error;
    const whole = new Uint8Array(memory.buffer, start);
    return { status, text: new TextDecoder().decode(whole.slice(0, status === OK ? bytes : whole.indexOf(0))) };
  }
}
