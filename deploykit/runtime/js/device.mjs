// GPUs of this engine: the device to compute on, and the shaders it compiles.

import { UnsupportedError } from './errors.mjs';

/**
 * What a device has where its adapter does.
 * @type {GPUFeatureName[]}
 */
const WANTED = ['timestamp-query', 'shader-f16', 'subgroups'];

/** The fastest GPU that there is. */
export async function findAdapter() {
  return (await globalThis.navigator?.gpu?.requestAdapter({ powerPreference: 'high-performance' })) ?? null;
}

/**
 * A device with the most that its adapter gives.
 * @returns {Promise<GPUDevice>}
 * @throws {UnsupportedError}
 */
export async function openDevice() {
  const adapter = await findAdapter();
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
 * A compiled shader. Its bindings follow from its text.
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
