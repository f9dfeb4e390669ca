// Runs an artifact in node for a parent process: `node runner.mjs FOLDER THREADS`. It does not ship.

import { readSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import { failure, packed, perform } from './jobs.mjs';

const [folder, threads] = process.argv.slice(2);
const { load } = await import(`${pathToFileURL(folder)}/index.mjs`);
const pause = new Int32Array(new SharedArrayBuffer(4));
/** @type {Parameters<typeof perform>[0] | undefined} */
let model;

for (let length = receive(4); length.length; length = receive(4)) {
  const request = JSON.parse(receive(view(length).getUint32(0, true)).toString());
  const data = (request.inputs ?? []).map((/** @type {import('./jobs.mjs').Header} */ header) => receive(header.bytes));
  try {
    model ??= /** @type {Parameters<typeof perform>[0]} */ (await load({ device: 'wasm', threads: Number(threads) }));
    send(await perform(model, request, data));
  } catch (error) {
    send(failure(error));
  }
}

/** @param {import('./jobs.mjs').Reply} reply */
function send(reply) {
  for (const bytes of packed(reply)) {
    for (let at = 0; at < bytes.length; ) {
      at += whenReady(() => writeSync(1, bytes, at));
    }
  }
}

/**
 * Read `length` bytes from standard input; an empty buffer at its end.
 * @param {number} length
 */
function receive(length) {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = whenReady(() => readSync(0, bytes, at, length - at, null));
    if (count === 0) {
      return Buffer.alloc(0);
    }
    at += count;
  }
  return bytes;
}

/**
 * What `act` returns once its pipe is ready. With worker threads, node makes the pipes of a process non-blocking.
 * @param {() => number} act
 */
function whenReady(act) {
  for (;;) {
    try {
      return act();
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

/** @param {Buffer} bytes */
function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
