// The inputs of a call, checked: their names, dtypes, ranks and numbers of elements. The module checks their extents.

import { dtypeOf } from './dtypes.mjs';
import { ShapeError } from './errors.mjs';

/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {{ name: string, minimum: number, maximum: number | null, capacity_of: string | null }} Dim */
/** @typedef {Elements | { data: Elements, shape: readonly number[] }} Input */

/**
 * The inputs in the order of the ports.
 * @param {readonly Port[]} ports
 * @param {Record<string, Input>} inputs by name
 * @throws {ShapeError}
 */
export function tensorsOf(ports, inputs) {
  checkNames(ports, inputs, 'input');
  return ports.map((port) => tensorOf(port, inputs[port.name]));
}

/**
 * @param {readonly { name: string }[]} known
 * @param {object} given by name
 * @param {string} what
 */
function checkNames(known, given, what) {
  const stranger = Object.keys(given).find((name) => !known.some((thing) => thing.name === name));
  if (stranger !== undefined) {
    const names = known.map(({ name }) => `'${name}'`).join(', ') || 'none';
    throw new ShapeError(`there is no ${what} '${stranger}': the model has ${names}`);
  }
}

/**
 * Values of the dims in the order of the manifest.
 * @param {readonly Dim[]} dims
 * @param {Record<string, number>} given by name
 * @throws {ShapeError}
 */
export function valuesOf(dims, given) {
  checkNames(dims, given, 'dim');
  return dims.map((dim) => valueOf(dim, given[dim.name]));
}

/**
 * An input after checks of dtype, rank and number of elements.
 * @param {Port} port
 * @param {Input | undefined} input
 * @returns {Tensor}
 */
function tensorOf(port, input) {
  if (input === undefined) {
    throw new ShapeError(`input '${port.name}' is missing`);
  }
  const data = ArrayBuffer.isView(input) ? input : input.data;
  const { array } = dtypeOf(port.dtype);
  if (!(data instanceof array)) {
    const found = /** @type {any} */ (data)?.constructor?.name ?? typeof data;
    throw new ShapeError(`input '${port.name}' is ${port.dtype}: expected ${array.name}, found ${found}`);
  }
  const elements = /** @type {Elements} */ (data);
  const shape = ArrayBuffer.isView(input) ? shapeOf(port, elements.length) : [...input.shape];
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (shape.some((extent) => !Number.isInteger(extent) || extent < 0) || count !== elements.length) {
    throw new ShapeError(`input '${port.name}' has shape [${shape}] and ${elements.length} elements`);
  }
  return { dtype: port.dtype, shape, data: elements };
}

/**
 * The shape of so many elements, where at most one extent is not known.
 * @param {Port} port
 * @param {number} length
 */
function shapeOf(port, length) {
  const open = port.shape.filter((extent) => typeof extent !== 'number');
  const known = port.shape.reduce((/** @type {number} */ n, extent) => (typeof extent === 'number' ? n * extent : n), 1);
  if (open.length > 1 || (open.length === 1 && (known === 0 || length % known !== 0))) {
    const want = `[${port.shape.join(', ')}]`;
    throw new ShapeError(`input '${port.name}' is ${want}, which ${length} elements do not tell: pass { data, shape }`);
  }
  return port.shape.map((extent) => (typeof extent === 'number' ? extent : length / known));
}

/**
 * @param {Dim} dim
 * @param {number | undefined} given
 */
function valueOf(dim, given) {
  const value = given ?? (dim.capacity_of === null ? undefined : dim.minimum);
  if (value === undefined) {
    throw new ShapeError(`dim '${dim.name}' is missing`);
  }
  if (!Number.isInteger(value) || value < dim.minimum || (dim.maximum !== null && value > dim.maximum)) {
    throw new ShapeError(`dim '${dim.name}' must be in ${dim.minimum}..${dim.maximum ?? ''}, found ${value}`);
  }
  return value;
}
