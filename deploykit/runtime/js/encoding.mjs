// Instances as words.
//
// An instance is what the model's `main` takes: objects such as `{ type: 'Node', left, right }`, arrays, numbers and
// booleans. `type` may be left out where there is one dataclass. A tensor is a Float32Array of all its elements, or
// nested arrays. Several parameters are an array. An object that occurs several times is stored once.
//
// The words are those of `runtime/batching/instances.h`: each record comes after those that it refers to.

import { DataError, ShapeError } from './errors.mjs';
import { isArray } from './inputs.mjs';
import { sizeOf } from './signatures.mjs';

/** @typedef {import('./signatures.mjs').Type} Type */
/** @typedef {{ words: Int32Array, roots: Int32Array, elements: Float32Array, objects: () => Map<number, unknown> }} Encoded */
/** @typedef {readonly [unknown, Type]} Part a value and its type */
/** @typedef {{ tag: number, parts: readonly Part[] }} Opened the number of the dataclass, and the fields or items */

/** Where the items of a list are, behind its handle. */
const LIST_ITEMS = 4;
/** In place of a handle: the record is not complete. Word 0 belongs to no record. */
const OPEN = 0;

/**
 * The words of instances, and what the handles of records stand for. An error names the instance that does not fit.
 * @param {Type} takes a tuple of the parameters
 * @param {readonly unknown[]} instances
 * @returns {Encoded}
 * @throws {ShapeError | DataError}
 */
export function encode(takes, instances) {
  if (!Array.isArray(instances)) {
    throw new ShapeError(`expected an array of instances, found ${named(instances)}`);
  }
  const encoder = new Encoder();
  /** @type {number[]} */
  const roots = [];
  instances.forEach((instance, number) => {
    try {
      encoder.add(takes.items.length === 1 ? [instance] : instance, takes, roots);
    } catch (error) {
      if (!(error instanceof ShapeError)) {
        throw error;
      }
      const Same = error instanceof DataError ? DataError : ShapeError;
      throw new Same(`instance ${number}: ${error.message}`);
    }
  });
  const [words, elements, objects] = [Int32Array.from(encoder.words), encoder.elements(), () => encoder.objects()];
  return { words, roots: Int32Array.from(roots), elements, objects };
}

class Encoder {
  words = [0];
  /** @type {Float32Array[]} */
  #tensors = [];
  #count = 0;
  /** @type {Map<Type, Map<unknown, number>>} */
  #handles = new Map();

  /** The elements of all tensors. */
  elements() {
    const all = new Float32Array(this.#count);
    let at = 0;
    for (const tensor of this.#tensors) {
      all.set(tensor, at);
      at += tensor.length;
    }
    return all;
  }

  /**
   * What the handles of records stand for.
   * @returns {Map<number, unknown>}
   */
  objects() {
    const pairs = [...this.#handles.values()].flatMap((handles) => [...handles]);
    return new Map(pairs.map(([object, handle]) => [handle, object]));
  }

  /**
   * Append the words of a value. What it refers to is stored first, without recursion: instances may be deep.
   * @param {unknown} value
   * @param {Type} type
   * @param {number[]} words
   */
  add(value, type, words) {
    /** @type {{ value: unknown, type: Type, opened?: Opened }[]} */
    const stack = [];
    const push = (/** @type {unknown} */ part, /** @type {Type} */ own) => {
      if (own.kind === 'tuple') {
        itemsOf(part, own).forEach((item, index) => push(item, own.items[index]));
      } else if (['union', 'list', 'Tensor'].includes(own.kind)) {
        stack.push({ value: part, type: own });
      }
    };
    push(value, type);
    for (let top = stack.pop(); top; top = stack.pop()) {
      const handles = this.#handlesOf(top.type);
      const handle = handles.get(top.value);
      if (top.opened) {
        handles.set(top.value, this.#store(top.value, top.type, top.opened));
      } else if (handle === OPEN) {
        throw new DataError(`a ${top.type.text} contains itself`);
      } else if (handle === undefined) {
        const opened = openedOf(top.value, top.type);
        handles.set(top.value, OPEN);
        stack.push({ ...top, opened });
        opened.parts.forEach(([part, own]) => push(part, own));
      }
    }
    this.#inline(value, type, words);
  }

  /** @param {Type} type */
  #handlesOf(type) {
    const handles = this.#handles.get(type) ?? new Map();
    this.#handles.set(type, handles);
    return handles;
  }

  /**
   * Append the record of a value whose parts are stored; returns its handle.
   * @param {unknown} value
   * @param {Type} type
   * @param {Opened} opened
   */
  #store(value, type, { tag, parts }) {
    const { words } = this;
    const handle = words.length;
    if (type.kind === 'Tensor') {
      words.push(this.#count, 0);
      this.#tensors.push(elementsOf(value, type));
      this.#count += sizeOf(type);
    } else if (type.kind === 'list') {
      words.push(parts.length, handle + LIST_ITEMS, parts.length, parts.length);
    } else {
      words.push(tag);
    }
    parts.forEach(([part, own]) => this.#inline(part, own, words));
    return handle;
  }

  /**
   * Append the words of a value where it stands.
   * @param {unknown} value
   * @param {Type} type
   * @param {number[]} words
   */
  #inline(value, type, words) {
    if (type.kind === 'int') {
      words.push(wholeOf(value));
    } else if (type.kind === 'tuple') {
      itemsOf(value, type).forEach((item, index) => this.#inline(item, type.items[index], words));
    } else if (type.kind === 'bool' || type.kind === 'float') {
      if (typeof value !== (type.kind === 'bool' ? 'boolean' : 'number')) {
        throw unexpected(type.text, value);
      }
      words.push(...(typeof value === 'number' ? new Int32Array(Float64Array.of(value).buffer) : [Number(value)]));
    } else {
      words.push(Number(this.#handlesOf(type).get(value)));
    }
  }
}

/** @param {unknown} value */
function wholeOf(value) {
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw unexpected('int', value);
  }
  if (value !== (value | 0)) {
    throw new DataError(`integers have 32 bits, found ${value}`);
  }
  return value;
}

/**
 * The items of a tuple.
 * @param {unknown} value
 * @param {Type} type
 * @returns {readonly unknown[]}
 */
function itemsOf(value, type) {
  if (!Array.isArray(value) || value.length !== type.items.length) {
    throw unexpected(`${type.text} as an array`, value);
  }
  return value;
}

/**
 * The fields of an object, or the items of a list; nothing for a tensor.
 * @param {unknown} value
 * @param {Type} type
 * @returns {Opened}
 */
function openedOf(value, type) {
  if (type.kind === 'list') {
    if (!Array.isArray(value) && !(ArrayBuffer.isView(value) && 'length' in value)) {
      throw unexpected(`${type.text} as an array`, value);
    }
    return { tag: 0, parts: Array.from(/** @type {ArrayLike<unknown>} */ (value), (item) => [item, type.items[0]]) };
  }
  if (type.kind === 'Tensor') {
    return { tag: 0, parts: [] };
  }
  const { variants } = type;
  const object = /** @type {Record<string, unknown>} */ (value !== null && typeof value === 'object' ? value : {});
  const found = variants.findIndex(({ name }) => name === object.type);
  const tag = found < 0 && variants.length === 1 && object === value ? 0 : found;
  if (tag < 0) {
    const forms = variants.map(({ name, fields }) => `${name}(${fields.map(([field]) => field).join(', ')})`);
    throw unexpected(`${type.text}: ${forms.join(' or ')}`, value);
  }
  const { name, fields } = variants[tag];
  const missing = fields.find(([field]) => object[field] === undefined);
  if (missing) {
    throw new ShapeError(`'${name}' needs a field '${missing[0]}'`);
  }
  return { tag, parts: fields.map(([field, own]) => [object[field], own]) };
}

/**
 * The elements of a tensor, which is one array of all of them, or nested arrays.
 * @param {unknown} value
 * @param {Type} type
 */
function elementsOf(value, type) {
  const elements = new Float32Array(sizeOf(type));
  let at = 0;
  /** @type {(part: unknown, axis: number) => boolean} */
  const fits = (part, axis) => {
    const size = type.shape.slice(axis).reduce((product, extent) => product * extent, 1);
    if (isArray(part, 'Float32Array') && /** @type {Float32Array} */ (part).length === size) {
      elements.set(/** @type {Float32Array} */ (part), at);
      at += size;
      return true;
    }
    if (axis < type.shape.length) {
      return Array.isArray(part) && part.length === type.shape[axis] && part.every((each) => fits(each, axis + 1));
    }
    if (typeof part === 'number') {
      elements[at] = part;
      at += 1;
    }
    return typeof part === 'number';
  };
  if (!fits(value, 0)) {
    throw unexpected(`${type.text} as Float32Array of ${elements.length} or nested arrays of numbers`, value);
  }
  return elements;
}

/**
 * @param {string} wanted
 * @param {unknown} value
 */
function unexpected(wanted, value) {
  return new ShapeError(`expected ${wanted}, found ${named(value)}`);
}

/**
 * A value in a message.
 * @param {unknown} value
 */
function named(value) {
  if (value === undefined || value === null) {
    return `${value}`;
  }
  if (typeof value !== 'object') {
    return typeof value === 'string' ? `'${value.slice(0, 40)}'` : `${typeof value} ${String(value).slice(0, 40)}`;
  }
  const { length, type, constructor } = /** @type {Record<string, unknown>} */ (value);
  if (typeof length === 'number') {
    return `${/** @type {Function} */ (constructor).name} of length ${length}`;
  }
  const fields = Object.keys(value).filter((name) => name !== 'type');
  const what = type === undefined ? 'an object' : `an object of type '${type}'`;
  return `${what} with ${fields.slice(0, 8).join(', ') || 'no fields'}`;
}
