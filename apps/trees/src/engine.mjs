// The model: answers for expressions, and the schedule of each policy.

/** @typedef {import('./parser.mjs').Tree} Tree */
/** @typedef {import('../arithmetic/index.mjs').Model} Model */
/** @typedef {import('../arithmetic/index.mjs').Policy} Policy */
/**
 * One use of a cell. `expression` and `tree` are what it computes; `answers` says that it is the reading of the digit
 * at the end, and no operator.
 * @typedef {{ id: string, launch: number, cell: number, expression: number, tree: Tree, answers: boolean }} Use
 */
/** @typedef {{ digit: number, probability: number }} Answer */
/** @typedef {{ answers: Answer[], cells: string[], launches: Use[][] }} Run `launches` in order */

/** @type {readonly Policy[]} */
export const POLICIES = ['critical', 'depth', 'agenda', 'fsm', 'alone'];

/** The cell that reads the digit from a vector is named after the function that uses it. */
const READING = 'main';

export class Engine {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
  }

  /** Load the package of the model. It is imported here, so that the page can say that it is missing. */
  static async open() {
    const { load } = await import('../arithmetic/index.mjs');
    return new Engine(await load());
  }

  /**
   * Run all expressions with a policy.
   * @param {Tree[]} trees
   * @param {Policy} policy
   * @returns {Promise<Run>}
   */
  async run(trees, policy) {
    const results = await this.model.run(trees, { policy, trace: true });
    const cells = this.model.launches.map(([cell]) => cell);
    const launches = this.model.trace.map(({ cell, nodes }, launch) =>
      nodes.map(({ instance, object }, index) => ({
        id: `${launch}-${index}`,
        launch,
        cell: cells.indexOf(cell),
        expression: instance,
        tree: /** @type {Tree} */ (object),
        answers: cell === READING,
      })),
    );
    return { answers: results.map(answerOf), cells, launches };
  }

  /**
   * The schedule of each policy for the same expressions.
   * @param {Tree[]} trees
   * @returns {Promise<Map<Policy, Run>>}
   */
  async runAll(trees) {
    /** @type {Map<Policy, Run>} */
    const found = new Map();
    for (const policy of POLICIES) {
      found.set(policy, await this.run(trees, policy));
    }
    return found;
  }
}

/**
 * @param {Float32Array} probabilities
 * @returns {Answer}
 */
function answerOf(probabilities) {
  const probability = Math.max(...probabilities);
  return { digit: probabilities.indexOf(probability), probability };
}
