// Results as values: a number, a boolean, a Float32Array for a tensor, an array for a list or a tuple, and an object with
// its `type` for a dataclass.

import { sizeOf } from './signatures.mjs';

/** @typedef {import('./signatures.mjs').Type} Type */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ type: Type, words: Int32Array }} Words a type, and the words of a value where it stands */

/**
 * What each instance returned.
 * @param {Type} gives
 * @param {readonly Tensor[]} outputs
 * @param {number} batch
 */
export function decode(gives, outputs, batch) {
  return isFlat(gives) ? columnsOf(gives, outputs, batch) : recordsOf(gives, outputs, batch);
}

/**
 * Whether results are arrays: tensors, numbers, lists of them, and tuples of these. Others are records.
 * @param {Type} type
 * @returns {boolean}
 */
function isFlat({ kind, items }) {
  if (kind === 'list') {
    return !['list', 'tuple', 'union'].includes(items[0].kind);
  }
  return kind === 'tuple' ? items.every(isFlat) : kind !== 'union';
}

/**
 * The results in arrays over the batch; those of a list are its items and its lengths.
 * @param {Type} gives
 * @param {readonly Tensor[]} outputs
 * @param {number} batch
 * @returns {unknown[]}
 */
function columnsOf(gives, outputs, batch) {
  const left = [...outputs];
  const next = () => /** @type {Tensor} */ (left.shift()).data;
  /** @type {(type: Type) => unknown[]} */
  const column = (type) => {
    if (type.kind === 'tuple') {
      const columns = type.items.map(column);
      return Array.from({ length: batch }, (_, row) => columns.map((own) => own[row]));
    }
    const list = type.kind === 'list';
    const own = list ? type.items[0] : type;
    const values = next();
    const size = own.kind === 'Tensor' ? sizeOf(own) : 1;
    const value = (/** @type {number} */ at) => {
      if (own.kind === 'Tensor') {
        return values.slice(at * size, (at + 1) * size);
      }
      return own.kind === 'bool' ? Boolean(values[at]) : Number(values[at]);
    };
    let end = 0;
    const lengths = list ? Array.from(next(), Number) : null;
    return Array.from({ length: batch }, (_, row) => {
      const first = end;
      end += lengths ? lengths[row] : 1;
      return lengths ? Array.from({ length: lengths[row] }, (__, item) => value(first + item)) : value(first);
    });
  };
  return column(gives);
}

/**
 * The results in words, like instances: `outputs` are roots, words and elements.
 * @param {Type} gives
 * @param {readonly Tensor[]} outputs
 * @param {number} batch
 * @returns {unknown[]}
 */
function recordsOf(gives, outputs, batch) {
  const [roots, words, elements] = outputs.map(({ data }) => data);
  const decoder = new Decoder(/** @type {Int32Array} */ (words), /** @type {Float32Array} */ (elements));
  const width = widthOf(gives);
  return Array.from({ length: batch }, (_, row) => {
    return decoder.value(gives, /** @type {Int32Array} */ (roots).subarray(row * width, (row + 1) * width));
  });
}

class Decoder {
  #words;
  #elements;
  /** @type {Map<Type, Map<number, unknown>>} */
  #made = new Map();

  /**
   * @param {Int32Array} words
   * @param {Float32Array} elements
   */
  constructor(words, elements) {
    this.#words = words;
    this.#elements = elements;
  }

  /**
   * The value of words. What they refer to is made first, without recursion: results may be deep.
   * @param {Type} type
   * @param {Int32Array} words
   */
  value(type, words) {
    const waiting = [...handlesIn(type, words)];
    for (let top = waiting.at(-1); top; top = waiting.at(-1)) {
      const [own, handle] = top;
      const made = this.#madeOf(own);
      const parts = made.has(handle) ? [] : this.#parts(own, handle);
      const missing = parts
        .flatMap((part) => handlesIn(part.type, part.words))
        .filter(([each, at]) => !this.#madeOf(each).has(at));
      if (missing.length > 0) {
        missing.forEach((part) => waiting.push(part));
        continue;
      }
      waiting.pop();
      if (!made.has(handle)) {
        made.set(handle, this.#object(own, handle, parts));
      }
    }
    return this.#inline(type, words);
  }

  /** @param {Type} type */
  #madeOf(type) {
    const made = this.#made.get(type) ?? new Map();
    this.#made.set(type, made);
    return made;
  }

  /**
   * The types and words of the fields, or of the items.
   * @param {Type} type
   * @param {number} handle
   */
  #parts(type, handle) {
    const words = this.#words;
    if (type.kind === 'list') {
      const item = Array.from({ length: words[handle] }, () => type.items[0]);
      return split(item, words.subarray(words[handle + 1]));
    }
    const fields = type.kind === 'union' ? type.variants[words[handle]].fields : [];
    return split(
      fields.map(([, own]) => own),
      words.subarray(handle + 1),
    );
  }

  /**
   * @param {Type} type
   * @param {number} handle
   * @param {readonly Words[]} parts
   */
  #object(type, handle, parts) {
    if (type.kind === 'Tensor') {
      const first = this.#words[handle];
      return this.#elements.slice(first, first + sizeOf(type));
    }
    const values = parts.map((part) => this.#inline(part.type, part.words));
    if (type.kind === 'list') {
      return values;
    }
    const { name, fields } = type.variants[this.#words[handle]];
    return { type: name, ...Object.fromEntries(fields.map(([field], index) => [field, values[index]])) };
  }

  /**
   * @param {Type} type
   * @param {Int32Array} words
   * @returns {unknown}
   */
  #inline(type, words) {
    if (type.kind === 'tuple') {
      return split(type.items, words).map((item) => this.#inline(item.type, item.words));
    }
    if (type.kind === 'float') {
      return new Float64Array(Int32Array.of(words[0], words[1]).buffer)[0];
    }
    if (type.kind === 'bool') {
      return Boolean(words[0]);
    }
    return type.kind === 'int' ? words[0] : this.#madeOf(type).get(words[0]);
  }
}

/**
 * How many words a value takes where it stands.
 * @param {Type} type
 * @returns {number}
 */
function widthOf({ kind, items }) {
  return kind === 'tuple' ? items.reduce((total, item) => total + widthOf(item), 0) : kind === 'float' ? 2 : 1;
}

/**
 * The words of values that lie side by side.
 * @param {readonly Type[]} types
 * @param {Int32Array} words
 * @returns {Words[]}
 */
function split(types, words) {
  let at = 0;
  return types.map((type) => {
    const first = at;
    at += widthOf(type);
    return { type, words: words.subarray(first, at) };
  });
}

/**
 * What a value refers to: types and handles.
 * @param {Type} type
 * @param {Int32Array} words
 * @returns {(readonly [Type, number])[]}
 */
function handlesIn(type, words) {
  if (type.kind === 'tuple') {
    return split(type.items, words).flatMap((item) => handlesIn(item.type, item.words));
  }
  return ['Tensor', 'list', 'union'].includes(type.kind) ? [[type, words[0]]] : [];
}
