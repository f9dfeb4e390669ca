// Keeps models in Cache Storage. The address of an entry is that of the file, with a query that names the model and its
// folder, which tell apart models, and the version of the file.

/** @typedef {import('./files.mjs').FileEntry} FileEntry */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {{ device: import('./model.mjs').Device, reason: string, adapter: string, elements: number }} Known */
/** @typedef {{ model: string, folder: string, version: string, bytes: number }} CachedModel */

const NAME = 'deploykit';

async function open() {
  try {
    return (await globalThis.caches?.open(NAME)) ?? null;
  } catch {
    return null;
  }
}

/** What is kept of one model: one version of it. */
export class Store {
  #cache;
  #folder;
  #model;
  /** Why files are no longer kept, such as a full disk; empty as long as they are. */
  failure = '';

  /**
   * @param {Cache} cache
   * @param {URL} folder
   * @param {string} model
   */
  constructor(cache, folder, model) {
    this.#cache = cache;
    this.#folder = folder;
    this.#model = model;
  }

  /**
   * The store of a model, or null where there is no Cache Storage.
   * @param {URL} address of a file in the model's folder
   * @param {string} model
   */
  static async of(address, model) {
    const cache = await open();
    return cache && new Store(cache, new URL('.', address), model);
  }

  /**
   * Keep an entry; a full cache is no reason to fail.
   * @param {string} address
   * @param {BodyInit} body
   */
  async #put(address, body) {
    if (!this.failure) {
      await this.#cache.put(address, new Response(body)).catch((cause) => (this.failure = `${cause}`));
    }
  }

  /**
   * The address of an entry.
   * @param {URL} url
   * @param {Record<string, string | number>} query
   */
  #address(url, query) {
    const whole = { model: this.#model, folder: plain(this.#folder), ...query };
    return `${plain(url)}?${new URLSearchParams(/** @type {Record<string, string>} */ (whole))}`;
  }

  /** @param {Manifest} manifest @param {string} choice */
  #ofChoice(manifest, choice) {
    return this.#address(this.#folder, { code: codeOf(manifest), choice });
  }

  /** @param {URL} url @param {FileEntry} entry */
  #find(url, { bytes, sha256 }) {
    return this.#cache.match(this.#address(url, { bytes, sha256 })).catch(() => undefined);
  }

  /**
   * Whether a file is kept.
   * @param {URL} url
   * @param {FileEntry} entry
   */
  async has(url, entry) {
    return Boolean(await this.#find(url, entry));
  }

  /**
   * The bytes of a file, if it is kept. They may be damaged.
   * @param {URL} url
   * @param {FileEntry} entry
   * @returns {Promise<Uint8Array<ArrayBuffer> | null>}
   */
  async file(url, entry) {
    const found = await this.#find(url, entry);
    const data = await found?.arrayBuffer().catch(() => undefined);
    return data?.byteLength === entry.bytes ? new Uint8Array(data) : null;
  }

  /**
   * @param {URL} url
   * @param {FileEntry} entry
   * @param {Uint8Array<ArrayBuffer>} data
   */
  async keepFile(url, { bytes, sha256 }, data) {
    await this.#put(this.#address(url, { bytes, sha256 }), data);
  }

  /**
   * What `auto` chose.
   * @param {Manifest} manifest
   * @param {string} given what else may change the choice
   * @returns {Promise<Known | undefined>}
   */
  async choice(manifest, given) {
    return (await this.#cache.match(this.#ofChoice(manifest, given)))?.json();
  }

  /**
   * @param {Manifest} manifest
   * @param {string} given
   * @param {Known} known
   */
  async keepChoice(manifest, given, known) {
    await this.#put(this.#ofChoice(manifest, given), JSON.stringify(known));
  }

  /**
   * @param {Manifest} manifest
   * @param {string} given
   */
  async forgetChoice(manifest, given) {
    await this.#cache.delete(this.#ofChoice(manifest, given));
  }

  /**
   * Keep the manifest of the version that was loaded, and remove what only other versions have.
   * @param {Manifest} manifest
   * @param {URL} url of the manifest
   */
  async settle(manifest, url) {
    const text = JSON.stringify(manifest);
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
    const version = Array.from(digest.subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0')).join('');
    await this.#put(this.#address(url, { version }), text);
    const current = new Set([version, codeOf(manifest), ...manifest.files.map(({ sha256 }) => sha256)]);
    for (const request of await this.#cache.keys()) {
      const { model, folder, version: own, code, sha256 } = queryOf(request);
      if (model === this.#model && folder === plain(this.#folder) && !current.has(own ?? code ?? sha256)) {
        await this.#cache.delete(request);
      }
    }
  }
}

/**
 * What tells apart the code of two versions.
 * @param {Manifest} manifest
 */
function codeOf({ files }) {
  const code = files.filter(({ name }) => /\.(wasm|wgsl)$/.test(name));
  return code.map(({ sha256 }) => sha256.slice(0, 16)).join('.');
}

/** @param {URL} address */
function plain({ origin, pathname }) {
  return `${origin}${pathname}`;
}

/**
 * @param {Request} request
 * @returns {Record<string, string>}
 */
function queryOf({ url }) {
  return Object.fromEntries(new URL(url).searchParams);
}

/**
 * The manifest of the version that was loaded last.
 * @param {URL} address of the manifest
 * @returns {Promise<Manifest | undefined>}
 */
export async function keptManifest(address) {
  const cache = await open();
  const requests = (await cache?.keys()) ?? [];
  const found = requests.find(({ url }) => plain(new URL(url)) === plain(address) && url.includes('version='));
  return found && (await cache?.match(found))?.json();
}

/**
 * The models that are kept: their folders, versions and bytes.
 * @returns {Promise<CachedModel[]>}
 */
export async function cachedModels() {
  /** @type {Map<string, CachedModel>} */
  const found = new Map();
  for (const request of (await (await open())?.keys()) ?? []) {
    const { model, folder, version = '', bytes = 0 } = queryOf(request);
    const entry = found.get(`${folder} ${model}`) ?? { model, folder, version: '', bytes: 0 };
    entry.version ||= version;
    entry.bytes += Number(bytes);
    found.set(`${folder} ${model}`, entry);
  }
  return [...found.values()];
}

/**
 * Remove what is kept of the models with this name, or of all models.
 * @param {string} [model]
 */
export async function clearCache(model) {
  const cache = await open();
  for (const request of (await cache?.keys()) ?? []) {
    if (model === undefined || queryOf(request).model === model) {
      await cache?.delete(request);
    }
  }
}
