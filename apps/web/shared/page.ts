// What both pages do with their elements, and how they write names and numbers.

const NAMES: Readonly<Record<string, string>> = { auto: 'Auto', webgpu: 'WebGPU', wasm: 'WebAssembly' };

/** The element of this id. Throws a `TypeError` if the page has none of this kind. */
export function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) {
    throw new TypeError(`the page has no ${kind.name} '${id}'`);
  }
  return found;
}

/** Write a fact about the engine. */
export function show(fact: string, text: string): void {
  element(`fact-${fact}`, HTMLElement).textContent = text;
}

export function nameOf(device: string): string {
  return NAMES[device] ?? device;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function milliseconds(value: number): string {
  return value < 0.1 ? 'below 0.1 ms' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function kilobytes(bytes: number): string {
  return `${(bytes / 1000).toFixed(0)} kB`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}
