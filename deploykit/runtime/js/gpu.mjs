// The WebGPU driver of the runtime's device interface (driver.h): buffers, shaders, and the calls of a model's steps.
// Commands are recorded and submitted together; the host waits only when it reads results.

import { pipelineOf } from './device.mjs';
import { Downloads, mapped } from './downloads.mjs';
import { DeviceLostError, MemoryError, UsageError } from './errors.mjs';
import { BLOCK, MOST_GROUPS, WORKGROUP } from './limits.mjs';
import { OK } from './module.mjs';

/** @typedef {{ buffer: number, offset: number, bytes: number }} Slice */

export const FAILED = 10;
export const PENDING = 11;

/** The first number of a buffer that keeps a value between runs. */
const KEPT = 2 ** 20;
/** The most such buffers that are not in use and serve again. */
const MOST_DISCARDED = 8;
/** The number of the weights' buffer. The weights may take several buffers, which have the numbers -1, -2, ... */
const WEIGHTS = 1;
/** The most blocks of scalars in one submission. */
const MOST_BLOCKS = 1024;
/** The most bind groups that are kept; each size of the inputs needs its own. */
const MOST_KEPT = 4096;
const SLICE_BYTES = 24;
/** Bytes of the largest element of an array: a vector. */
const MOST_ELEMENT = 16;
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

/**
 * Where the binding of a slice ends.
 * @param {Slice} slice
 */
function endOf({ offset, bytes }) {
  return offset + Math.ceil(bytes / MOST_ELEMENT) * MOST_ELEMENT;
}

export class GpuDriver {
  /** @param {GPUDevice} device */
  constructor(device) {
    this.device = device;
    const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
    /** The most bytes that the device binds at once. */
    this.bindable = Math.min(maxBufferSize, maxStorageBufferBindingSize);
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
    /** @type {Map<number, GPUBuffer>} */
    this.buffers = new Map();
    /**
     * Buffers that kept values, the first to be discarded first.
     * @type {number[]}
     */
    this.discarded = [];
    this.nextKept = KEPT;
    /** The offsets in the weights at which their buffers begin. */
    this.starts = [0];
    /** @type {Map<string, GPUBindGroup>} */
    this.groups = new Map();
    this.blocks = new Int32Array((MOST_BLOCKS * BLOCK) / 4);
    this.blockCount = 0;
    this.uniforms = this.makeBuffer(MOST_BLOCKS * BLOCK, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST, 'scalars');
    /**
     * Buffers that empty tensors are bound to, by the index of the operand.
     * @type {GPUBuffer[]}
     */
    this.nothing = [];
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
    device.addEventListener('uncapturederror', (event) => {
      this.failure ??= /** @type {GPUUncapturedErrorEvent} */ (event).error;
    });
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
   * @param {number} size
   * @param {number} usage
   * @param {string} label
   */
  makeBuffer(size, usage, label) {
    const { maxBufferSize } = this.device.limits;
    if (size > maxBufferSize) {
      const words = `${label} would take ${size} bytes of the GPU, which gives at most ${maxBufferSize}`;
      throw new MemoryError(`${words}: load with device 'wasm'`, size);
    }
    return this.device.createBuffer({ size, usage, label });
  }

  /**
   * Make sure that the buffer with this number has at least `bytes`; a smaller one is replaced.
   * @param {number} number
   * @param {number} bytes
   * @param {string} label
   */
  provide(number, bytes, label) {
    const size = Math.max(BLOCK, Math.ceil(bytes / BLOCK) * BLOCK);
    const before = this.buffers.get(number);
    if (before && before.size >= size) {
      return before;
    }
    this.remove(number);
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.makeBuffer(size, usage, label);
    this.buffers.set(number, buffer);
    return buffer;
  }

  /**
   * Replace the buffer with this number by one of zeros.
   * @param {number} number
   * @param {number} bytes
   * @param {string} label
   */
  clear(number, bytes, label) {
    this.remove(number);
    this.provide(number, bytes, label);
  }

  /** @param {number} number */
  remove(number) {
    if (this.buffers.has(number)) {
      this.buffer(number).destroy();
      this.buffers.delete(number);
      this.groups.clear();
    }
  }

  /**
   * A buffer for a value that stays on the device; returns its number.
   * @param {number} bytes
   * @param {string} label
   */
  keep(bytes, label) {
    const fits = (/** @type {number} */ size) => size >= bytes && size <= Math.max(BLOCK, 2 * bytes);
    const again = this.discarded.findIndex((number) => fits(this.buffer(number).size));
    if (again >= 0) {
      return this.discarded.splice(again, 1)[0];
    }
    this.provide(this.nextKept, bytes, label);
    this.nextKept += 1;
    return this.nextKept - 1;
  }

  /**
   * Release a buffer that no run uses.
   * @param {number} number
   */
  discard(number) {
    this.discarded.push(number);
    if (this.discarded.length > MOST_DISCARDED) {
      this.remove(/** @type {number} */ (this.discarded.shift()));
    }
  }

  /**
   * What a buffer keeps, apart from any run.
   * @param {{ number: number, bytes: number }} held
   */
  async read({ number, bytes }) {
    if (this.destroyed) {
      throw new UsageError('the model of this tensor is disposed of: take its data() before');
    }
    this.raise();
    const size = Math.max(4, Math.ceil(bytes / 4) * 4);
    const staging = this.makeBuffer(size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, 'a kept value');
    try {
      const encoder = this.device.createCommandEncoder();
      encoder.copyBufferToBuffer(this.buffer(number), 0, staging, 0, size);
      this.device.queue.submit([encoder.finish()]);
      await mapped(this, staging, size);
      return staging.getMappedRange().slice(0, bytes);
    } finally {
      staging.destroy();
    }
  }

  /**
   * Make as few buffers for the weights as possible; returns the bytes of all weights. A tensor is in one buffer,
   * unless it is larger than a buffer can be.
   * @param {readonly import('./module.mjs').Piece[]} pieces
   * @param {number} part a tensor is divided only at multiples of this many bytes
   */
  provideWeights(pieces, part) {
    const most = this.device.limits.maxBufferSize;
    const starts = [0];
    let start = 0;
    let tensor = 0;
    let end = 0;
    for (const { bytes, goesOn } of pieces) {
      tensor = goesOn ? tensor : end;
      const fits = tensor > start ? tensor : end - ((end - start) % part);
      end += bytes;
      if (end - start > most && fits > start) {
        starts.push((start = fits));
      }
    }
    this.starts = starts;
    starts.forEach((start, index) => this.provide(-1 - index, (starts[index + 1] ?? end) - start, 'the weights'));
    return end;
  }

  /**
   * @param {number} offset
   * @param {Uint8Array<ArrayBuffer>} data a piece: a multiple of 4 bytes
   */
  writeWeights(offset, data) {
    const place = this.placed({ buffer: WEIGHTS, offset, bytes: data.length });
    this.device.queue.writeBuffer(this.buffer(place.buffer), place.offset, data);
  }

  /**
   * The buffer and offset of a slice; slices of the weights are placed in one of their buffers.
   * @param {Slice} slice
   * @returns {Slice}
   */
  placed({ buffer, offset, bytes }) {
    if (buffer !== WEIGHTS) {
      return { buffer, offset, bytes };
    }
    const index = this.starts.findLastIndex((start) => start <= offset);
    return { buffer: -1 - index, offset: offset - this.starts[index], bytes };
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
    return this.placed({ buffer: view.getInt32(0, true), offset: long(8), bytes: long(16) });
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
    pass.setBindGroup(0, this.group(kernel, pipeline, places), [block * BLOCK]);
    pass.dispatchWorkgroups(Math.min(groups, MOST_GROUPS), Math.ceil(groups / MOST_GROUPS));
    this.touched.push(...places);
  }

  /**
   * The bind group of a dispatch; equal dispatches share one.
   * @param {number} kernel
   * @param {GPUComputePipeline} pipeline
   * @param {readonly Slice[]} places
   */
  group(kernel, pipeline, places) {
    const key = `${kernel}:${places.map(({ buffer, offset, bytes }) => `${buffer},${offset},${bytes}`).join(';')}`;
    const known = this.groups.get(key);
    if (known) {
      return known;
    }
    const entries = places.map(({ buffer, offset, bytes }, index) => {
      if (bytes === 0) {
        // The offset of an empty tensor may be the end of a buffer, which cannot be bound, or overlap another tensor.
        this.nothing[index] ??= this.makeBuffer(BLOCK, GPUBufferUsage.STORAGE, 'nothing');
        return { binding: index + 1, resource: { buffer: this.nothing[index] } };
      }
      const size = Math.ceil(bytes / MOST_ELEMENT) * MOST_ELEMENT;
      if (size > this.bindable) {
        throw new MemoryError(`a tensor of ${size} bytes is larger than the ${this.bindable} that this GPU can bind`, size);
      }
      return { binding: index + 1, resource: { buffer: this.buffer(buffer), offset, size } };
    });
    const scalars = { binding: 0, resource: { buffer: this.uniforms, size: BLOCK } };
    const made = this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [scalars, ...entries] });
    if (this.groups.size === MOST_KEPT) {
      this.groups.clear();
    }
    this.groups.set(key, made);
    return made;
  }

  /** @param {number} number */
  buffer(number) {
    return /** @type {GPUBuffer} */ (this.buffers.get(number));
  }

  /**
   * @param {Slice} target
   * @param {number} offset
   * @param {Slice} source
   */
  copy(target, offset, source) {
    const most = Math.floor(this.bindable / BLOCK - 1) * BLOCK;
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
      if (this.touched.some((used) => used.buffer === buffer && used.offset < end && offset < endOf(used))) {
        this.submit();
      }
      this.device.queue.writeBuffer(this.buffer(buffer), offset, data);
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

  /** Release the device and all its buffers. */
  destroy() {
    this.destroyed = true;
    this.device.destroy();
  }
}
