// Splits a text into passages: sentences, as `Intl.Segmenter` finds them. What it takes for the end of a sentence may be
// an abbreviation; then the next piece is joined. A heading is joined to the first sentence below it.

/** A part of a text: `text.slice(start, end)`. */
export interface Passage {
  readonly start: number;
  readonly end: number;
}

/** A longer sentence is cut at a space, because models cut off long texts. In units of UTF-16. */
const LONGEST = 1000;
/** The end of a line of at least this many units, which is wrapped: a space. */
const WRAPPED = /(?<=[^\n]{40})\n/g;
/** Longer paragraphs are no headings. */
const HEADING = 60;
/** What separates paragraphs: an empty line, or the next line begins an item of a list. */
const BREAK = /(\n\s*\n|\n(?=[^\S\n]*(?:[-*•]|\d+[.)])\s))/;
const ABBREVIATED = /(?:^|[\s(])(?:\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|e\.g|i\.e|cf|Fig)\.\s*$/u;
const ENDED = /[.!?:;…。！？]["'”’»)\]]*$/;

export function passagesOf(text: string): Passage[] {
  const sentences = new Intl.Segmenter(undefined, { granularity: 'sentence' });
  const found: Passage[] = [];
  let heading: number | null = null;
  const paragraphs = paragraphsOf(text);
  paragraphs.forEach((paragraph, number) => {
    const { start, end } = paragraph;
    if (isHeading(text, paragraph, paragraphs[number + 1])) {
      heading = start;
      return;
    }
    let from = heading ?? start;
    heading = null;
    for (const { index, segment } of sentences.segment(text.slice(start, end).replace(WRAPPED, ' '))) {
      const to = start + index + segment.length;
      if (to === end || !ABBREVIATED.test(text.slice(from, to))) {
        found.push(...cut(text, from, to));
        from = to;
      }
    }
  });
  return found;
}

/** The paragraphs of a text, without those that are empty. */
export function paragraphsOf(text: string): Passage[] {
  const found: Passage[] = [];
  let start = 0;
  for (const piece of text.split(BREAK)) {
    if (piece.trim()) {
      found.push({ start, end: start + piece.length });
    }
    start += piece.length;
  }
  return found;
}

/** Whether a paragraph is a short line without an end, above a longer one. */
function isHeading(text: string, { start, end }: Passage, next: Passage | undefined): boolean {
  const line = text.slice(start, end).trim();
  const isLine = line.length < HEADING && !line.includes('\n') && !ENDED.test(line);
  return isLine && next !== undefined && next.end - next.start >= HEADING;
}

/** A part of a text without the space around it, in pieces that are not too long. */
function cut(text: string, start: number, end: number): Passage[] {
  const found: Passage[] = [];
  for (let from = start; from < end; ) {
    const space = text.lastIndexOf(' ', from + LONGEST);
    const to = end - from <= LONGEST ? end : space > from ? space : from + LONGEST;
    const piece = text.slice(from, to);
    const inner = { start: from + piece.length - piece.trimStart().length, end: from + piece.trimEnd().length };
    if (inner.start < inner.end) {
      found.push(inner);
    }
    from = to;
  }
  return found;
}
