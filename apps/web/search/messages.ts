// What the page and the worker tell each other. Texts and queries have numbers, so that answers to older ones are known.

import type { Hit } from './vectors';

export type Request =
  | { readonly kind: 'load'; readonly device: string }
  | { readonly kind: 'text'; readonly number: number; readonly text: string }
  | { readonly kind: 'query'; readonly number: number; readonly query: string };

export type Reply =
  /** Bytes of the model that are there. */
  | { readonly kind: 'loading'; readonly loaded: number; readonly total: number }
  /** The model is loaded, or has changed its device. Times are in milliseconds, memory in bytes. */
  | {
      readonly kind: 'ready';
      readonly chosen: string;
      readonly device: string;
      readonly reason: string;
      readonly threads: number;
      readonly loading: number;
      readonly weights: number;
    }
  /** Whether the package has kept the files for the device. */
  | { readonly kind: 'kept'; readonly device: string; readonly kept: boolean }
  /** Where the passages of the text begin and end, in turn. */
  | { readonly kind: 'passages'; readonly text: number; readonly bounds: Uint32Array }
  /** How many passages have a vector, and how many get one in a second. */
  | { readonly kind: 'indexed'; readonly text: number; readonly done: number; readonly perSecond: number }
  | { readonly kind: 'found'; readonly text: number; readonly query: number; readonly hits: readonly Hit[]; readonly milliseconds: number }
  | { readonly kind: 'failed'; readonly during: 'load' | 'run'; readonly device: string; readonly message: string };
