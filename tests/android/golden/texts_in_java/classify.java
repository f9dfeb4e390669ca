package org.deploykit.model;

import java.util.ArrayList;
import java.util.List;

/** What the model does with texts: which run together, and what its outputs mean. */
final class Texts {
    private static final int MOST = 40;
    private static final int WIDTH = 2;
    /** A run has about this many tokens, so that memory does not grow with the number of texts. */
    private static final int TOKENS_AT_ONCE = 16384;

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

    List<List<Label>> classify(List<String> texts, List<String> names) {
        List<List<Label>> found = new ArrayList<>();
        each(texts, (first, part, output) -> {
            for (int i = 0; i < part.size(); ++i) {
                found.add(Scores.labels(output, i * WIDTH, names));
            }
        });
        return found;
    }
}
