// Makes the memory that a module imports: shared between threads, or for one thread.

import { DTYPES } from './dtypes.mjs';
import { IntegrityError, MemoryError } from './errors.mjs';

/** @typedef {Pick<import('./model.mjs').Manifest, 'inputs' | 'outputs' | 'dims' | 'peak_memory'>} Needs */

export const PAGE = 65536;
/** The largest memory: addresses and sizes have 32 bits. */
export const MOST_BYTES = 2 ** 32 - PAGE;

export const ALIGNMENT = 64;
/** How many models have memory. */
export const LOADED = { count: 0 };
const MOST_PAGES = MOST_BYTES / PAGE;
/** Pages for the stacks of workers, enough for the most there may be. Unused pages take only addresses. */
const STACKS = 512;
const BOUNDED = 1;
/** A module's memory import: names with their lengths, the kind, and the flags of a shared memory with a maximum. */
const IMPORT = Array.from('\x03env\x06memory\x02\x03', (byte) => byte.charCodeAt(0));

/**
 * A memory for a module, and the module's code, changed to import that kind of memory.
 * @param {Uint8Array<ArrayBuffer>} code whose first import is a shared memory
 * @param {boolean} shared
 * @param {Needs} needs
 * @returns {{ memory: WebAssembly.Memory, code: Uint8Array<ArrayBuffer> }}
 * @throws {IntegrityError | MemoryError}
 */
export function memoryFor(code, shared, needs) {
  const { flags, initial } = memoryImport(code);
  if (shared) {
    const least = initial + pages(needs.peak_memory.weights) + STACKS;
    const most = least + pages(boundOf(needs));
    return { memory: sharedMemory(initial, Math.min(most, MOST_PAGES), Math.min(least, MOST_PAGES)), code };
  }
  const own = code.slice();
  own[flags] = BOUNDED;
  try {
    return { memory: new WebAssembly.Memory({ initial, maximum: MOST_PAGES }), code: own };
  } catch (cause) {
    const found = `this engine gives no memory to one more model, and ${LOADED.count} of this package are loaded`;
    throw new MemoryError(`${found}: dispose of those that are not used`, initial * PAGE, { cause });
  }
}

/**
 * Throw if no memory of WebAssembly can hold this many bytes.
 * @param {number} bytes
 * @param {string} what
 * @param {string} advice
 */
export function checkSize(bytes, what, advice) {
  if (bytes > MOST_BYTES) {
    throw new MemoryError(`${what} need ${bytes} bytes, and WebAssembly has ${MOST_BYTES}: ${advice}`, bytes);
  }
}

/**
 * Bytes that the largest run needs besides the weights; infinite if that is known only during a run.
 * @param {Needs} needs
 */
function boundOf({ inputs, outputs, dims, peak_memory: { at_bounds: arena } }) {
  const bounds = new Map(dims.map(({ name, maximum }) => [name, maximum ?? Infinity]));
  const sizes = [...inputs, ...outputs].map(({ dtype, shape }) => {
    const width = DTYPES.get(dtype)?.array.BYTES_PER_ELEMENT ?? Infinity;
    return shape.reduce((/** @type {number} */ n, e) => n * (typeof e === 'number' ? e : (bounds.get(e) ?? Infinity)), width);
  });
  return sizes.reduce((sum, size) => sum + size + ALIGNMENT, arena ?? Infinity);
}

/**
 * A shared memory. It takes addresses for its maximum at once, so if there are too few, the maximum is halved.
 * @param {number} initial pages, as are the others
 * @param {number} most
 * @param {number} least
 */
function sharedMemory(initial, most, least) {
  for (let maximum = most; ; maximum = Math.max(maximum >> 1, least)) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (cause) {
      if (maximum <= least) {
        const bytes = maximum * PAGE;
        const message = `this engine does not give ${bytes} bytes of shared memory: load with threads: 1`;
        throw new MemoryError(message, bytes, { cause });
      }
    }
  }
}

/**
 * The offset of the imported memory's flags in the code, and its initial number of pages.
 * @param {Uint8Array} code
 */
function memoryImport(code) {
  const start = code.findIndex((_, at) => IMPORT.every((byte, index) => code[at + index] === byte));
  if (start < 0) {
    throw new IntegrityError('the module does not import its memory: build the model again');
  }
  const flags = start + IMPORT.length - 1;
  let initial = 0;
  for (let at = flags + 1, scale = 1; ; at += 1, scale *= 128) {
    initial += (code[at] & 127) * scale;
    if (code[at] < 128) {
      return { flags, initial };
    }
  }
}

/** @param {number} bytes */
function pages(bytes) {
  return Math.ceil(bytes / PAGE);
}
