// What can go wrong, as classes. Every message names the user's thing and what to do next.

/** Anything that deploykit reports. */
export class DeploykitError extends Error {
  /** @param {string} message @param {ErrorOptions} [options] */
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A name, dtype, rank or extent of an input does not fit the model, or a value in it is out of its range. */
export class ShapeError extends DeploykitError {}

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

/** This engine lacks what the artifact needs, such as SIMD in WebAssembly. */
export class UnsupportedError extends DeploykitError {}

/** A worker failed in the middle of a run. The model goes on without it. */
export class WorkerError extends DeploykitError {}

/** The GPU is gone, or failed: the model cannot go on, but can be loaded again. */
export class DeviceLostError extends DeploykitError {}

/** A call that makes no sense, such as a run of a model that is disposed of. */
export class UsageError extends DeploykitError {}
