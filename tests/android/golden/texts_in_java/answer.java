package org.deploykit.model;


/** What the model does with texts: which run together, and what its outputs mean. */
final class Texts {
    private static final int MOST = 40;
    /** The most tokens of an answer. */
    private static final int LONGEST_ANSWER = 30;

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

    Span answer(String question, String context) {
        Tokens tokens = session.encode(question, context, MOST, false);
        float[][] ends = run.on(new long[][] {tokens.ids}, new long[][] {tokens.types});
        Scores.softmax(ends[0], 0, tokens.size());
        Scores.softmax(ends[1], 0, tokens.size());
        int first = -1, last = -1;
        float best = 0;
        for (int i = 0; i < tokens.size(); ++i) {
            for (int j = i; tokens.texts[i] == 1 && j < tokens.size() && j < i + LONGEST_ANSWER; ++j) {
                float score = ends[0][i] * ends[1][j];
                if (tokens.texts[j] == 1 && (first < 0 || score > best)) {
                    first = i;
                    last = j;
                    best = score;
                }
            }
        }
        if (first < 0) {
            throw new DataException("the question leaves no room for the context: it has too many tokens");
        }
        int[] units = Tokens.units(context);
        int start = units[(int) tokens.places[2 * first]], end = units[(int) tokens.places[2 * last + 1]];
        return new Span("answer", best, start, end, context.substring(start, end));
    }
}
