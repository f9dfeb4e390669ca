// How an answer is written: what chooses its tokens, and the texts that end it.

import { UsageError } from './errors.mjs';

/** The settings of `dk_sampling`, in its order, with those that choose the most probable token. */
export const SETTINGS = {
  temperature: 0,
  topK: 0,
  typicalP: 1,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  penaltyLast: 64,
};

/**
 * The settings of an answer.
 * @param {Record<string, any>} asked
 * @param {number} words
 */
export function settingsOf(asked, words) {
  const numbers = Object.entries(SETTINGS).map(([name, usual]) => {
    const value = asked[name] ?? usual;
    const [low, high] = name.endsWith('P') ? [0, 1] : name.endsWith('Penalty') ? [-1e30, 1e30] : [name === 'penaltyLast' ? -1 : 0, 1e30];
    const whole = name === 'topK' || name === 'penaltyLast';
    if (!(value >= low && value <= high) || (whole && !Number.isInteger(value)) || (name === 'repetitionPenalty' && value <= 0)) {
      throw new UsageError(`${name} is ${value}, which is not possible`);
    }
    return Number(value);
  });
  const biases = Object.entries(asked.logitBias ?? {}).map(([token, value]) => {
    if (!(Number(token) >= 0 && Number(token) < words) || Number.isNaN(value) || value > 1e30) {
      throw new UsageError(`logitBias has ${token}: ${value}, which is not possible`);
    }
    return /** @type {[number, number]} */ ([Number(token), Number(value)]);
  });
  const { seed = 0 } = asked;
  if (!(typeof seed === 'bigint' || Number.isSafeInteger(seed)) || seed < 0 || BigInt(seed) >= 1n << 64n) {
    throw new UsageError(`seed must be a whole number of 64 bits, 0 or more, found ${seed}`);
  }
  return { numbers, biases, random: BigInt(seed) };
}

/** Texts that end an answer: what may be the beginning of one is held back. */
export class Stops {
  held = '';

  /** @param {readonly string[]} texts */
  constructor(texts) {
    if (!Array.isArray(texts) || !texts.every((text) => typeof text === 'string' && text)) {
      throw new UsageError('stop takes a list of texts, none of them empty');
    }
    this.texts = texts;
  }

  /** What can be shown after further text, and whether a stop was found. */
  add(/** @type {string} */ more) {
    const text = this.held + more;
    const places = this.texts.map((stop) => text.indexOf(stop)).filter((place) => place >= 0);
    let end = Math.min(text.length, ...places);
    const found = places.length > 0;
    for (let place = 0; !found && place < end; place++) {
      if (this.texts.some((stop) => stop.startsWith(text.slice(place)))) {
        end = place;
      }
    }
    this.held = found ? '' : text.slice(end);
    return { shown: text.slice(0, end), found };
  }
}
