// Fetches files of an artifact: with progress, resumed after a lost connection, and checked by sha256. Checked files
// are kept in a cache; files from the cache are not checked again.

import { DeploykitError, IntegrityError, NetworkError } from './errors.mjs';

/** @typedef {{ name: string, bytes: number, sha256: string }} FileEntry */

/**
 * @typedef {object} Transfer
 * @property {AbortSignal} [signal]
 * @property {(bytes: number) => void} onBytes gets the number of new bytes; negative when bytes are fetched again
 * @property {boolean} cache whether to keep files in Cache Storage and take them from there
 */

const ATTEMPTS = 4;
const PAUSE = 250;
/** A connection without data for this many milliseconds counts as lost. */
const SILENCE = 30_000;

/**
 * Fetch the file at `url`; it is complete and fits the manifest.
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function fetchFile(url, entry, transfer) {
  const kept = transfer.cache && url.protocol.startsWith('http') ? await openCache() : null;
  const key = `${url.origin}${url.pathname}?sha256=${entry.sha256}`;
  const found = kept && (await kept.match(key));
  if (found) {
    const bytes = new Uint8Array(await found.arrayBuffer());
    if (bytes.length === entry.bytes) {
      transfer.onBytes(bytes.length);
      return bytes;
    }
    await kept.delete(key);
  }
  const bytes = url.protocol === 'file:' ? await readLocal(url, entry, transfer) : await download(url, entry, transfer);
  if (!(await isIntact(bytes, entry))) {
    throw new IntegrityError(`${url} is not the file that was built (its sha256 differs): upload the artifact again`);
  }
  // Not awaited; a full cache is no reason to fail.
  kept?.put(key, new Response(bytes)).catch(() => {});
  return bytes;
}

/** The JSON files that are under way, by address. */
/** @type {Map<string, { signal: AbortSignal | undefined, json: Promise<any> }>} */
const underWay = new Map();

/**
 * Fetch and parse a JSON file. Calls at the same time, with the same signal, share the transfer and the value.
 * @param {URL} url
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function fetchJson(url, signal) {
  const other = underWay.get(url.href);
  if (other && other.signal === signal) {
    return other.json;
  }
  const own = { signal, json: parsed(url, signal) };
  underWay.set(url.href, own);
  const done = () => underWay.get(url.href) === own && underWay.delete(url.href);
  own.json.then(done, done);
  return own.json;
}

/**
 * @param {URL} url
 * @param {AbortSignal} [signal]
 */
async function parsed(url, signal) {
  let text;
  if (url.protocol === 'file:') {
    text = new TextDecoder().decode(await readFile(url));
  } else {
    text = await (await request(url, {}, signal)).text();
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new IntegrityError(`${url} is no JSON: upload the artifact again, all of its folder`, { cause });
  }
}

/**
 * Fetch a file over HTTP; after a lost connection, fetch only the rest.
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 */
async function download(url, entry, transfer) {
  const bytes = new Uint8Array(entry.bytes);
  const progress = { at: 0 };
  for (let attempt = 1; progress.at < entry.bytes || attempt === 1; attempt += 1) {
    try {
      await receive(url, bytes, progress, transfer);
      if (progress.at < entry.bytes) {
        throw new IntegrityError(`${url} ends after ${progress.at} of ${entry.bytes} bytes: upload the artifact again`);
      }
    } catch (error) {
      transfer.signal?.throwIfAborted();
      if (!mayPass(error) || attempt === ATTEMPTS) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE * attempt));
    }
  }
  return bytes;
}

/**
 * Whether another attempt may succeed: after a lost connection, a server error, or a file that ended early.
 * @param {unknown} error
 */
function mayPass(error) {
  return error instanceof NetworkError ? error.status === 0 || error.status >= 500 : error instanceof IntegrityError;
}

/**
 * Fill `bytes` from `progress.at` on.
 * @param {URL} url
 * @param {Uint8Array} bytes
 * @param {{ at: number }} progress
 * @param {Transfer} transfer
 */
async function receive(url, bytes, progress, transfer) {
  const response = await request(url, progress.at ? { Range: `bytes=${progress.at}-` } : {}, transfer.signal);
  if (response.status !== 206 && progress.at) {
    // A server that ignores ranges sends the whole file again.
    transfer.onBytes(-progress.at);
    progress.at = 0;
  }
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  try {
    for (;;) {
      const { done, value } = await spoken(reader.read());
      if (done) {
        return;
      }
      if (progress.at + value.length > bytes.length) {
        throw new IntegrityError(`${url} is longer than the ${bytes.length} bytes built: upload the artifact again`);
      }
      bytes.set(value, progress.at);
      progress.at += value.length;
      transfer.onBytes(value.length);
    }
  } catch (cause) {
    if (cause instanceof DeploykitError) {
      throw cause;
    }
    const lost = `${url}: the connection was lost after ${progress.at} of ${bytes.length} bytes`;
    throw new NetworkError(lost, 0, { cause });
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * The response of a server, if it is a success.
 * @param {URL} url
 * @param {Record<string, string>} headers
 * @param {AbortSignal} [signal]
 */
async function request(url, headers, signal) {
  let response;
  try {
    response = await spoken(fetch(url, { headers, signal }));
  } catch (cause) {
    signal?.throwIfAborted();
    throw new NetworkError(`${url} cannot be fetched: ${cause instanceof Error ? cause.message : cause}`, 0, { cause });
  }
  if (!response.ok) {
    const { status } = response;
    throw new NetworkError(`${url} cannot be fetched: HTTP ${status}; is all of the folder there?`, status);
  }
  return response;
}

/**
 * The result of `answer`, unless it takes longer than `SILENCE`.
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
async function spoken(answer) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${SILENCE / 1000} s`)), SILENCE);
  });
  try {
    return /** @type {T} */ (await Promise.race([answer, silence]));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 */
async function readLocal(url, entry, transfer) {
  transfer.signal?.throwIfAborted();
  const bytes = await readFile(url);
  if (bytes.length !== entry.bytes) {
    throw new IntegrityError(`${url} has ${bytes.length} bytes, ${entry.bytes} were built: build the model again`);
  }
  transfer.onBytes(bytes.length);
  return bytes;
}

/**
 * Read a local file, in node.
 * @param {URL} url
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function readFile(url) {
  const { readFile: read } = await import('fs/promises');
  try {
    return new Uint8Array(await read(url));
  } catch (cause) {
    throw new NetworkError(`${url} cannot be read: ${cause instanceof Error ? cause.message : cause}`, 0, { cause });
  }
}

/**
 * Whether bytes have the checksum of the manifest. Pages that are not secure contexts cannot compute it; they check
 * only the number of bytes.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {FileEntry} entry
 */
async function isIntact(bytes, entry) {
  if (!globalThis.crypto?.subtle) {
    return true;
  }
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') === entry.sha256;
}

/** The cache for files, or null if there is none. */
export async function openCache() {
  try {
    return (await globalThis.caches?.open('deploykit')) ?? null;
  } catch {
    return null;
  }
}
