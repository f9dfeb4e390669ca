// The workers of a model, which share its memory and take part in its parallel loops.

import { UnsupportedError } from './errors.mjs';
import { isNode } from './threads.mjs';

/** @typedef {import('./worker.mjs').Task} Task */
/** @typedef {import('./worker.mjs').Message} Message */
/** @typedef {{ postMessage: (task: Task) => void, terminate: () => unknown, unref?: () => void }} Thread */

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
    const thread = await spawn((message) => listen(message), script);
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
      thread.postMessage(task);
    });
    // Workers do not keep a program in node from ending.
    thread.unref?.();
  }
}

/**
 * @param {(message: Message) => void} listen
 * @param {URL} [script]
 * @returns {Promise<Thread>}
 */
async function spawn(listen, script) {
  if (isNode()) {
    const { Worker: NodeWorker } = await import('worker_threads');
    const local = script?.protocol === 'file:' ? script : new URL('./worker.mjs', import.meta.url);
    const worker = new NodeWorker(local);
    return worker.on('message', listen).on('error', (error) => listen({ failed: String(error) }));
  }
  const worker = newWorker(script);
  worker.onmessage = ({ data }) => listen(data);
  worker.onerror = ({ message }) => listen({ failed: message ?? 'worker.mjs cannot be loaded' });
  return worker;
}

/**
 * A new worker of this page. If the package comes from another origin, from which a page can import modules but not
 * start workers, the worker imports the script. Bundlers replace both URL expressions, the first one also by a `data:`
 * URL.
 * @param {URL} [script]
 */
function newWorker(script) {
  const url = script ?? new URL('./worker.mjs', import.meta.url);
  if (!script && (url.protocol === 'data:' || url.origin === location.origin)) {
    return new Worker(new URL('./worker.mjs', import.meta.url), { type: 'module' });
  }
  const code = new Blob([`import ${JSON.stringify(url)};`], { type: 'text/javascript' });
  return new Worker(URL.createObjectURL(code), { type: 'module' });
}
