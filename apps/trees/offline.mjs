// Service worker: keeps the files of the page and of its package, so that both work without a network.

const NAME = 'trees-in-batches';
const PACKAGE = './arithmetic/';
const PAGE = ['./', './style.css', './pictures.css', './icon.svg'];
const MODULES = ['engine', 'examples', 'layout', 'links', 'main', 'parser', 'replay', 'schedule', 'svg', 'trees'];

const worker = /** @type {any} */ (globalThis);

worker.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(keepAll()));
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const { method, url } = event.request;
  if (method === 'GET' && new URL(url).origin === location.origin) {
    event.respondWith(answer(event.request));
  }
});

async function keepAll() {
  const { files } = await (await fetch(`${PACKAGE}manifest.json`)).json();
  const ofPackage = files.map((/** @type {{ name: string }} */ { name }) => PACKAGE + name);
  const cache = await caches.open(NAME);
  await cache.addAll([...PAGE, ...MODULES.map((name) => `./src/${name}.mjs`), `${PACKAGE}manifest.json`, ...ofPackage]);
  await worker.skipWaiting();
}

/**
 * The file from the network, which may be newer; without a network, the one that was kept.
 * @param {Request} request
 */
async function answer(request) {
  const cache = await caches.open(NAME);
  try {
    const found = await fetch(request);
    if (found.ok) {
      await cache.put(request, found.clone());
    }
    return found;
  } catch (error) {
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) {
      return kept;
    }
    throw error;
  }
}
