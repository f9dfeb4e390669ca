// Models that compare pictures with texts, such as CLIP: which texts fit a picture.

import { answering, Call, eachOf } from './answering.mjs';
import { pixelsOf } from './canvas.mjs';
import { ShapeError } from './errors.mjs';
import { labelled } from './labels.mjs';
import { prepared } from './pixels.mjs';
import { fetchTokenizer } from './texts.mjs';
import { publicOf } from './tokenizer.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./labels.mjs').Label} Label */
/** @typedef {import('./canvas.mjs').Picture} Picture */
/** @typedef {import('./pixels.mjs').Steps} Steps */
/** @typedef {import('./tokenizer.mjs').Tokenizer} Tokenizer */

/**
 * @typedef {object} Task
 * @property {string} pixels
 * @property {Steps} picture
 * @property {string} ids
 * @property {string | null} mask
 * @property {number | null} most_tokens
 * @property {number | null} padding
 * @property {string[]} outputs
 * @property {'softmax' | 'sigmoid'} scores
 */

/** A function that loads a model of pictures with texts, from one that loads any model. */
export const pairs = answering(fetchTokenizer, methodsOf, (_, { tokenizer, task }, { picture, texts }) => {
  const known = /** @type {any} */ (task);
  return { [known.pixels]: prepared(pixelsOf(picture), known.picture), ...tokensOf(tokenizer, known, texts) };
});

/**
 * The method of a model with this task.
 * @param {Model} model
 * @param {{ tokenizer: Tokenizer, task: any }} fetched
 */
function methodsOf(model, { tokenizer, task }) {
  const { pixels, picture, outputs, scores } = /** @type {Task} */ (task);
  return {
    tokenizer: publicOf(tokenizer, task.most_tokens),
    mostTokens: /** @type {number | null} */ (task.most_tokens),
    match: async (
      /** @type {Picture | readonly Picture[]} */ given,
      /** @type {readonly string[]} */ texts,
      /** @type {import('./answering.mjs').CallOptions | undefined} */ options,
    ) => {
      const inputs = tokensOf(tokenizer, task, texts);
      return eachOf(
        given,
        ({ length }) => new Call('match', options, [], length),
        async (/** @type {Picture} */ one, call) => {
          const given = { [pixels]: prepared(pixelsOf(one), picture), ...inputs };
          const results = await model.run(/** @type {any} */ (given), { signal: call.signal });
          return labelled(/** @type {any} */ (results)[outputs[0]].data, texts, scores);
        },
      );
    },
  };
}

/**
 * The inputs for texts, padded to the longest one, or to the most tokens if padding counts.
 * @param {Tokenizer} tokenizer
 * @param {Task} task
 * @param {readonly string[]} texts
 */
function tokensOf(tokenizer, { ids, mask, most_tokens: most, padding }, texts) {
  if (!Array.isArray(texts) || !texts.length || texts.some((text) => typeof text !== 'string')) {
    throw new ShapeError('the texts that may fit must be a list of strings, and not empty');
  }
  const rows = texts.map((text) => tokenizer.encode(text, null, most ?? 0).ids);
  const longest = Math.max(...rows.map(({ length }) => length));
  const shape = [rows.length, padding === null ? longest : Number(most)];
  const data = new BigInt64Array(shape[0] * shape[1]).fill(BigInt(padding ?? 0));
  const counts = new BigInt64Array(data.length);
  rows.forEach((row, number) => {
    data.set(BigInt64Array.from(row, BigInt), number * shape[1]);
    counts.fill(1n, number * shape[1], number * shape[1] + row.length);
  });
  return { [ids]: { data, shape }, ...(mask === null ? {} : { [mask]: { data: counts, shape } }) };
}
