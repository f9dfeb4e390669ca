// Clocks for the steps of runs. The host carries out a step as soon as it begins; a GPU is given all steps before it
// begins with the first one.

/** @typedef {import('./gpu.mjs').GpuDriver} GpuDriver */
/** @typedef {(step: number, ms: number) => void} Add */
/** @typedef {'host' | 'timestamps' | 'waits'} Kind */

/** The most queries of a set. */
const QUERIES = 4096;

/** Times steps on the host: a step ends when the next one begins. */
export class HostClock {
  /** @type {Kind} */
  kind = 'host';
  step = -1;
  since = 0;
  /** Whether the GPU carries out the current step. */
  remote = false;

  /** @param {Add} add gets the time of each step */
  constructor(add) {
    this.add = add;
  }

  /** @param {number} step -1 after the last one */
  begin(step) {
    const now = performance.now();
    if (this.step >= 0 && !this.remote) {
      this.add(this.step, now - this.since);
    }
    this.step = step;
    this.remote = false;
    this.since = performance.now();
  }
}

/** Times steps by timestamps: each step is a pass, and the GPU notes when it begins and ends. */
class TimestampClock extends HostClock {
  /** @type {Kind} */
  kind = 'timestamps';
  /** @type {number[]} */
  #steps = [];
  #driver;
  #queries;
  #times;

  /**
   * @param {Add} add
   * @param {GpuDriver} driver
   */
  constructor(add, driver) {
    super(add);
    const { device } = driver;
    this.#driver = driver;
    this.#queries = device.createQuerySet({ type: 'timestamp', count: QUERIES });
    this.#times = driver.buffers.make(8 * QUERIES, GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC, 'times');
  }

  /**
   * @override
   * @param {number} step
   */
  begin(step) {
    super.begin(step);
    this.#driver.endPass();
  }

  /** The descriptor of the next pass. */
  pass() {
    this.remote = true;
    const first = 2 * this.#steps.length;
    if (first === QUERIES) {
      return undefined;
    }
    this.#steps.push(this.step);
    const writes = { beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 };
    return { timestampWrites: { querySet: this.#queries, ...writes } };
  }

  /** Whether an action is deferred. */
  defer() {
    return false;
  }

  /** Submit the recorded commands and read their times. */
  async settle() {
    const { device } = this.#driver;
    const bytes = 16 * this.#steps.length;
    this.#driver.submit();
    if (bytes === 0) {
      return;
    }
    const staging = this.#driver.buffers.make(bytes, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, 'times');
    const encoder = device.createCommandEncoder();
    encoder.resolveQuerySet(this.#queries, 0, bytes / 8, this.#times, 0);
    encoder.copyBufferToBuffer(this.#times, 0, staging, 0, bytes);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const times = new BigInt64Array(staging.getMappedRange());
    this.#steps.forEach((step, index) => this.add(step, Number(times[2 * index + 1] - times[2 * index]) / 1e6));
    this.#driver.buffers.release(staging);
    this.#steps = [];
  }
}

/** Times steps by waiting for each dispatch; a step's time includes that of a submission. */
class WaitClock extends HostClock {
  /** @type {Kind} */
  kind = 'waits';
  /** @type {{ step: number, act: () => void }[]} */
  #actions = [];
  #driver;
  #acting = false;

  /**
   * @param {Add} add
   * @param {GpuDriver} driver
   */
  constructor(add, driver) {
    super(add);
    this.#driver = driver;
  }

  pass() {
    return undefined;
  }

  /** @param {() => void} act */
  defer(act) {
    if (!this.#acting) {
      this.remote = true;
      this.#actions.push({ step: this.step, act });
    }
    return !this.#acting;
  }

  async settle() {
    this.#acting = true;
    for (const { step, act } of this.#actions) {
      const start = performance.now();
      act();
      this.#driver.submit();
      await this.#driver.device.queue.onSubmittedWorkDone();
      this.add(step, performance.now() - start);
    }
    this.#actions = [];
    this.#acting = false;
  }
}

/** @typedef {TimestampClock | WaitClock} GpuClock */

/**
 * @param {Add} add
 * @param {GpuDriver} driver
 */
export function clockOf(add, driver) {
  return driver.device.features.has('timestamp-query') ? new TimestampClock(add, driver) : new WaitClock(add, driver);
}
