// Expressions: text to trees, as the model takes them, and their exact values.
//
//     sum     = product (('+' | '-') product)*
//     product = factor ('*' factor)*
//     factor  = '-' factor | number | '(' sum ')'

/** @typedef {{ start: number, end: number }} Span the characters of the text that a node stands for */
/**
 * @typedef {Span & (
 *   | { type: 'Number', value: number }
 *   | { type: 'Negative', operand: Tree }
 *   | { type: 'Plus' | 'Minus' | 'Times', left: Tree, right: Tree }
 * )} Tree
 */
/** @typedef {Span & { text: string }} Token */

/** The numbers that the model knows are 0 to LARGEST. */
export const LARGEST = 99;
const DEEPEST = 100;

/** @type {Record<string, 'Plus' | 'Minus' | 'Times'>} */
const OPERATORS = { '+': 'Plus', '-': 'Minus', '*': 'Times' };
/** What people type, or paste, for an operator. @type {Record<string, string>} */
const ALIKE = { '−': '-', '–': '-', '×': '*', '·': '*', '⋅': '*', x: '*' };

/** What is wrong with a text, and where. */
export class SyntaxFault extends Error {
  /**
   * @param {string} message
   * @param {Span} span
   */
  constructor(message, { start, end }) {
    super(message);
    this.start = start;
    this.end = end;
  }
}

/**
 * The tree of an expression.
 * @param {string} text
 * @returns {Tree}
 * @throws {SyntaxFault}
 */
export function parse(text) {
  return new Parser(text).whole();
}

/**
 * @param {string} text
 * @returns {Token[]}
 */
function tokensOf(text) {
  return Array.from(text.matchAll(/\d+(?:[.,]\d*)?|\S/gu), ({ 0: found, index }) => ({
    text: ALIKE[found] ?? found,
    start: index,
    end: index + found.length,
  }));
}

class Parser {
  /** @type {Token[]} */
  #tokens;
  /** @type {Token} */
  #end;
  #at = 0;
  #depth = 0;

  /** @param {string} text */
  constructor(text) {
    this.#tokens = tokensOf(text);
    const end = this.#tokens.at(-1)?.end ?? 0;
    this.#end = { text: '', start: end, end: end + 1 };
  }

  whole() {
    const tree = this.#sum();
    const { text } = this.#next;
    if (text === ')') {
      throw new SyntaxFault("this ')' closes nothing", this.#next);
    }
    if (text !== '') {
      throw this.#unexpected(`an operator is missing in front of '${text}'`);
    }
    return tree;
  }

  get #next() {
    return this.#tokens[this.#at] ?? this.#end;
  }

  #sum() {
    let left = this.#product();
    while (this.#next.text === '+' || this.#next.text === '-') {
      left = this.#operation(left, () => this.#product());
    }
    return left;
  }

  #product() {
    let left = this.#factor();
    while (this.#next.text === '*') {
      left = this.#operation(left, () => this.#factor());
    }
    return left;
  }

  /**
   * @param {Tree} left
   * @param {() => Tree} operand
   * @returns {Tree}
   */
  #operation(left, operand) {
    const type = OPERATORS[this.#next.text];
    this.#at += 1;
    const right = operand();
    return { type, left, right, start: left.start, end: right.end };
  }

  /** @returns {Tree} */
  #factor() {
    const token = this.#next;
    if (this.#depth >= DEEPEST) {
      throw new SyntaxFault(`there are more than ${DEEPEST} levels here`, token);
    }
    this.#depth += 1;
    const tree = this.#inner(token);
    this.#depth -= 1;
    return tree;
  }

  /**
   * @param {Token} token
   * @returns {Tree}
   */
  #inner(token) {
    if (/^\d/.test(token.text)) {
      return this.#number(token);
    }
    if (token.text === '-') {
      this.#at += 1;
      const operand = this.#factor();
      return { type: 'Negative', operand, start: token.start, end: operand.end };
    }
    if (token.text !== '(') {
      throw this.#missing(token);
    }
    this.#at += 1;
    const inner = this.#sum();
    if (this.#next.text !== ')') {
      throw this.#next.text === ''
        ? new SyntaxFault("this '(' is not closed", token)
        : this.#unexpected(`an operator is missing in front of '${this.#next.text}'`);
    }
    const { end } = this.#next;
    this.#at += 1;
    return { ...inner, start: token.start, end };
  }

  /**
   * @param {Token} token
   * @returns {Tree}
   */
  #number({ text, start, end }) {
    if (!/^\d+$/.test(text)) {
      throw new SyntaxFault(`the model knows whole numbers only, and ${text} is none`, { start, end });
    }
    if (Number(text) > LARGEST) {
      throw new SyntaxFault(`the model knows the numbers 0 to ${LARGEST}, and ${text} is larger`, { start, end });
    }
    this.#at += 1;
    return { type: 'Number', value: Number(text), start, end };
  }

  /** @param {Token} token that should begin an operand */
  #missing(token) {
    const before = this.#tokens[this.#at - 1];
    if (token.text !== '' && token.text !== ')' && !(token.text in OPERATORS)) {
      return this.#unexpected('');
    }
    const where = before ? `behind '${before.text}'` : token.text ? `in front of '${token.text}'` : 'here';
    return new SyntaxFault(`a number is missing ${where}`, before ?? token);
  }

  /** @param {string} message for what the language has */
  #unexpected(message) {
    const { text } = this.#next;
    const known = text in OPERATORS || /^[\d()]/.test(text);
    return new SyntaxFault(known ? message : `the model has not learned '${text}': it knows + - * ( )`, this.#next);
  }
}

/**
 * The trees that a tree consists of: its operands.
 * @param {Tree} tree
 * @returns {Tree[]}
 */
export function operandsOf(tree) {
  if (tree.type === 'Number') {
    return [];
  }
  return tree.type === 'Negative' ? [tree.operand] : [tree.left, tree.right];
}

/**
 * The exact value.
 * @param {Tree} tree
 * @returns {bigint}
 */
export function exact(tree) {
  if (tree.type === 'Number') {
    return BigInt(tree.value);
  }
  const [a, b] = operandsOf(tree).map(exact);
  return { Negative: () => -a, Plus: () => a + b, Minus: () => a - b, Times: () => a * b }[tree.type]();
}

/**
 * The remainder, 0 to 9, also of negative numbers.
 * @param {bigint} value
 */
export function modulo10(value) {
  return Number(((value % 10n) + 10n) % 10n);
}
