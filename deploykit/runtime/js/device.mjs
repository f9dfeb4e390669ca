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

/**
 * A device with the highest buffer limits of its adapter.
 * @param {GPUPowerPreference} [powerPreference]
 * @returns {Promise<GPUDevice>}
 * @throws {UnsupportedError}
 */
export async function openDevice(powerPreference) {
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
