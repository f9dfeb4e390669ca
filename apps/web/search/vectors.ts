// Vectors of passages, and which of them are closest to the vector of a query.

export interface Hit {
  /** The number of the passage. */
  readonly passage: number;
  /** The cosine of the angle between passage and query, from -1 to 1. */
  readonly score: number;
}

export class Vectors {
  /** The vectors, one after the other. */
  #data = new Float32Array(0);
  #width = 0;
  /** How many there are. */
  count = 0;

  /** `most` is the number of vectors to come. All must have length 1. */
  constructor(readonly most: number) {}

  add(vector: Float32Array): void {
    if (this.count === 0) {
      this.#width = vector.length;
      this.#data = new Float32Array(this.most * vector.length);
    }
    this.#data.set(vector, this.count * this.#width);
    this.count += 1;
  }

  at(passage: number): Float32Array {
    return this.#data.subarray(passage * this.#width, (passage + 1) * this.#width);
  }

  /** The passages that are closest to the query, the closest first. */
  closest(query: Float32Array, most: number): Hit[] {
    const hits: Hit[] = [];
    for (let passage = 0; passage < this.count; passage += 1) {
      let score = 0;
      for (let at = passage * this.#width, i = 0; i < this.#width; at += 1, i += 1) {
        score += (this.#data[at] as number) * (query[i] as number);
      }
      if (hits.length < most || score > (hits[most - 1] as Hit).score) {
        const place = hits.findIndex((hit) => hit.score < score);
        hits.splice(place < 0 ? hits.length : place, 0, { passage, score });
        hits.length = Math.min(hits.length, most);
      }
    }
    return hits;
  }
}
