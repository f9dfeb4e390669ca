// Buffers of a page and of other models as inputs: a model on a GPU takes them where they are.

import { bytesBound } from './buffers.mjs';
import { dtypeOf } from './dtypes.mjs';
import { ShapeError, UsageError } from './errors.mjs';
import { Held } from './held.mjs';
import { isArray } from './inputs.mjs';

/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ gpuBuffer: GPUBuffer, dtype?: string }} Lent a buffer of the page, which keeps it as it is during a run */
/**
 * What a driver knows of others: the numbers of their buffers, the first to be used first, and a place for a word.
 * @typedef {{ numbers: Map<GPUBuffer, number>, word?: GPUBuffer }} Others
 */

/** Bytes: copies are of whole words. One of a buffer of others is read, to find out whether the device takes it. */
const WORD = 4;
/** The most buffers of others that are known between runs. */
const MOST = 64;

/** @type {WeakMap<GpuDriver, Others>} */
const known = new WeakMap();

/**
 * The value of an input that the page or another model has, as a run with this driver takes it: in its buffer, if shaders
 * can bind that, or in a copy.
 * @param {GpuDriver} driver
 * @param {Tensor} tensor
 * @param {string} name of the input
 * @returns {Promise<Held>}
 * @throws {ShapeError | UsageError}
 */
export async function borrowed(driver, { held: own, lent, ...tensor }, name) {
  const { buffers, device } = driver;
  if (own && own.driver.device !== device) {
    throw new UsageError(`input '${name}' is on another device than this model: pass its data()`);
  }
  const { gpuBuffer } = /** @type {Lent} */ (own ?? lent);
  const bytes = own?.bytes ?? bytesOf(/** @type {Lent} */ (lent), tensor, name);
  if (!(gpuBuffer.usage & GPUBufferUsage.COPY_SRC)) {
    throw new UsageError(`input '${name}': its GPUBuffer needs the usage COPY_SRC, and also STORAGE if it is not to be copied`);
  }
  const fits = gpuBuffer.usage & GPUBufferUsage.STORAGE && gpuBuffer.size >= bytesBound(bytes);
  const number = fits ? numberOf(driver, gpuBuffer) : buffers.keep(bytes, `input '${name}'`);
  const held = new Held(driver, number, bytes, !fits);
  const target = fits ? wordOf(driver) : held.gpuBuffer;
  device.pushErrorScope('validation');
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(gpuBuffer, 0, target, 0, fits ? WORD : words(bytes));
  device.queue.submit([encoder.finish()]);
  // Of a device that is lost, the run says so.
  const error = await device.popErrorScope().catch(() => null);
  if (error) {
    held.release();
    const rule = 'it must be of model.gpuDevice, and neither destroyed nor mapped';
    throw new UsageError(`input '${name}': the GPU does not take its GPUBuffer, ${rule}: ${error.message}`);
  }
  return held;
}

/**
 * The bytes of a value in a buffer of the page, after checks of what the page gave.
 * @param {Lent} lent
 * @param {Tensor} tensor
 * @param {string} name
 */
function bytesOf({ gpuBuffer, dtype: own }, { dtype, shape }, name) {
  if (!isArray(gpuBuffer, 'GPUBuffer')) {
    throw new ShapeError(`input '${name}': gpuBuffer must be a GPUBuffer, found ${/** @type {any} */ (gpuBuffer).constructor?.name}`);
  }
  if (own && own !== dtype) {
    throw new ShapeError(`input '${name}': expected ${dtype}, found ${own}`);
  }
  if (!Array.isArray(shape)) {
    throw new ShapeError(`input '${name}' is a GPUBuffer: pass its shape, too, { gpuBuffer, shape }`);
  }
  const bytes = shape.reduce((product, extent) => product * extent, dtypeOf(dtype).array.BYTES_PER_ELEMENT);
  if (!shape.every((extent) => Number.isInteger(extent) && extent >= 0) || gpuBuffer.size < words(bytes)) {
    const found = `takes ${words(bytes)} bytes, and its GPUBuffer has ${gpuBuffer.size}`;
    throw new ShapeError(`input '${name}' of shape [${shape}] ${found}: pass { gpuBuffer, shape }`);
  }
  return bytes;
}

/** @param {number} bytes that become whole words, at least one */
function words(bytes) {
  return Math.max(WORD, Math.ceil(bytes / WORD) * WORD);
}

/** @param {GpuDriver} driver */
function othersOf(driver) {
  /** @type {Others} */
  const others = known.get(driver) ?? { numbers: new Map() };
  known.set(driver, others);
  return others;
}

/**
 * A buffer for a word that nobody reads.
 * @param {GpuDriver} driver
 */
function wordOf(driver) {
  const others = othersOf(driver);
  others.word ??= driver.buffers.make(WORD, GPUBufferUsage.COPY_DST, 'a word');
  return others.word;
}

/**
 * The number of a buffer of others.
 * @param {GpuDriver} driver
 * @param {GPUBuffer} buffer
 */
function numberOf(driver, buffer) {
  const { numbers } = othersOf(driver);
  const { buffers } = driver;
  const number = numbers.get(buffer) ?? buffers.nextKept++;
  // Now the last one.
  numbers.delete(buffer);
  numbers.set(buffer, number);
  buffers.numbered.set(number, buffer);
  return number;
}

/**
 * Forget buffers of others that the last runs did not use; bind groups would keep their memory.
 * @param {GpuDriver} driver
 */
export function forgetOthers(driver) {
  const { numbers } = othersOf(driver);
  const { numbered, groups } = driver.buffers;
  for (const [buffer, number] of numbers) {
    if (numbers.size <= MOST) {
      return;
    }
    numbers.delete(buffer);
    numbered.delete(number);
    for (const key of groups.keys()) {
      if (key.includes(`:${number},`) || key.includes(`;${number},`)) {
        groups.delete(key);
      }
    }
  }
}
