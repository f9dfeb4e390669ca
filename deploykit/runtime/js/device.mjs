// Opens a GPU device of this engine, and compiles shaders for it.

import { UnsupportedError } from './errors.mjs';

/**
 * The features that a device gets if its adapter has them.
 * @type {GPUFeatureName[]}
 */
const WANTED = ['timestamp-query', 'shader-f16', 'subgroups'];

/**
 * The adapter of a GPU, by default of the fastest one, or null if there is none.
 * @param {GPUPowerPreference} [powerPreference]
 */
export async function findAdapter(powerPreference = 'high-performance') {
  return (await globalThis.navigator?.gpu?.requestAdapter({ powerPreference })) ?? null;
}

/** Where a page keeps its devices by their power preferences. All models share them, also those of other packages. */
const SHARED = Symbol.for('deploykit.devices.1');
/** @typedef {{ device: Promise<GPUDevice>, users: number }} Shared */
const page = /** @type {Record<symbol, Map<string, Shared>>} */ (/** @type {unknown} */ (globalThis));
const devices = (page[SHARED] ??= new Map());

/**
 * The device of this page. Whoever opens it calls `closeDevice` later.
 * @param {GPUPowerPreference} [powerPreference]
 * @returns {Promise<GPUDevice>}
 * @throws {UnsupportedError}
 */
export async function openDevice(powerPreference = 'high-performance') {
  const shared = devices.get(powerPreference) ?? { device: requestDevice(powerPreference), users: 0 };
  devices.set(powerPreference, shared);
  const forget = () => {
    if (devices.get(powerPreference) === shared) {
      devices.delete(powerPreference);
    }
  };
  shared.users += 1;
  try {
    const device = await shared.device;
    device.lost.then(forget);
    return device;
  } catch (error) {
    forget();
    throw error;
  }
}

/**
 * Release a device that `openDevice` gave; when nobody uses it any more, it is destroyed. Another one is left alone.
 * @param {GPUDevice} device
 */
export async function closeDevice(device) {
  for (const [powerPreference, shared] of devices) {
    if ((await shared.device) === device) {
      shared.users -= 1;
      if (shared.users === 0) {
        devices.delete(powerPreference);
        device.destroy();
      }
    }
  }
}

/**
 * A device with the highest buffer limits of its adapter.
 * @param {GPUPowerPreference} powerPreference
 */
async function requestDevice(powerPreference) {
  const adapter = await findAdapter(powerPreference);
  if (!adapter) {
    throw new UnsupportedError("this engine has no WebGPU adapter: load with device 'wasm'");
  }
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  const requiredFeatures = WANTED.filter((feature) => adapter.features.has(feature));
  try {
    return await adapter.requestDevice({
      requiredFeatures,
      requiredLimits: { maxBufferSize, maxStorageBufferBindingSize },
    });
  } catch (cause) {
    throw new UnsupportedError("the WebGPU adapter gives no device: load with device 'wasm'", { cause });
  }
}

/**
 * Compile a shader. Its bindings are derived from its text.
 * @param {GPUDevice} device
 * @param {string} code
 * @throws {UnsupportedError}
 */
export async function pipelineOf(device, code) {
  /** @type {GPUBufferBindingType[]} */
  const types = ['uniform'];
  for (const [, access] of code.matchAll(/var<storage, (\w+)>/g)) {
    types.push(access === 'read' ? 'read-only-storage' : 'storage');
  }
  const entries = types.map((type, binding) => ({
    binding,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type, hasDynamicOffset: binding === 0 },
  }));
  const layout = device.createPipelineLayout({
    bindGroupLayouts: [device.createBindGroupLayout({ entries })],
  });
  const module = device.createShaderModule({ code });
  try {
    return await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: 'main' } });
  } catch (cause) {
    const { messages } = await module.getCompilationInfo();
    const words = messages.map(({ lineNum, message }) => `${lineNum}: ${message}`).join('\n') || cause;
    throw new UnsupportedError(`the GPU cannot compile a shader of this model: ${words}`, { cause });
  }
}
