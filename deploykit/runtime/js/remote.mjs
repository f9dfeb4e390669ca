// Runs a model in a worker, for `load({ worker: true })`: it carries out the calls that proxy.mjs sends.

import { DeviceTensor } from './kept.mjs';

/** @typedef {Record<string, any>} Target a model, one of its functions, or a tensor */
/**
 * `of`: a function, the tokenizer, or the number of a tensor
 * @typedef {{ method: string, of?: string | number, args: any[] }} Call
 */

/** What changes during the life of a model. */
const STATE = [
  ...['device', 'deviceReason', 'threads', 'threadsReason', 'cached', 'cachedReason'],
  ...['weightBytes', 'launches', 'trace'],
];
const FIXED = ['name', 'inputs', 'outputs', 'dims', 'mostTokens'];
/** Methods of the classes of models; others are members of a model. */
const METHODS = ['run', 'picture', 'profile', 'memory', 'reset'];

/**
 * Listen to calls.
 * @param {(locate: (name: string) => URL, options: any) => Promise<any>} load
 */
export function serve(load) {
  /** @type {Map<number, AbortController>} */
  const aborts = new Map();
  /** @type {Map<number, DeviceTensor>} */
  const tensors = new Map();
  /** @type {Target} */
  let model = {};
  let numbers = 0;
  const post = /** @type {(message: object, transfer?: Transferable[]) => void} */ (/** @type {unknown} */ (postMessage));

  const perform = async (/** @type {Call} */ { method, of, args }) => {
    if (method === 'load') {
      const [files, options] = args;
      model = await load((name) => files[name] && new URL(files[name]), options);
      const told = (/** @type {string} */ chosen) => post({ chosen, state: picked(model, STATE) });
      model.chosen?.then(told);
      return describe(model);
    }
    const target = typeof of === 'number' ? tensors.get(of) : of ? (model.functions?.[of] ?? model[of]) : model;
    return target[method](...args);
  };

  /** Arguments as the model takes them: those that cannot be sent are in an object that says what they are. */
  const received = (/** @type {any} */ value, /** @type {number} */ id, /** @type {ImageBitmap[]} */ pictures) =>
    changed(value, ({ sent, ...about }) => {
      switch (sent) {
        case 'picture':
          return pictures[about.number];
        case 'tensor':
          return tensors.get(about.number);
        case 'sound':
          return { ...about, getChannelData: (/** @type {number} */ channel) => about.channels[channel] };
        case 'function':
          return (/** @type {any[]} */ ...args) => post({ id, called: about.number, args });
        default:
          aborts.set(id, new AbortController());
          return aborts.get(id)?.signal;
      }
    });

  /** Results as they are sent. */
  const sendable = (/** @type {any} */ value) => {
    if (value instanceof DeviceTensor) {
      tensors.set(++numbers, value);
      const { dtype, shape, onDevice } = value;
      return { sent: 'tensor', number: numbers, dtype, shape, onDevice };
    }
    const { dtype, shape, values, shapes } = value?.instance ? value : {};
    return dtype ? { sent: 'ragged', tensor: { dtype, shape, data: values }, shapes } : value;
  };

  addEventListener('message', async ({ data: { id, abort, free, pictures, ...call } }) => {
    if (abort) {
      aborts.get(abort)?.abort();
    } else if (free) {
      tensors.get(free)?.free();
      tensors.delete(free);
    } else {
      try {
        const result = await perform({ ...call, args: received(call.args, id, pictures) });
        const value = isPlain(result) ? mapped(result, sendable) : result;
        post({ id, value, state: picked(model, STATE) }, buffersOf(value));
      } catch (error) {
        const { name, message = String(error), bytes, status } = Object(error);
        post({ id, error: { name, message, fields: picked({ bytes, status }, ['bytes', 'status']) } });
      }
      aborts.delete(id);
    }
  });
}

/** What a page needs to know of a model. */
function describe(/** @type {Target} */ target) {
  const own = Object.keys(target).filter((key) => typeof target[key] === 'function');
  const methods = new Set([...METHODS.filter((name) => typeof target[name] === 'function'), ...own]);
  /** @type {object} */
  const functions = target.functions && mapped(target.functions, describe);
  /** @type {object} */
  const tokenizer = target.tokenizer && describe(target.tokenizer);
  return { fixed: picked(target, FIXED), methods: [...methods], functions, tokenizer };
}

/**
 * @param {Target} target
 * @param {readonly string[]} names
 */
function picked(target, names) {
  return Object.fromEntries(names.filter((name) => target[name] !== undefined).map((name) => [name, target[name]]));
}

/**
 * @param {Record<string, any>} object
 * @param {(value: any) => any} change
 */
function mapped(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
}

/**
 * A copy in which `change` makes something else of each object that says what was sent.
 * @param {any} value
 * @param {(about: any) => any} change
 * @returns {any}
 */
function changed(value, change) {
  if (Array.isArray(value)) {
    return value.map((item) => changed(item, change));
  }
  if (!isPlain(value)) {
    return value;
  }
  return 'sent' in value ? change(value) : mapped(value, (item) => changed(item, change));
}

/** @param {any} value */
function isPlain(value) {
  return value?.constructor === Object;
}

/**
 * The memory of arrays that can move to the page, because each has its own.
 * @param {any} value
 * @param {Set<ArrayBuffer>} [found]
 */
function buffersOf(value, found = new Set()) {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.buffer.byteLength === value.byteLength) {
      found.add(value.buffer);
    }
  } else if (Array.isArray(value) || isPlain(value)) {
    Object.values(value).forEach((item) => buffersOf(item, found));
  }
  return [...found];
}
