// The build: the pages whose models are built, and the service worker with the list of all files that the app consists
// of.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

/** A page: its file, the folder of the package that it needs, its TypeScript project, and its name in the links. */
const PAGES = [
  { file: 'index.html', package: 'digits', project: '.', name: 'Draw a digit' },
  { file: 'search.html', package: 'minilm', project: 'search', name: 'Search by meaning' },
  { file: 'chat.html', package: 'smol', project: 'chat', name: 'Chat' },
].filter((page) => existsSync(join(import.meta.dirname, page.package)));

/** With these headers, pages may share memory between threads and get exact clocks. */
const headers = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

const WORKER = 'worker.js';
/** Larger files are weights, which the package of a model keeps. */
const LARGE = 1 << 20;

export default defineConfig({
  base: './',
  server: { headers },
  preview: { headers },
  worker: { format: 'es' },
  build: {
    target: 'es2022',
    rollupOptions: {
      input: Object.fromEntries([
        ...PAGES.map(({ file }) => [basename(file, '.html'), file]),
        ['worker', 'offline/worker.ts'],
      ]),
      output: { entryFileNames: ({ name }) => (name === 'worker' ? WORKER : 'assets/[name]-[hash].js') },
    },
  },
  plugins: [types(), links(), release()],
});

/** Checks the types before a build. */
function types(): Plugin {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  return {
    name: 'types',
    apply: 'build',
    buildStart() {
      if (PAGES.length === 0) {
        this.error('no model is built: see README.md');
      }
      for (const project of [...PAGES.map((page) => page.project), 'offline']) {
        execFileSync(process.execPath, [tsc, '--project', project], { cwd: import.meta.dirname, stdio: 'inherit' });
      }
    },
  };
}

/** Writes the links between the pages, if there are several. */
function links(): Plugin {
  return {
    name: 'links',
    transformIndexHtml(html, { filename }) {
      const items = PAGES.map(({ file, name }) => {
        const current = file === basename(filename) ? ' aria-current="page"' : '';
        return `<a href="./${file}"${current}>${name}</a>`;
      });
      const nav = PAGES.length > 1 ? `<nav aria-label="Pages">${items.join('')}</nav>` : '';
      return html.replace('<!-- pages -->', nav);
    },
  };
}

/** Writes the names of the files, and their checksum, before the code of the service worker. */
function release(): Plugin {
  return {
    name: 'release',
    apply: 'build',
    writeBundle({ dir = 'dist' }) {
      const all = readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(dir.length + 1).replaceAll('\\', '/'))
        .filter((file) => file !== WORKER)
        .sort();
      const hash = createHash('sha256');
      for (const file of all) {
        hash.update(file).update(readFileSync(join(dir, file)));
      }
      const files = all.filter((file) => statSync(join(dir, file)).size <= LARGE);
      const found = JSON.stringify({ version: hash.digest('hex').slice(0, 12), files });
      const code = readFileSync(join(dir, WORKER), 'utf8');
      writeFileSync(join(dir, WORKER), `self.RELEASE = ${found};\n${code}`);
    },
  };
}
