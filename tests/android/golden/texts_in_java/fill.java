package org.deploykit.model;

import java.util.ArrayList;
import java.util.List;

/** What the model does with texts: which run together, and what its outputs mean. */
final class Texts {
    private static final int MOST = 40;
    private static final int WIDTH = 50;
    private static final int MASK = 4;
    private static final String MASK_TEXT = "[MASK]";
    /** Each text is a run of its own, because a token has as many numbers as there are tokens in the vocabulary. */
    private static final int TOKENS_AT_ONCE = 0;

    private final Session session;
    private final Run run;

    /** Runs the model on the tokens of some texts. Returns its outputs. */
    interface Run {
        float[][] on(long[][] ids, long[][] types);
    }

    Texts(Session session, Run run) {
        this.session = session;
        this.run = run;
    }

    /** Takes the results of a run: those of the texts from `first` on. */
    private interface Reader {
        void read(int first, List<Tokens> part, float[] output);
    }

    private void each(List<String> texts, Reader reader) {
        List<Tokens> part = new ArrayList<>();
        int count = 0, first = 0;
        for (String text : texts) {
            Tokens tokens = session.encode(text, null, MOST, false);
            requireMask(tokens);
            if (!part.isEmpty() && count + tokens.size() > TOKENS_AT_ONCE) {
                run(first, part, reader);
                first += part.size();
                part.clear();
                count = 0;
            }
            part.add(tokens);
            count += tokens.size();
        }
        if (!part.isEmpty()) {
            run(first, part, reader);
        }
    }

    private void run(int first, List<Tokens> part, Reader reader) {
        long[][] ids = new long[part.size()][], types = new long[part.size()][];
        for (int i = 0; i < ids.length; ++i) {
            ids[i] = part.get(i).ids;
            types[i] = part.get(i).types;
        }
        reader.read(first, part, run.on(ids, types)[0]);
    }

    List<List<List<Word>>> fill(List<String> texts, int count) {
        if (count < 1) {
            throw new DataException("count must be at least 1; found " + count);
        }
        List<List<List<Word>>> found = new ArrayList<>();
        each(texts, (first, part, output) -> {
            int row = 0;
            for (Tokens tokens : part) {
                List<List<Word>> masks = new ArrayList<>();
                for (long id : tokens.ids) {
                    if (id == MASK) {
                        masks.add(best(output, row * WIDTH, Math.min(count, WIDTH)));
                    }
                    ++row;
                }
                found.add(masks);
            }
        });
        return found;
    }

    private static void requireMask(Tokens tokens) {
        for (long id : tokens.ids) {
            if (id == MASK) {
                return;
            }
        }
        throw new DataException("the text has no " + MASK_TEXT
            + ", or is cut off before it: put it where a token is to be filled in");
    }

    /** The most probable tokens, of which the model gives the values from {@code at} on. */
    private List<Word> best(float[] output, int at, int count) {
        int[] best = new int[count];
        Scores.softmax(output, at, WIDTH);
        for (int token = 0; token < WIDTH; ++token) {
            int place = Math.min(token, count - 1);
            if (token >= count && !(output[at + token] > output[at + best[place]])) {
                continue;
            }
            for (; place > 0 && output[at + token] > output[at + best[place - 1]]; --place) {
                best[place] = best[place - 1];
            }
            best[place] = token;
        }
        List<Word> words = new ArrayList<>();
        for (int token : best) {
            words.add(new Word(token, output[at + token], session.word(token)));
        }
        return words;
    }
}
