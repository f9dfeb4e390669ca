// Fetches files of an artifact: with progress, resumed after a lost connection, and checked by sha256. Checked files
// are kept in a store. Files from there are checked, too; a damaged one is fetched anew.

import { DeploykitError, IntegrityError, NetworkError, UsageError } from './errors.mjs';

/** @typedef {{ name: string, bytes: number, sha256: string }} FileEntry */

/** @typedef {Uint8Array<ArrayBuffer> | ArrayBuffer | Blob} Content */
/**
 * Where files come from, if not from the network by the engine's `fetch`.
 * @typedef {object} Source
 * @property {(url: string, options: RequestInit) => Promise<Response>} [fetch]
 * @property {ReadonlyMap<string, Content> | Record<string, Content>} [files] by the names that the manifest has
 */

/**
 * @typedef {object} Transfer
 * @property {AbortSignal} [signal]
 * @property {Source} [source]
 * @property {(bytes: number) => void} onBytes gets the number of new bytes; negative when bytes are fetched again
 * @property {Promise<import('./storage.mjs').Store | null> | null} store keeps files
 */

const UNCHANGED = 'If a bundler changed it, serve the folder as it was built, and pass its address: load({ folder })';
const ATTEMPTS = 4;
const PAUSE = 250;
/** A connection without data for this many milliseconds counts as lost. */
const SILENCE = 30_000;

/**
 * A transfer of several callers, with the bytes so far.
 * @typedef {object} Shared
 * @property {Set<Transfer>} callers
 * @property {AbortController} stop
 * @property {number} loaded
 * @property {Promise<Uint8Array<ArrayBuffer>>} file
 * @property {Promise<void>} kept resolves when the file is kept, or cannot be
 */

/** The transfers that are under way, by address and checksum. */
/** @type {Map<string, Shared>} */
const transfers = new Map();

/**
 * Fetch the file at `url`; it is complete and fits the manifest. Calls at the same time share the transfer, which ends
 * when all of them are aborted.
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function fetchFile(url, entry, transfer) {
  const { signal, onBytes } = transfer;
  const key = keyOf(url, entry);
  const shared = transfers.get(key) ?? begin(key, url, entry, transfer);
  shared.callers.add(transfer);
  onBytes(shared.loaded);
  return new Promise((resolve, reject) => {
    const leave = () => {
      shared.callers.delete(transfer);
      if (shared.callers.size === 0) {
        transfers.delete(key);
        shared.stop.abort(signal?.reason);
      }
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', leave);
    shared.file.then(resolve, reject).finally(() => signal?.removeEventListener('abort', leave));
  });
}

/**
 * Wait until a file that was fetched is kept, or cannot be.
 * @param {URL} url
 * @param {FileEntry} entry
 */
export async function whenKept(url, entry) {
  await transfers.get(keyOf(url, entry))?.kept;
}

/** @param {URL} url @param {FileEntry} entry */
function keyOf(url, { sha256 }) {
  return `${url} ${sha256}`;
}

/**
 * @param {string} key
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 * @returns {Shared}
 */
function begin(key, url, entry, transfer) {
  const [callers, stop] = [/** @type {Set<Transfer>} */ (new Set()), new AbortController()];
  const onBytes = (/** @type {number} */ bytes) => {
    shared.loaded += bytes;
    callers.forEach((caller) => caller.onBytes(bytes));
  };
  /** @type {Promise<void> | undefined} */
  let keeping;
  const own = { ...transfer, signal: stop.signal, onBytes };
  const file = Promise.resolve().then(() => checkedFile(url, entry, own, (kept) => (keeping = kept)));
  const done = () => {
    if (transfers.get(key) === shared) {
      transfers.delete(key);
    }
  };
  // Until it is kept, the next caller would fetch it again.
  const kept = file.then(() => keeping).then(done, done);
  /** @type {Shared} */
  const shared = { callers, stop, loaded: 0, file, kept };
  transfers.set(key, shared);
  return shared;
}

/**
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 * @param {(kept: Promise<void> | undefined) => void} onFetched
 */
async function checkedFile(url, entry, transfer, onFetched) {
  if (transfer.source?.files) {
    const given = await givenFile(entry.name, transfer.source.files);
    transfer.onBytes(given.length);
    return intact(url, entry, given);
  }
  if (isLocal(url)) {
    return intact(url, entry, await readLocal(url, entry, transfer));
  }
  const store = await transfer.store;
  const kept = await store?.file(url, entry);
  if (kept && (await isIntact(entry, kept))) {
    transfer.onBytes(kept.length);
    return kept;
  }
  const bytes = await download(url, entry, transfer, 'default').catch((error) => {
    if (!(error instanceof IntegrityError)) {
      throw error;
    }
    // The browser may have answered itself, with the file of another build.
    return download(url, entry, transfer, 'reload');
  });
  onFetched(store?.keepFile(url, entry, bytes));
  return bytes;
}

/**
 * A file that the caller has.
 * @param {string} name
 * @param {NonNullable<Source['files']>} files
 */
export async function givenFile(name, files) {
  const found = files instanceof Map ? files.get(name) : /** @type {Record<string, Content>} */ (files)[name];
  if (!found) {
    throw new UsageError(`files has no '${name}': pass all files of the package that the device needs`);
  }
  return new Uint8Array(await new Response(found).arrayBuffer());
}

/** The JSON files that are under way, by address. */
/** @type {Map<string, { signal: AbortSignal | undefined, json: Promise<any> }>} */
const underWay = new Map();

/**
 * Fetch and parse a JSON file. Calls at the same time, with the same signal, share the transfer and the value.
 * @param {URL} url
 * @param {AbortSignal} [signal]
 * @param {Source} [source]
 * @returns {Promise<any>}
 */
export function fetchJson(url, signal, source) {
  const other = underWay.get(url.href);
  if (other && other.signal === signal) {
    return other.json;
  }
  const own = { signal, json: parsed(url, signal, source) };
  underWay.set(url.href, own);
  const done = () => underWay.get(url.href) === own && underWay.delete(url.href);
  own.json.then(done, done);
  return own.json;
}

/**
 * @param {URL} url
 * @param {AbortSignal} [signal]
 * @param {Source} [source]
 */
async function parsed(url, signal, source) {
  let text;
  if (isLocal(url)) {
    text = new TextDecoder().decode(await readFile(url));
  } else {
    text = await (await request(url, { cache: 'no-cache', signal }, source)).text();
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    const found = `${url} is no JSON, it begins with '${text.slice(0, 40)}'`;
    throw new IntegrityError(`${found}: upload the artifact again, all of its folder. ${UNCHANGED}`, { cause });
  }
}

/**
 * Fetch a file over HTTP; after a lost connection, fetch only the rest.
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Transfer} transfer
 * @param {RequestCache} cache
 */
async function download(url, entry, transfer, cache) {
  const bytes = new Uint8Array(entry.bytes);
  const progress = { at: 0 };
  for (let attempt = 1; ; attempt += 1) {
    try {
      await receive(url, bytes, progress, transfer, cache);
      if (progress.at < entry.bytes) {
        throw new IntegrityError(`${url} ends after ${progress.at} of ${entry.bytes} bytes: upload the artifact again`);
      }
      return await intact(url, entry, bytes);
    } catch (error) {
      transfer.signal?.throwIfAborted();
      if (!mayPass(error) || attempt === ATTEMPTS) {
        transfer.onBytes(-progress.at);
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE * attempt));
    }
  }
}

/**
 * Whether another attempt may succeed: after a lost connection, or an error of the server.
 * @param {unknown} error
 */
function mayPass(error) {
  return error instanceof NetworkError && (error.status === 0 || error.status >= 500);
}

/**
 * Fill `bytes` from `progress.at` on.
 * @param {URL} url
 * @param {Uint8Array} bytes
 * @param {{ at: number }} progress
 * @param {Transfer} transfer
 * @param {RequestCache} cache
 */
async function receive(url, bytes, progress, transfer, cache) {
  const headers = progress.at ? { Range: `bytes=${progress.at}-` } : undefined;
  const response = await request(url, { headers, cache, signal: transfer.signal }, transfer.source);
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
 * @param {RequestInit} options
 * @param {Source} [source]
 */
async function request(url, options, { fetch: ask = fetch } = {}) {
  let response;
  try {
    response = await spoken(ask(url.href, options));
  } catch (cause) {
    options.signal?.throwIfAborted();
    throw new NetworkError(`${url} cannot be fetched: ${cause instanceof Error ? cause.message : cause}`, 0, { cause });
  }
  if (!response.ok) {
    const { status } = response;
    throw new NetworkError(`${url} cannot be fetched: HTTP ${status}; is all of the folder there?`, status);
  }
  if (response.headers.get('Content-Type')?.startsWith('text/html')) {
    const found = `${url}: the server answers with an HTML page, so it does not have this file`;
    const why = 'Servers of single-page apps and of development do so for any address';
    const advice = `serve the folder of the package at ${new URL('.', url)}, or pass its address: load({ folder })`;
    throw new NetworkError(`${found}. ${why}: ${advice}`, response.status);
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

/** Whether a file is read without the network: one on a disk, or in a `data:` URL. @param {URL} url */
function isLocal({ protocol }) {
  return protocol === 'file:' || protocol === 'data:';
}

/**
 * Read a file on a disk, in node, or in a `data:` URL. Bundlers make these of small files; pages with a content
 * security policy cannot fetch them.
 * @param {URL} url
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function readFile(url) {
  if (url.protocol === 'data:') {
    const [, head, body] = /** @type {RegExpExecArray} */ (/^([^,]*),([^]*)/.exec(url.href));
    const text = body.replace(/%([0-9a-f]{2})/gi, (_, code) => String.fromCharCode(parseInt(code, 16)));
    return Uint8Array.from(head.endsWith(';base64') ? atob(text) : text, (letter) => letter.charCodeAt(0));
  }
  const { readFile: read } = await import('fs/promises');
  try {
    return new Uint8Array(await read(url));
  } catch (cause) {
    throw new NetworkError(`${url} cannot be read: ${cause instanceof Error ? cause.message : cause}`, 0, { cause });
  }
}

/**
 * Check that bytes are the file of the manifest.
 * @param {URL} url
 * @param {FileEntry} entry
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function intact(url, entry, bytes) {
  if (!(await isIntact(entry, bytes))) {
    throw new IntegrityError(`${url} is not the file that was built (its sha256 differs): upload the artifact again`);
  }
  return bytes;
}

/**
 * Whether bytes have the checksum of the manifest. Pages that are not secure contexts cannot compute it.
 * @param {FileEntry} entry
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function isIntact({ sha256 }, bytes) {
  const digest = await globalThis.crypto?.subtle?.digest('SHA-256', bytes);
  const found = digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return !found || found === sha256;
}
