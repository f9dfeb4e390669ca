// The WebGPU driver of the runtime's device interface (driver.h): shaders, and the calls of a model's steps.
// Commands are recorded and submitted together; the host waits only when it reads results.

import { Buffers, bytesBound } from './buffers.mjs';
import { closeDevice, pipelineOf } from './device.mjs';
import { Downloads, mapped } from './downloads.mjs';
import { DeviceLostError, MemoryError, UsageError } from './errors.mjs';
import { BLOCK, MOST_GROUPS, WORKGROUP } from './limits.mjs';
import { OK } from './module.mjs';

/** @typedef {import('./buffers.mjs').Slice} Slice */

export const FAILED = 10;
export const PENDING = 11;

/** The most blocks of scalars in one submission. */
const MOST_BLOCKS = 1024;
const SLICE_BYTES = 24;
/** The prefix of functions that only shaders for teams of invocations call. */
const TEAM = 'team_';
/** The largest subgroup there may be. */
const MOST_LANES = 128;

const COPY = `struct Scalars { first: i32, place: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> copied: array<u32>;
@compute @workgroup_size(${WORKGROUP})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
let thread = i32((group.x + group.y * ${MOST_GROUPS}) * ${WORKGROUP} + number);
if (thread < scalars.threads) { copied[scalars.place + thread] = words[scalars.first + thread]; }
}
`;

export class GpuDriver {
  #end = new AbortController();

  /** @param {GPUDevice} device */
  constructor(device) {
    this.device = device;
    const fail = (/** @type {GPUError} */ error) => {
      this.failure ??= error;
    };
    this.buffers = new Buffers(device, fail);
    /** @type {Error | null} */
    this.lost = null;
    /** @type {GPUComputePipeline[]} */
    this.pipelines = [];
    /**
     * How many of the invocations that a step asks for a workgroup runs, by shader. In shaders for teams, a team is one
     * such invocation, and a workgroup has one team, or one per subgroup.
     * @type {number[]}
     */
    this.strides = [];
    this.blocks = new Int32Array((MOST_BLOCKS * BLOCK) / 4);
    this.blockCount = 0;
    this.uniforms = this.buffers.make(MOST_BLOCKS * BLOCK, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST, 'scalars');
    /** @type {GPUCommandEncoder | null} */
    this.encoder = null;
    /** @type {GPUComputePassEncoder | null} */
    this.pass = null;
    /**
     * What the recorded commands read and write.
     * @type {Slice[]}
     */
    this.touched = [];
    this.downloads = new Downloads(this);
    this.done = true;
    /**
     * Times the steps during a profile.
     * @type {import('./clocks.mjs').GpuClock | null}
     */
    this.clock = null;
    device.lost.then((info) => {
      this.lost = new DeviceLostError(`the GPU device is lost, load the model again: ${info.message || info.reason}`);
    });
    const heard = (/** @type {Event} */ event) => fail(/** @type {GPUUncapturedErrorEvent} */ (event).error);
    device.addEventListener('uncapturederror', heard, { signal: this.#end.signal });
    /** @type {GPUError | undefined} */
    this.failure = undefined;
    /** @type {WebAssembly.Memory | undefined} */
    this.memory = undefined;
    this.destroyed = false;
  }

  /**
   * Compile the shaders.
   * @param {readonly string[]} sources
   * @param {() => void} [onCompiled] called after each shader
   */
  async compile(sources, onCompiled) {
    const { features, adapterInfo } = this.device;
    const lanes = features.has('subgroups') ? (adapterInfo?.subgroupMaxSize ?? MOST_LANES) : WORKGROUP;
    this.strides = sources.map((code) => WORKGROUP * (code.includes(TEAM) ? Math.max(1, WORKGROUP / lanes) : 1));
    const pipelines = sources.map(async (code) => {
      const pipeline = await pipelineOf(this.device, code);
      onCompiled?.();
      return pipeline;
    });
    this.pipelines = await Promise.all([...pipelines, pipelineOf(this.device, COPY)]);
  }

  /**
   * What a buffer keeps, apart from any run.
   * @param {{ number: number, bytes: number }} held
   */
  async read({ number, bytes }) {
    const found = await this.gathered(number, [{ offset: 0, bytes: Math.max(4, Math.ceil(bytes / 4) * 4) }]);
    return found.buffer.slice(0, bytes);
  }

  /**
   * What a buffer keeps at some places, one after the other. Offsets and bytes are multiples of 4.
   * @param {number} number of the buffer
   * @param {readonly { offset: number, bytes: number }[]} places
   */
  async gathered(number, places) {
    if (this.destroyed) {
      throw new UsageError('the model of this tensor is disposed of: take its data() before');
    }
    this.raise();
    const size = places.reduce((sum, { bytes }) => sum + bytes, 0);
    const staging = this.buffers.make(size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, 'kept values');
    try {
      const encoder = this.device.createCommandEncoder();
      let end = 0;
      for (const { offset, bytes } of places) {
        encoder.copyBufferToBuffer(this.buffers.get(number), offset, staging, end, bytes);
        end += bytes;
      }
      this.device.queue.submit([encoder.finish()]);
      await mapped(this, staging, size);
      return new Uint8Array(staging.getMappedRange().slice());
    } finally {
      this.buffers.release(staging);
    }
  }

  /** The functions that the model's WebAssembly imports. */
  imports() {
    /** @param {() => void} act */
    const guarded = (act) => {
      try {
        if (this.lost) {
          return FAILED;
        }
        act();
        return OK;
      } catch (error) {
        this.thrown = error;
        return FAILED;
      }
    };
    return {
      /**
       * @param {number} kernel
       * @param {number} slices
       * @param {number} count
       * @param {number} scalars
       * @param {number} scalarCount
       * @param {number} invocations
       */
      dispatch: (kernel, slices, count, scalars, scalarCount, invocations) =>
        guarded(() => {
          const values = new Int32Array(this.bytes(), scalars, scalarCount).slice();
          const places = Array.from({ length: count }, (_, index) => this.slice(slices + index * SLICE_BYTES));
          this.dispatch(kernel, places, values, invocations);
        }),
      /**
       * @param {number} target
       * @param {number} offset
       * @param {number} source
       */
      copy: (target, offset, source) => guarded(() => this.copy(this.slice(target), offset, this.slice(source))),
      /**
       * @param {number} target
       * @param {number} address
       */
      upload: (target, address) => guarded(() => this.upload(this.slice(target), address)),
      /**
       * @param {number} address
       * @param {number} source
       */
      download: (address, source) => guarded(() => this.downloads.add(address, this.slice(source))),
      wait: () => {
        if (this.lost || this.thrown) {
          return FAILED;
        }
        if (this.done) {
          this.done = false;
          return OK;
        }
        return PENDING;
      },
    };
  }

  /** Begin a run; drop what is left of the last one. */
  restart() {
    this.endPass();
    this.encoder = null;
    this.blockCount = 0;
    this.touched = [];
    this.downloads.clear();
    this.done = false;
    this.thrown = undefined;
    this.failure = undefined;
  }

  bytes() {
    return /** @type {WebAssembly.Memory} */ (this.memory).buffer;
  }

  /**
   * Read a `dk_slice`.
   * @param {number} address
   * @returns {Slice}
   */
  slice(address) {
    const view = new DataView(this.bytes(), address, SLICE_BYTES);
    const long = (/** @type {number} */ at) => Number(view.getBigInt64(at, true));
    return this.buffers.placed({ buffer: view.getInt32(0, true), offset: long(8), bytes: long(16) });
  }

  /**
   * @param {number} kernel
   * @param {readonly Slice[]} places
   * @param {Int32Array} values
   * @param {number} invocations
   */
  dispatch(kernel, places, values, invocations) {
    if (this.clock?.defer(() => this.dispatch(kernel, places, values, invocations))) {
      return;
    }
    if (this.blockCount === MOST_BLOCKS) {
      this.submit();
    }
    const block = this.blockCount;
    this.blockCount += 1;
    const at = (block * BLOCK) / 4;
    this.blocks.set(values, at);
    this.blocks[at + values.length] = invocations;
    const pipeline = this.pipelines[kernel];
    const pass = this.open();
    const groups = Math.ceil(invocations / (this.strides[kernel] ?? WORKGROUP));
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, this.buffers.group(kernel, pipeline, this.uniforms, places), [block * BLOCK]);
    pass.dispatchWorkgroups(Math.min(groups, MOST_GROUPS), Math.ceil(groups / MOST_GROUPS));
    this.touched.push(...places);
  }

  /**
   * @param {Slice} target
   * @param {number} offset
   * @param {Slice} source
   */
  copy(target, offset, source) {
    const most = Math.floor(this.buffers.bindable / BLOCK - 1) * BLOCK;
    for (let done = 0; done < source.bytes; done += most) {
      const bytes = Math.min(most, Math.ceil((source.bytes - done) / 4) * 4);
      // Bindings begin at multiples of a block.
      const behind = (offset + done) % BLOCK;
      const from = { ...source, offset: source.offset + done, bytes };
      const to = { ...target, offset: target.offset + offset + done - behind, bytes: behind + bytes };
      this.dispatch(this.pipelines.length - 1, [from, to], Int32Array.of(0, behind / 4), bytes / 4);
    }
  }

  /**
   * @param {Slice} target
   * @param {number} address
   */
  upload({ buffer, offset, bytes }, address) {
    const data = new Uint8Array(this.bytes(), address, Math.ceil(bytes / 4) * 4);
    this.put(buffer, offset, this.clock ? data.slice() : data);
  }

  /**
   * Write to a buffer. Recorded commands are submitted before only if they use the same place.
   * @param {number} buffer
   * @param {number} offset
   * @param {Uint8Array<ArrayBuffer>} data
   */
  put(buffer, offset, data) {
    if (!this.clock?.defer(() => this.put(buffer, offset, data))) {
      const end = offset + data.length;
      if (this.touched.some((used) => used.buffer === buffer && used.offset < end && offset < used.offset + bytesBound(used.bytes))) {
        this.submit();
      }
      this.device.queue.writeBuffer(this.buffers.get(buffer), offset, data);
    }
  }

  open() {
    this.encoder ??= this.device.createCommandEncoder();
    this.pass ??= this.encoder.beginComputePass(this.clock?.pass());
    return this.pass;
  }

  endPass() {
    this.pass?.end();
    this.pass = null;
  }

  /** Submit the recorded commands. */
  submit() {
    if (!this.encoder) {
      return;
    }
    this.endPass();
    this.device.queue.writeBuffer(this.uniforms, 0, this.blocks, 0, (this.blockCount * BLOCK) / 4);
    this.device.queue.submit([this.encoder.finish()]);
    this.encoder = null;
    this.blockCount = 0;
    this.touched = [];
  }

  /** Wait for the device, and copy downloads to the host's memory. */
  async settle() {
    await this.clock?.settle();
    if (this.downloads.none) {
      this.submit();
      await this.device.queue.onSubmittedWorkDone();
    } else {
      this.endPass();
      this.encoder ??= this.device.createCommandEncoder();
      this.downloads.record(this.encoder);
      this.submit();
      await this.downloads.read();
    }
    this.done = true;
    this.raise();
  }

  /** Throw the error that occurred since the last call, if any. */
  raise() {
    if (this.lost) {
      throw this.lost;
    }
    if (this.thrown) {
      throw this.thrown;
    }
    if (this.failure) {
      const { message } = this.failure;
      throw this.failure instanceof GPUOutOfMemoryError
        ? new MemoryError(`the GPU has not enough memory: ${message}`, 0)
        : new DeviceLostError(`the GPU refused a command, load the model again: ${message}`);
    }
  }

  /** Release all buffers, and the device if nobody else uses it. */
  destroy() {
    if (!this.destroyed) {
      this.destroyed = true;
      this.#end.abort();
      this.buffers.destroy();
      this.pipelines = [];
      this.memory = undefined;
      closeDevice(this.device);
    }
  }
}
