// The build: one page, and the service worker with the list of all files that the app consists of.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

/** With these headers, pages may share memory between threads and get exact clocks. */
const headers = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

const WORKER = 'worker.js';

export default defineConfig({
  base: './',
  server: { headers },
  preview: { headers },
  build: {
    target: 'es2022',
    rollupOptions: {
      input: { index: 'index.html', worker: 'offline/worker.ts' },
      output: { entryFileNames: ({ name }) => (name === 'worker' ? WORKER : 'assets/[name]-[hash].js') },
    },
  },
  plugins: [release()],
});

/** Writes the names of the files, and their checksum, before the code of the service worker. */
function release(): Plugin {
  return {
    name: 'release',
    apply: 'build',
    writeBundle({ dir = 'dist' }) {
      const files = readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(dir.length + 1).replaceAll('\\', '/'))
        .filter((file) => file !== WORKER)
        .sort();
      const hash = createHash('sha256');
      for (const file of files) {
        hash.update(file).update(readFileSync(join(dir, file)));
      }
      const found = JSON.stringify({ version: hash.digest('hex').slice(0, 12), files });
      const code = readFileSync(join(dir, WORKER), 'utf8');
      writeFileSync(join(dir, WORKER), `self.RELEASE = ${found};\n${code}`);
    },
  };
}
