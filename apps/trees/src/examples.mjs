// Expressions to begin with, and random ones.

export const FIRST = ['(3 + 4) * 2 - 1', '7 * (8 + 5) - 6 * (2 - 9)', '12 - (3 - (4 - (5 - 6)))', '-(9 + 1) * (2 + 3 * 4) + 58'];

const COUNT = 6;

/** @param {number} most */
const upTo = (most) => Math.floor(Math.random() * most);

/**
 * A random expression of so many numbers.
 * @param {number} numbers
 * @returns {string}
 */
function expression(numbers) {
  if (numbers === 1) {
    return `${upTo(8) === 0 ? '-' : ''}${upTo(4) === 0 ? upTo(100) : 1 + upTo(9)}`;
  }
  const first = 1 + upTo(numbers - 1);
  const parts = [first, numbers - first].map((count) => (count > 1 && upTo(4) ? `(${expression(count)})` : expression(count)));
  return parts.join(` ${'+-*'[upTo(3)]} `);
}

/** Some lines of random expressions. */
export function examples() {
  return Array.from({ length: COUNT }, () => expression(2 + upTo(7)));
}
