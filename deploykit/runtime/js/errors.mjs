// What can go wrong, as classes. Every message names the user's thing and what to do next.

/** Anything that deploykit reports. */
export class DeploykitError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A name, dtype, rank or extent of an input does not fit the model. */
export class ShapeError extends DeploykitError {}

/** A value in an input, or computed from the inputs, is out of its range: an index or a size. */
export class DataError extends ShapeError {}

/** The model needs more memory than there is. */
export class MemoryError extends DeploykitError {
  /** @param {string} message @param {number} bytes what was asked for @param {ErrorOptions} [options] */
  constructor(message, bytes, options) {
    super(message, options);
    this.bytes = bytes;
  }
}

/** A file is not what the manifest says: truncated, changed, or of another build. */
export class IntegrityError extends DeploykitError {}

/** A file cannot be fetched. `status` is that of HTTP, 0 when there was no answer. */
export class NetworkError extends DeploykitError {
  /** @param {string} message @param {number} status @param {ErrorOptions} [options] */
  constructor(message, status, options) {
    super(message, options);
    this.status = status;
  }
}

/**
 * A module of the package that is loaded when it is needed.
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

/** A worker failed in the middle of a run. The model goes on without it. */
export class WorkerError extends DeploykitError {}

/** The GPU is gone, or failed: the model cannot go on, but can be loaded again. */
export class DeviceLostError extends DeploykitError {}

/** A call that makes no sense, such as a run of a model that is disposed of. */
export class UsageError extends DeploykitError {}
