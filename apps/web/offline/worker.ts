// The service worker: keeps the files of one release of the app in a cache and serves them from there, so that the app
// works without a network after its first visit. A new release is fetched in the background and takes over when no page
// of the old one is open. Large files, which are weights, are not fetched here: the package of a model fetches them when
// its page is visited, checks them, and keeps them in a cache of its own.

export {};

declare const self: ServiceWorkerGlobalScope & {
  /** The build writes this before the code of this file: a checksum, and paths relative to this file. */
  readonly RELEASE: { readonly version: string; readonly files: readonly string[] };
};

const PREFIX = 'deploykit-digits-';
const NAME = PREFIX + self.RELEASE.version;

self.addEventListener('install', (event) => {
  event.waitUntil(keep());
});

self.addEventListener('activate', (event) => {
  event.waitUntil(takeOver());
});

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const here = request.url.startsWith(self.registration.scope);
  if (request.method === 'GET' && here && !request.headers.has('Range')) {
    event.respondWith(answer(request));
  }
});

async function keep(): Promise<void> {
  const cache = await caches.open(NAME);
  await cache.addAll(self.RELEASE.files.map((file) => new Request(file, { cache: 'no-cache' })));
}

async function takeOver(): Promise<void> {
  const old = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== NAME);
  await Promise.all(old.map((name) => caches.delete(name)));
  await self.clients.claim();
}

async function answer(request: Request): Promise<Response> {
  const cache = await caches.open(NAME);
  const wanted = new URL(request.url).pathname.endsWith('/') ? 'index.html' : request;
  return (await cache.match(wanted, { ignoreSearch: true })) ?? fetch(request);
}
