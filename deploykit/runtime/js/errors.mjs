// The classes of errors. Every message names what is wrong and what to do next.

/** Addresses that hold the data of a file. */
const DATA_URLS = /(data:[^\s,]{0,99},\S{0,16})\S*/g;

/** The base of all errors that deploykit reports. */
export class DeploykitError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message.replace(DATA_URLS, '$1...'), options);
  }
}

/** A name, dtype, rank or extent of an input does not fit the model. */
export class ShapeError extends DeploykitError {}

/** A value in an input, or computed from the inputs, is out of its range: an index or a size. */
export class DataError extends ShapeError {}

/** The model needs more memory than there is. */
export class MemoryError extends DeploykitError {
  /** @param {string} message @param {number} bytes that were asked for @param {ErrorOptions} [options] */
  constructor(message, bytes, options) {
    super(message, options);
    this.bytes = bytes;
  }
}

/** A file is not what the manifest says: truncated, changed, or of another build. */
export class IntegrityError extends DeploykitError {}

/** A file cannot be fetched. `status` is the HTTP status, 0 if there was no answer. */
export class NetworkError extends DeploykitError {
  /** @param {string} message @param {number} status @param {ErrorOptions} [options] */
  constructor(message, status, options) {
    super(message, options);
    this.status = status;
  }
}

/**
 * A module of the package that is loaded on demand.
 * @template T
 * @param {Promise<T>} loading
 * @throws {NetworkError}
 */
export function partOf(loading) {
  return loading.catch((cause) => {
    throw new NetworkError(`a module of the package cannot be loaded, is all of the folder there? ${cause}`, 0, { cause });
  });
}

/** This engine lacks what the artifact needs, such as SIMD in WebAssembly. */
export class UnsupportedError extends DeploykitError {}

/** A worker failed during a run. The model can go on without it. */
export class WorkerError extends DeploykitError {}

/** The GPU was lost or failed: the model cannot go on, but can be loaded again. */
export class DeviceLostError extends DeploykitError {}

/** A wrong call, such as a run of a model after `dispose`. */
export class UsageError extends DeploykitError {}

const CLASSES = {
  DeploykitError,
  ShapeError,
  DataError,
  MemoryError,
  IntegrityError,
  NetworkError,
  UnsupportedError,
  WorkerError,
  DeviceLostError,
  UsageError,
};
// Minifiers rename the classes, but not these keys.
for (const [name, { prototype }] of Object.entries(CLASSES)) {
  prototype.name = name;
}
