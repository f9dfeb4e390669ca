// Starts workers: in pages, also those of other origins and with Trusted Types, and in node, Deno and Bun.

/**
 * @typedef {object} Script
 * @property {URL} [elsewhere] where it is, if it is not beside the modules
 * @property {() => URL} beside where it is otherwise; bundlers replace the expression, also by a `data:` URL or a path
 * @property {() => Worker} make a worker of a page that runs it; bundlers replace this expression, too
 */
/**
 * @typedef {object} Thread
 * @property {(message: any, transfer: any[]) => void} postMessage
 * @property {() => unknown} terminate
 * @property {() => void} [ref] in node: keeps the program from ending
 * @property {() => void} [unref]
 */

/**
 * What a worker of node runs: the script at the address that it is given, with the functions of a worker of a page. It
 * listens at once, because Deno drops messages that nobody listens to.
 */
const IN_NODE = `const { parentPort, workerData } = require('worker_threads');
const early = [];
let listen = (data) => early.push(data);
parentPort.on('message', (data) => listen(data));
globalThis.addEventListener = (kind, act) => {
  listen = (data) => act({ data });
  Promise.resolve().then(() => early.forEach(listen));
};
globalThis.postMessage = (message, transfer) => parentPort.postMessage(message, transfer);
globalThis.require = require;
import(workerData);`;

export function isNode() {
  return Boolean(globalThis.process?.versions?.node);
}

/**
 * The address of a script.
 * @param {Script} script
 */
export function addressOf({ elsewhere, beside }) {
  return new URL(elsewhere ?? beside(), globalThis.location?.href);
}

/**
 * Start a worker.
 * @param {Script} script
 * @param {(message: any) => void} listen
 * @param {(why: string) => void} fail
 * @returns {Promise<Thread>}
 */
export async function startWorker(script, listen, fail) {
  const url = addressOf(script);
  if (isNode()) {
    const { Worker: NodeWorker } = await import('worker_threads');
    const local = url.protocol === 'file:' ? url : script.beside();
    // Without the options of the program, which may say that evaluated code is a module.
    const worker = new NodeWorker(IN_NODE, { eval: true, workerData: local.href, execArgv: [] });
    return worker.on('message', listen).on('error', (error) => fail(String(error)));
  }
  const worker = inPage(url, script);
  worker.onmessage = ({ data }) => listen(data);
  worker.onerror = ({ message }) => fail(message || `the page may not run ${url}, or it cannot be loaded`);
  return worker;
}

/**
 * A new worker of this page. If the script comes from another origin, from which a page can import modules but not start
 * workers, the worker imports it.
 * @param {URL} url
 * @param {Script} script
 */
function inPage(url, { elsewhere, make }) {
  const own = url.origin === location.origin;
  if (!elsewhere && (own || url.protocol === 'data:')) {
    try {
      return make();
    } catch {
      // The page demands Trusted Types.
    }
  }
  const code = () => new Blob([`import ${JSON.stringify(url)};`], { type: 'text/javascript' });
  return new Worker(trusted(own ? url.href : URL.createObjectURL(code())), { type: 'module' });
}

/** @typedef {{ createScriptURL: (url: string) => any }} Policy */
/** @type {Policy | undefined} */
let policy;

/**
 * The address of a script of ours, as a page that demands Trusted Types takes it. No other code gets the policy.
 * @param {string} url
 * @throws {TypeError} if the page does not allow the policy
 */
function trusted(url) {
  /** @type {{ createPolicy: (name: string, policy: Policy) => Policy } | undefined} */
  const types = /** @type {any} */ (globalThis).trustedTypes;
  policy ??= types?.createPolicy('deploykit', { createScriptURL: (known) => known });
  return policy ? policy.createScriptURL(url) : url;
}
