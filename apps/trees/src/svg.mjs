// Elements of pictures, and what the nodes in them are called.

/** @typedef {import('./parser.mjs').Tree} Tree */

const NAMESPACE = 'http://www.w3.org/2000/svg';

/**
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number>} attributes
 * @param {(Node | string)[]} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, String(value));
  }
  made.append(...children);
  return made;
}

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/**
 * A text with a mark on a part of it; a space, where that is behind its end.
 * @param {string} text
 * @param {import('./parser.mjs').Span} span
 */
export function markedText(text, { start, end }) {
  return [text.slice(0, start), html('mark', {}, text.slice(start, end) || ' '), text.slice(end)];
}

/** @type {Record<Tree['type'] | 'Answer', { sign: string, name: string }>} */
const KINDS = {
  Number: { sign: '#', name: 'number' },
  Negative: { sign: '±', name: 'negative' },
  Plus: { sign: '+', name: 'plus' },
  Minus: { sign: '−', name: 'minus' },
  Times: { sign: '×', name: 'times' },
  Answer: { sign: '=', name: 'last digit' },
};

/** @param {import('./engine.mjs').Use} use */
export function kindOf({ answers, tree }) {
  return KINDS[answers ? 'Answer' : tree.type];
}

/**
 * A number or an operator, in its circle.
 * @param {Tree} tree
 */
export function signOf(tree) {
  return tree.type === 'Number' ? String(tree.value) : KINDS[tree.type].sign;
}

/**
 * The class of the colour of a cell.
 * @param {number} cell
 */
export function colourOf(cell) {
  return `cell-${cell % 8}`;
}
