// The types of a dynamic model, from their texts in the manifest: `int`, `bool`, `float`, `Tensor[4, 64]`, `list[int]`,
// `tuple[int, Tree]`, and the names of unions of dataclasses. `Tensor["n", 64]` is the list of its rows.

/** @typedef {{ name: string, fields: Record<string, string> }} VariantEntry a dataclass: the types of its fields */
/**
 * @typedef {object} DynamicEntry how a model is called, in the manifest
 * @property {Record<string, string>} takes the types of the parameters
 * @property {string} gives
 * @property {Record<string, readonly VariantEntry[]>} unions
 * @property {readonly { name: string }[]} cells
 * @property {string} policy
 */
/** @typedef {{ name: string, fields: readonly (readonly [string, Type])[] }} Variant */
/**
 * A type. Equal types of a signature are one object.
 * @typedef {object} Type
 * @property {string} text
 * @property {string} kind `int`, `bool`, `float`, `Tensor`, `list`, `tuple` or `union`
 * @property {readonly number[]} shape of a tensor
 * @property {readonly Type[]} items of a tuple; the only one is that of a list
 * @property {readonly Variant[]} variants of a union
 */
/** @typedef {{ takes: Type, gives: Type }} Signature `takes` is a tuple */

/**
 * @param {DynamicEntry} entry
 * @returns {Signature}
 */
export function signatureOf({ takes, gives, unions }) {
  /** @type {Map<string, Type>} */
  const known = new Map();
  /** @type {(text: string) => Type} */
  const typeOf = (text) => known.get(text) ?? made(text);
  const made = (/** @type {string} */ text) => {
    const row = /^Tensor\["[^"]*"(?:, (.*))?\]$/.exec(text);
    if (row !== null) {
      /** @type {Type} */
      const rows = { text, kind: 'list', shape: [], items: [typeOf(`Tensor[${row[1] ?? '()'}]`)], variants: [] };
      known.set(text, rows);
      return rows;
    }
    const [, kind, inner] = /** @type {RegExpExecArray} */ (/^([^[]*)(?:\[(.*)\])?$/.exec(text));
    /** @type {Type} */
    const type = { text, kind: kind in unions ? 'union' : kind, shape: [], items: [], variants: [] };
    // Noted before its parts are made, because these may refer to it.
    known.set(text, type);
    const parts = partsOf(inner ?? '');
    return Object.assign(type, {
      shape: kind === 'Tensor' ? parts.filter((part) => part !== '()').map(Number) : [],
      items: kind === 'Tensor' ? [] : parts.map(typeOf),
      variants: (unions[kind] ?? []).map(({ name, fields }) => {
        return { name, fields: Object.entries(fields).map(([field, own]) => [field, typeOf(own)]) };
      }),
    });
  };
  return { takes: typeOf(`tuple[${Object.values(takes).join(', ')}]`), gives: typeOf(gives) };
}

/**
 * The parts of a text between its outer commas.
 * @param {string} text
 */
function partsOf(text) {
  const parts = [''];
  let depth = 0;
  for (const letter of text) {
    depth += Number(letter === '[') - Number(letter === ']');
    if (letter === ',' && depth === 0) {
      parts.push('');
    } else {
      parts[parts.length - 1] += letter;
    }
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

/**
 * The number of elements of a tensor.
 * @param {Type} type
 */
export function sizeOf({ shape }) {
  return shape.reduce((product, extent) => product * extent, 1);
}
