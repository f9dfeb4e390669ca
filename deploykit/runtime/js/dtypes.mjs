// Dtypes by name: their codes in the C interface, and the typed arrays that hold their elements in memory. Formats
// without a typed array in JavaScript are held as raw bits: float16 and bfloat16 in 16 bits, the others in 8.

import { DeploykitError } from './errors.mjs';

/**
 * @typedef {Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Uint8Array
 *   | Uint16Array | Uint32Array | BigUint64Array} Elements
 * @typedef {{ new (length: number): Elements,
 *   new (buffer: ArrayBufferLike, offset: number, length: number): Elements, BYTES_PER_ELEMENT: number }} Constructor
 */

/** @type {ReadonlyArray<readonly [string, unknown]>} */
const TABLE = [
  ['float32', Float32Array],
  ['float64', Float64Array],
  ['float16', Uint16Array],
  ['bfloat16', Uint16Array],
  ['int8', Int8Array],
  ['int16', Int16Array],
  ['int32', Int32Array],
  ['int64', BigInt64Array],
  ['uint8', Uint8Array],
  ['uint16', Uint16Array],
  ['uint32', Uint32Array],
  ['uint64', BigUint64Array],
  ['bool', Uint8Array],
  ['int4', Int8Array],
  ['uint4', Uint8Array],
  ['int2', Int8Array],
  ['uint2', Uint8Array],
  ['float8_e4m3fn', Uint8Array],
  ['float8_e4m3fnuz', Uint8Array],
  ['float8_e5m2', Uint8Array],
  ['float8_e5m2fnuz', Uint8Array],
  ['float8_e8m0', Uint8Array],
  ['float4_e2m1', Uint8Array],
  ['string', BigInt64Array],
];

/** @type {ReadonlyMap<string, { code: number, array: Constructor }>} */
export const DTYPES = new Map(
  TABLE.map(([name, array], code) => [name, { code, array: /** @type {Constructor} */ (array) }]),
);

/**
 * @param {string} name
 * @throws {DeploykitError}
 */
export function dtypeOf(name) {
  const found = DTYPES.get(name);
  if (!found) {
    throw new DeploykitError(`unknown dtype ${name}: build the model again`);
  }
  return found;
}
