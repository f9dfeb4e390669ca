// The threads of a model: how many there are, and the workers, which share its memory and take part in its parallel
// loops.

import { UnsupportedError } from './errors.mjs';
import { isNode, startWorker } from './workers.mjs';

/** @typedef {import('./worker.mjs').Task} Task */
/** @typedef {import('./worker.mjs').Message} Message */
/** @typedef {import('./workers.mjs').Thread} Thread */

/** The default at most, because a page has other things to do than one model. */
const USUAL = 4;
/** The most workers that a module can count. */
const MOST_THREADS = 256;

/**
 * The number of threads that a model runs on, where threads can share memory.
 * @param {number} [wanted] by default up to 4, and not more than there are processors
 * @returns {Promise<{ count: number, reason: string }>}
 */
export async function threadCount(wanted) {
  if (wanted !== undefined) {
    return { count: Math.min(wanted, MOST_THREADS), reason: 'asked for' };
  }
  const processors = isNode() ? (await import('os')).cpus().length : navigator.hardwareConcurrency;
  return { count: Math.min(processors, USUAL), reason: `there are ${processors} processors; the default is up to ${USUAL}` };
}

/**
 * The script of the workers.
 * @param {URL} [elsewhere]
 * @returns {import('./workers.mjs').Script}
 */
export function poolScript(elsewhere) {
  return {
    elsewhere,
    beside: () => new URL('./worker.mjs', import.meta.url),
    make: () => new Worker(new URL('./worker.mjs', import.meta.url), { type: 'module' }),
  };
}

export class Pool {
  /** @type {Set<Thread>} */
  #threads = new Set();

  /**
   * Start a worker for each task, and wait until all are ready.
   * @param {readonly Task[]} tasks
   * @param {URL} [script] of workers, if it is not beside this module
   * @throws {UnsupportedError} if one cannot be started
   */
  static async start(tasks, script) {
    const pool = new Pool();
    try {
      await Promise.all(tasks.map((task) => pool.#add(task, script)));
    } catch (cause) {
      pool.end();
      const words = cause instanceof Error ? cause.message : cause;
      throw new UnsupportedError(`a worker cannot be started, load with threads: 1: ${words}`, { cause });
    }
    return pool;
  }

  /** The number of workers, without those that failed. */
  get size() {
    return this.#threads.size;
  }

  /** Whether this thread may sleep while it waits for others: the main thread of a page may not. */
  get patient() {
    try {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1);
      return true;
    } catch {
      return false;
    }
  }

  end() {
    for (const thread of this.#threads) {
      thread.terminate();
    }
    this.#threads.clear();
  }

  /**
   * @param {Task} task
   * @param {URL} [script]
   */
  async #add(task, script) {
    /** @type {(message: Message) => void} */
    let listen = () => {};
    const failed = (/** @type {string} */ why) => listen({ failed: why });
    const thread = await startWorker(poolScript(script), (message) => listen(message), failed);
    this.#threads.add(thread);
    await new Promise((resolve, reject) => {
      listen = ({ ready, failed }) => {
        if (ready) {
          resolve(ready);
        } else {
          this.#threads.delete(thread);
          thread.terminate();
          reject(new Error(failed));
        }
      };
      thread.postMessage(task, []);
    });
    // Workers do not keep a program in node from ending.
    thread.unref?.();
  }
}
