// Answers Python's requests to a model, for the runners in node and in a page. A message is the length of its header
// (32 bits, little-endian), the header as JSON, then the data of its tensors. A request holds tensors for a run, dims
// whose arena is asked for, or sizes of new states; a reply holds tensors, a number, or an error with its class. It
// does not ship.

import { DTYPES } from './dtypes.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ dtype: string, shape: number[], bytes: number }} Header */
/** @typedef {Record<string, number>} Sizes */
/** @typedef {{ function?: string | null, inputs?: Header[], dims?: Sizes, reset?: Sizes }} Request */
/** @typedef {{ outputs?: Tensor[] } & Record<string, unknown>} Reply */

/**
 * Carry out a request.
 * @param {import('./model.mjs').Model | import('./functions.mjs').FunctionsModel} loaded
 * @param {Request} request
 * @param {readonly Uint8Array[]} data of the request's tensors
 * @returns {Promise<Reply>}
 */
export async function perform(loaded, { function: name, inputs = [], dims, reset }, data) {
  if (reset && 'reset' in loaded) {
    await loaded.reset(reset);
    return {};
  }
  const model = 'functions' in loaded ? loaded.functions[name ?? 'main'] : loaded;
  if (dims) {
    return { bytes: model.memory(dims).arena };
  }
  const tensors = model.inputs.map(({ name }, index) => {
    const { dtype, shape } = inputs[index];
    const { array } = /** @type {{ array: import('./dtypes.mjs').Constructor }} */ (DTYPES.get(dtype));
    const bytes = Uint8Array.from(data[index]);
    return [name, { shape, data: new array(bytes.buffer, 0, bytes.length / array.BYTES_PER_ELEMENT) }];
  });
  const results = await model.run(Object.fromEntries(tensors));
  const outputs = model.outputs.map(({ name }) => {
    // A ragged output has values in place of data.
    const { dtype, shape, data, values } = /** @type {Tensor & { values?: Tensor['data'] }} */ (results[name]);
    return { dtype, shape, data: values ?? data };
  });
  return { outputs };
}

/**
 * The reply for an error.
 * @param {unknown} error
 * @returns {Reply}
 */
export function failure(error) {
  const { name, message } = /** @type {Error} */ (error);
  return { error: name, message };
}

/**
 * The parts of a message.
 * @param {Reply} reply
 * @returns {Uint8Array<ArrayBuffer>[]}
 */
export function packed({ outputs, ...reply }) {
  const headers = outputs?.map(({ dtype, shape, data }) => ({ dtype, shape, bytes: data.byteLength }));
  const header = new TextEncoder().encode(JSON.stringify({ ...reply, outputs: headers }));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, header.length, true);
  const tensors = (outputs ?? []).map(({ data: { buffer, byteOffset, byteLength } }) => {
    return new Uint8Array(/** @type {ArrayBuffer} */ (buffer), byteOffset, byteLength);
  });
  return [length, header, ...tensors];
}
