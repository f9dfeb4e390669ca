// `load({ worker: true })`: a model in a worker of its own, with the methods that it would have in the page. What a page
// gives is copied, and results are moved.

import { DataError, DeploykitError, DeviceLostError, IntegrityError, MemoryError, NetworkError } from './errors.mjs';
import { ShapeError, UnsupportedError, UsageError, WorkerError } from './errors.mjs';
import { poolScript } from './pool.mjs';
import { addressOf, startWorker } from './workers.mjs';

/** @typedef {{ resolve: (value: any) => void, reject: (error: unknown) => void, functions: Function[] }} Waiting */
/** @typedef {{ functions: Function[], signals: AbortSignal[], pictures: Promise<ImageBitmap>[] }} Beside what is sent */
/** @typedef {{ fixed: object, methods: string[], functions?: Record<string, About>, tokenizer?: About }} About a model */
/** @typedef {new (tensor: any, shapes: any) => object} Ragged */

const CLASSES = {
  DataError,
  DeploykitError,
  DeviceLostError,
  IntegrityError,
  MemoryError,
  NetworkError,
  ShapeError,
  UnsupportedError,
  UsageError,
  WorkerError,
};
/** The script of threads, which a model in a worker cannot find itself. */
const THREADS = 'runtime/worker.mjs';

/**
 * Load a model in a worker.
 * @param {readonly string[]} names of the files
 * @param {(name: string) => URL} locate
 * @param {import('./model.mjs').LoadOptions & { folder?: unknown }} options
 * @param {Ragged} [ragged] the class of ragged outputs
 */
export async function loadInWorker(names, locate, { folder, ...options }, ragged) {
  for (const name of /** @type {const} */ (['fetch', 'gpuDevice'])) {
    if (options[name] !== undefined) {
      throw new UsageError(`'${name}' is of this page, a model in a worker cannot have it: load without 'worker'`);
    }
  }
  const elsewhere = folder === undefined ? undefined : (/** @type {string} */ name) => locate(`runtime/${name}`);
  const remote = new Remote(ragged);
  /** @type {import('./workers.mjs').Script} */
  const script = {
    elsewhere: elsewhere?.('remote.mjs'),
    beside: () => new URL('./remote.mjs', import.meta.url),
    make: () => new Worker(new URL('./remote.mjs', import.meta.url), { type: 'module' }),
  };
  const here = globalThis.location?.href;
  const files = Object.fromEntries(names.map((name) => [name, new URL(locate(name), here).href]));
  files[THREADS] = addressOf(poolScript(elsewhere?.('worker.mjs'))).href;
  try {
    await remote.start(script);
    const about = await remote.call({ method: 'load', args: [files, options] });
    return remote.model(about);
  } catch (error) {
    remote.end();
    throw error;
  }
}

/** An output that stays on the device, as the page sees it. */
class RemoteTensor {
  #remote;

  /**
   * @param {Remote} remote
   * @param {{ number: number, dtype: string, shape: readonly number[], onDevice: boolean }} about
   */
  constructor(remote, { number, dtype, shape, onDevice }) {
    this.#remote = remote;
    this.number = number;
    Object.assign(this, { dtype, shape, onDevice, gpuBuffer: null });
  }

  /** A copy of its elements. */
  data() {
    return this.#remote.call({ method: 'data', of: this.number, args: [] });
  }

  free() {
    this.#remote.post({ free: this.number });
  }
}

/** The worker, and the calls that it has not answered. */
class Remote {
  /** @type {import('./workers.mjs').Thread | null} */
  #thread = null;
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #calls = 0;
  #ragged;
  #state = {};
  /** @type {Promise<string>} */
  #chosen;
  /** @type {(device: string) => void} */
  #settle = () => {};

  /** @param {Ragged} [ragged] */
  constructor(ragged) {
    this.#ragged = ragged;
    this.#chosen = new Promise((resolve) => (this.#settle = resolve));
  }

  /** @param {import('./workers.mjs').Script} script */
  async start(script) {
    const fail = (/** @type {string} */ why) => {
      this.end(new WorkerError(`the worker of the model failed, load it again or without 'worker': ${why}`));
    };
    this.#thread = await startWorker(script, (message) => this.#receive(message), fail);
  }

  /**
   * The model with its methods. Whatever changes is as it was at the last answer.
   * @param {About} about
   */
  model(about) {
    const target = this.#target(about);
    const members = /** @type {PropertyDescriptorMap} */ ({ chosen: { value: this.#chosen } });
    for (const name of Object.keys(this.#state)) {
      members[name] = { get: () => /** @type {any} */ (this.#state)[name], enumerable: true };
    }
    const dispose = () => this.end();
    return Object.defineProperties(Object.assign(target, { dispose, [Symbol.dispose ?? 'dispose']: dispose }), members);
  }

  /**
   * @param {About} about
   * @param {string} [of] the name of a function
   * @returns {object}
   */
  #target({ fixed, methods, functions, tokenizer }, of) {
    const called = methods.map((method) => [method, (/** @type {any[]} */ ...args) => this.call({ method, of, args })]);
    const others = Object.entries(functions ?? {}).map(([name, own]) => [name, this.#target(own, name)]);
    return {
      ...fixed,
      ...Object.fromEntries(called),
      ...(functions && { functions: Object.fromEntries(others) }),
      ...(tokenizer && { tokenizer: this.#target(tokenizer, 'tokenizer') }),
    };
  }

  /**
   * @param {object} message
   * @param {Transferable[]} [moved]
   */
  post(message, moved = []) {
    if (!this.#thread) {
      throw new UsageError('the model is disposed of: load it again');
    }
    this.#thread.postMessage(message, moved);
  }

  /**
   * Arguments are copied at once, except pictures of the page and what was saved.
   * @param {{ method: string, of?: string | number, args: any[] }} call
   * @returns {Promise<any>}
   */
  async call({ args, ...call }) {
    const id = ++this.#calls;
    /** @type {Beside} */
    const beside = { functions: [], signals: [], pictures: [] };
    const sent = sendable(args, beside);
    const [signal] = beside.signals;
    signal?.throwIfAborted();
    const abort = () => {
      this.#thread?.postMessage({ abort: id }, []);
      this.#waiting.get(id)?.reject(signal.reason);
    };
    signal?.addEventListener('abort', abort);
    const answer = new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, functions: beside.functions });
    });
    try {
      const pictures = beside.pictures.length ? await Promise.all(beside.pictures) : [];
      // What was saved is large: it moves.
      this.post({ ...call, id, args: sent, pictures }, call.method === 'restore' ? memoryOf(args) : pictures);
      // A program in node goes on while it waits.
      this.#thread?.ref?.();
      return fill(await answer, args);
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#waiting.delete(id);
      if (this.#waiting.size === 0) {
        this.#thread?.unref?.();
      }
    }
  }

  /**
   * End the worker and all calls.
   * @param {unknown} [why]
   */
  end(why = new UsageError('the model is disposed of: load it again')) {
    this.#thread?.terminate();
    this.#thread = null;
    this.#waiting.forEach(({ reject }) => reject(why));
  }

  /** @param {any} message */
  #receive({ id, value, error, called, args, chosen, state }) {
    this.#state = state ?? this.#state;
    const waiting = this.#waiting.get(id);
    if (chosen) {
      this.#settle(chosen);
    } else if (called !== undefined) {
      waiting?.functions[called](...args);
    } else if (error) {
      waiting?.reject(errorOf(error));
    } else {
      waiting?.resolve(this.#received(value));
    }
  }

  /** @param {any} value */
  #received(value) {
    if (value?.constructor !== Object) {
      return value;
    }
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => {
        if (item?.sent === 'tensor') {
          return [name, new RemoteTensor(this, item)];
        }
        return [name, item?.sent === 'ragged' && this.#ragged ? new this.#ragged(item.tensor, item.shapes) : item];
      }),
    );
  }
}

/**
 * An error of the worker, of its class and with its fields.
 * @param {{ name: string, message: string, fields: object }} error
 */
function errorOf({ name, message, fields }) {
  const made = Object.assign(new Error(message), { name }, fields);
  const known = Object.hasOwn(CLASSES, name) ? CLASSES[/** @type {keyof typeof CLASSES} */ (name)] : Error;
  return Object.setPrototypeOf(made, known.prototype);
}

/**
 * Arguments in which an object says what cannot be sent: functions, signals, tensors on the device, sounds, and pictures
 * of a page, which become bitmaps.
 * @param {any} value
 * @param {Beside} beside
 * @returns {any}
 */
function sendable(value, beside) {
  if (Array.isArray(value)) {
    return value.map((item) => sendable(item, beside));
  }
  if (value instanceof RemoteTensor) {
    return { sent: 'tensor', number: value.number };
  }
  if (value?.[Symbol.toStringTag] === 'GPUBuffer') {
    throw new UsageError("a GPUBuffer is of this page, a model in a worker cannot have it: load without 'worker'");
  }
  if (value instanceof AbortSignal) {
    beside.signals.push(value);
    return { sent: 'signal' };
  }
  if (typeof value === 'function') {
    return { sent: 'function', number: beside.functions.push(value) - 1 };
  }
  if (typeof value?.getChannelData === 'function') {
    const { numberOfChannels, sampleRate } = value;
    const channels = Array.from({ length: numberOfChannels }, (_, channel) => value.getChannelData(channel));
    return { sent: 'sound', numberOfChannels, sampleRate, channels };
  }
  if (value?.nodeType || value?.getContext) {
    const picture = createImageBitmap(value).catch((cause) => {
      throw new ShapeError(`a picture is an image that is loaded, and not empty: ${cause}`);
    });
    return { sent: 'picture', number: beside.pictures.push(picture) - 1 };
  }
  return value?.constructor === Object
    ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, sendable(item, beside)]))
    : value;
}

/**
 * The results, in the arrays that the page gave for them.
 * @param {any} results
 * @param {readonly any[]} args
 */
function fill(results, [, options]) {
  for (const [name, array] of Object.entries(options?.outputs ?? {})) {
    const elements = results[name]?.values ? 'values' : 'data';
    array?.set(results[name][elements]);
    results[name][elements] = array ?? results[name][elements];
  }
  return results;
}

/**
 * The memory of arrays that have it alone, and so can move.
 * @param {readonly unknown[]} args
 */
function memoryOf(args) {
  const found = args.map((arg) => (ArrayBuffer.isView(arg) && arg.byteLength === arg.buffer.byteLength ? arg.buffer : arg));
  return found.filter((arg) => arg instanceof ArrayBuffer);
}
