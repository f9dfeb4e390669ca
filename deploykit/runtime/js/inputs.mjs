// Checks the arguments of calls: names, dtypes, ranks and numbers of elements of inputs (the module checks their
// extents), names and dtypes of arrays for outputs, and names of options.

import { dtypeOf } from './dtypes.mjs';
import { DataError, ShapeError, UsageError } from './errors.mjs';
import { DeviceTensor } from './kept.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./module.mjs').Arrays} Arrays */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {{ name: string, minimum: number, maximum: number | null, capacity_of: string | null }} Dim */
/** @typedef {Elements | Int32Array | readonly (number | bigint)[]} Given elements, or numbers that become these */
/** @typedef {{ gpuBuffer: GPUBuffer, shape: readonly number[] }} InBuffer elements at the beginning of a buffer */
/** @typedef {Given | { data: Given, shape: readonly number[] } | DeviceTensor | InBuffer} Input */

/** Dtypes whose elements are numbers; arrays of the others hold bits. */
const NUMERIC = /^(float(32|64)|u?int(8|16|32|64)|bool)$/;

/**
 * The inputs in the order of the ports.
 * @param {readonly Port[]} ports
 * @param {Record<string, Input>} inputs by name
 * @throws {ShapeError}
 */
export function tensorsOf(ports, inputs) {
  const given = byName(ports, inputs, 'input');
  return ports.map((port) => tensorOf(port, own(given, port.name)));
}

/** @param {readonly Tensor[]} tensors */
export function copiesOf(tensors) {
  return tensors.map((tensor) => ({ ...tensor, data: tensor.data.slice() }));
}

/**
 * The arrays that take outputs, in the order of the ports.
 * @param {readonly Port[]} ports
 * @param {Record<string, Elements | undefined>} [outputs] by name
 * @throws {ShapeError}
 */
export function arraysOf(ports, outputs) {
  const given = byName(ports, outputs, 'output');
  return ports.map((port) => {
    const array = own(given, port.name);
    return array && typed(port, array, 'output');
  });
}

/**
 * Whether each output is to stay on the device, in the order of the ports.
 * @param {readonly Port[]} ports
 * @param {readonly string[]} keep names
 * @param {Arrays} arrays that take outputs
 * @throws {ShapeError | UsageError}
 */
export function keptOf(ports, keep, arrays) {
  if (!Array.isArray(keep)) {
    throw new UsageError(`keep takes a list of names: pass ['${keep}']`);
  }
  byName(ports, Object.fromEntries(keep.map((name) => [name, true])), 'output');
  return ports.map(({ name }, index) => {
    if (keep.includes(name) && arrays[index]) {
      throw new UsageError(`output '${name}' cannot stay on the device and be written to an array: choose one`);
    }
    return keep.includes(name);
  });
}

/**
 * Check that `given` has no unknown names. Nothing given becomes an empty object, so that missing names are reported.
 * @template T
 * @param {readonly { name: string }[]} known
 * @param {Record<string, T> | null | undefined} given
 * @param {string} what
 * @returns {Record<string, T>}
 */
function byName(known, given, what) {
  const found = given ?? {};
  const stranger = Object.keys(found).find((name) => !known.some((thing) => thing.name === name));
  if (stranger !== undefined) {
    const names = known.map(({ name }) => `'${name}'`).join(', ') || 'none';
    throw new ShapeError(`there is no ${what} '${stranger}': the model has ${names}`);
  }
  return found;
}

/**
 * Check that the options of a call have no unknown names.
 * @template {object} T
 * @param {T | null | undefined} options
 * @param {readonly (keyof T & string)[]} known
 * @param {string} call
 * @returns {Partial<T>}
 * @throws {UsageError}
 */
export function checkOptions(options, known, call) {
  for (const name of Object.keys(options ?? {})) {
    if (!known.some((option) => option === name)) {
      const [nearest] = [...known].sort((a, b) => editsOf(name, a) - editsOf(name, b));
      throw new UsageError(`${call} has no option '${name}': did you mean '${nearest}'?`);
    }
  }
  return options ?? {};
}

/**
 * The edit distance of two words.
 * @param {string} from
 * @param {string} to
 */
function editsOf(from, to) {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const letter of from) {
    const above = row;
    row = [above[0] + 1];
    for (let at = 0; at < to.length; at += 1) {
      row.push(Math.min(above[at] + Number(to[at] !== letter), above[at + 1] + 1, row[at] + 1));
    }
  }
  return row[to.length];
}

/**
 * A member that an object has itself, unlike `constructor`, which all objects inherit.
 * @template T
 * @param {Record<string, T>} object
 * @param {string} name
 * @returns {T | undefined}
 */
function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * Values of the dims in the order of the manifest.
 * @param {readonly Dim[]} dims
 * @param {Record<string, number>} given by name
 * @throws {ShapeError}
 */
export function valuesOf(dims, given) {
  const found = byName(dims, given, 'dim');
  return dims.map((dim) => valueOf(dim, own(found, dim.name)));
}

/**
 * One input as a tensor, after checks of dtype and number of elements.
 * @param {Port} port
 * @param {Input | undefined} input
 * @returns {Tensor}
 */
function tensorOf(port, input) {
  const { array } = dtypeOf(port.dtype);
  if (input === undefined || input === null) {
    throw new ShapeError(`input '${port.name}' is missing: pass ${array.name} of shape ${textOf(port)}`);
  }
  if (input instanceof DeviceTensor) {
    return keptTensor(port, input.tensor);
  }
  if (/** @type {any} */ (input).gpuBuffer) {
    const lent = /** @type {InBuffer} */ (input);
    return { dtype: port.dtype, shape: lent.shape, data: new array(0), lent };
  }
  const plain = ArrayBuffer.isView(input) || Array.isArray(input);
  const { data, shape: given, dims } = /** @type {any} */ (plain ? { data: input } : input);
  if (typeof data === 'function') {
    const found = `input '${port.name}' is a tensor that another package keeps`;
    throw new UsageError(`${found}: pass its await data(), with its shape`);
  }
  if (dims && !given) {
    throw new ShapeError(`input '${port.name}' has dims: their name here is shape, pass { data, shape: [${dims}] }`);
  }
  const elements = elementsOf(port, data ?? input, 'input');
  // Anything that is not a list counts as an empty one.
  const shape = plain ? shapeOf(port, elements.length) : Array.from(/** @type {number[]} */ (Object(given)));
  const whole = shape.every((extent) => Number.isInteger(extent) && extent >= 0);
  if (!whole || shape.reduce((product, extent) => product * extent, 1) !== elements.length) {
    const found = `has shape [${shape}] and ${elements.length} elements`;
    throw new ShapeError(`input '${port.name}' ${found}: pass whole numbers whose product is the number of elements`);
  }
  return { dtype: port.dtype, shape, data: elements };
}

/**
 * @param {Port} port
 * @param {Tensor} tensor
 */
function keptTensor({ name, dtype, shape }, tensor) {
  if (tensor.dtype !== dtype || tensor.shape.length !== shape.length) {
    const found = `found ${tensor.dtype} [${tensor.shape}]`;
    throw new ShapeError(`input '${name}': expected ${dtype} [${shape.join(', ')}], ${found}`);
  }
  return tensor;
}

/**
 * Data as elements of the port's dtype: it is an array of these, or numbers that become these.
 * @param {Port} port
 * @param {unknown} data
 * @param {string} what
 * @returns {Elements}
 * @throws {ShapeError | DataError}
 */
export function elementsOf(port, data, what) {
  const { name, dtype } = port;
  const list = Array.isArray(data) || (dtype === 'int64' && isArray(data, 'Int32Array'));
  if (!list || !NUMERIC.test(dtype)) {
    return typed(port, data, what);
  }
  const numbers = /** @type {ArrayLike<unknown>} */ (data);
  const elements = /** @type {any} */ (new (dtypeOf(dtype).array)(numbers.length));
  const isReal = dtype.startsWith('float');
  for (let at = 0; at < numbers.length; at += 1) {
    const value = /** @type {any} */ (numbers[at]);
    const fits = isReal ? typeof value === 'number' : typeof value === 'bigint' || Number.isSafeInteger(value);
    elements[at] = fits && dtype.endsWith('int64') ? BigInt(value) : fits && Number(value);
    // An element that does not fit has become another number.
    if (!fits || !(isReal || elements[at] == value)) {
      const found = typeof value === 'string' ? `'${value}'` : value;
      throw new DataError(`${what} '${name}' is ${dtype}: element ${at} cannot be ${found}`);
    }
  }
  return elements;
}

/**
 * Whether a value is a typed array, or another object of the engine, of the class with this name, also one of another
 * window.
 * @param {any} value
 * @param {string} name
 */
export function isArray(value, name) {
  return value?.[Symbol.toStringTag] === name;
}

/**
 * Check that data is an array of the port's dtype.
 * @param {Port} port
 * @param {any} data
 * @param {string} what
 */
function typed({ name, dtype }, data, what) {
  const { array } = dtypeOf(dtype);
  if (!isArray(data, array.name)) {
    const found = data?.constructor?.name ?? data;
    throw new ShapeError(`${what} '${name}' is ${dtype}: expected ${array.name}, found ${found}`);
  }
  return /** @type {Elements} */ (data);
}

/**
 * The shape of an array with `length` elements; at most one extent of the port may be open.
 * @param {Port} port
 * @param {number} length
 */
function shapeOf(port, length) {
  const open = port.shape.filter((extent) => typeof extent !== 'number');
  const known = port.shape.reduce((/** @type {number} */ n, extent) => (typeof extent === 'number' ? n * extent : n), 1);
  if (open.length > 1 || (open.length === 1 && (known === 0 || length % known !== 0))) {
    const want = `is ${textOf(port)}, which ${length} elements do not tell`;
    throw new ShapeError(`input '${port.name}' ${want}: pass { data, shape }`);
  }
  return port.shape.map((extent) => (typeof extent === 'number' ? extent : length / known));
}

/** @param {Port} port */
function textOf({ shape }) {
  return `[${shape.join(', ')}]`;
}

/**
 * @param {Dim} dim
 * @param {number | undefined} given
 */
function valueOf(dim, given) {
  const value = given ?? (dim.capacity_of === null ? undefined : dim.minimum);
  const want = `a number in ${dim.minimum}..${dim.maximum ?? ''}`;
  if (value === undefined) {
    throw new ShapeError(`dim '${dim.name}' is missing: pass ${want}`);
  }
  if (!Number.isInteger(value) || value < dim.minimum || (dim.maximum !== null && value > dim.maximum)) {
    throw new ShapeError(`dim '${dim.name}' must be ${want}, found ${typeof value} ${value}`);
  }
  return value;
}
