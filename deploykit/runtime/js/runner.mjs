// Runs an artifact in node for a parent process: `node runner.mjs FOLDER THREADS`. A message is the length of a JSON header as
// 32 bits, little-endian, the header, then the data of its tensors. Requests are `run` with tensors and `arena` with
// dims; replies hold tensors, a number, or an error with its class. It does not ship.

import { readSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import { DTYPES } from './dtypes.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ dtype: string, shape: number[], bytes: number }} Header */

const [folder, threads] = process.argv.slice(2);
const { load } = await import(`${pathToFileURL(folder)}/index.mjs`);
/** @type {import('./model.mjs').Model | undefined} */
let model;

for (let length = receive(4); length.length; length = receive(4)) {
  const request = JSON.parse(receive(view(length).getUint32(0, true)).toString());
  const data = request.inputs?.map((/** @type {Header} */ header) => receive(header.bytes));
  try {
    model ??= /** @type {import('./model.mjs').Model} */ (await load({ threads: Number(threads) }));
    send(request.dims ? { bytes: model.memory(request.dims).arena } : await run(model, request.inputs, data));
  } catch (error) {
    const { name, message } = /** @type {Error} */ (error);
    send({ error: name, message });
  }
}

/**
 * @param {import('./model.mjs').Model} ready
 * @param {Header[]} headers
 * @param {Buffer[]} data
 */
async function run(ready, headers, data) {
  const tensors = ready.inputs.map(({ name }, index) => {
    const { dtype, shape } = headers[index];
    const { array } = /** @type {{ array: import('./dtypes.mjs').Constructor }} */ (DTYPES.get(dtype));
    const bytes = Uint8Array.from(data[index]);
    return [name, { shape, data: new array(bytes.buffer, 0, bytes.length / array.BYTES_PER_ELEMENT) }];
  });
  const results = await ready.run(Object.fromEntries(tensors));
  return { outputs: ready.outputs.map(({ name }) => results[name]) };
}

/** @param {{ outputs?: Tensor[] } & Record<string, unknown>} reply */
function send({ outputs, ...reply }) {
  const headers = outputs?.map(({ dtype, shape, data }) => ({ dtype, shape, bytes: data.byteLength }));
  const header = Buffer.from(JSON.stringify({ ...reply, outputs: headers }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  for (const part of [length, header, ...(outputs ?? []).map(({ data }) => data)]) {
    const bytes = Buffer.from(part.buffer, part.byteOffset, part.byteLength);
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(1, bytes, at);
    }
  }
}

/**
 * So many bytes from standard input; none where it ends.
 * @param {number} length
 */
function receive(length) {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) {
      return Buffer.alloc(0);
    }
    at += count;
  }
  return bytes;
}

/** @param {Buffer} bytes */
function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
