package org.deploykit.app.thinking;

import java.util.ArrayList;
import java.util.List;

/** Vectors of passages, all of length 1, and which of them are closest to that of a query. */
public final class Vectors {
    /** Lower scores are no answers, nor are those below this part of the best one. */
    private static final float LEAST = 0.2f, PART = 0.5f;

    private final float[][] vectors;
    private int count;

    /** {@code most} is the number of vectors to come. */
    Vectors(int most) {
        vectors = new float[most][];
    }

    void add(float[] vector) {
        vectors[count++] = vector;
    }

    int count() {
        return count;
    }

    /** The passages that are closest to the query, the closest first; {@code most} at most. */
    List<Hit> closest(float[] query, int most) {
        List<Hit> hits = new ArrayList<>();
        for (int passage = 0; passage < count; ++passage) {
            float score = 0;
            for (int i = 0; i < query.length; ++i) {
                score += vectors[passage][i] * query[i];
            }
            int place = hits.size();
            while (place > 0 && hits.get(place - 1).score < score) {
                --place;
            }
            if (score >= LEAST && place < most) {
                hits.add(place, new Hit(passage, score));
                if (hits.size() > most) {
                    hits.remove(most);
                }
            }
        }
        while (!hits.isEmpty() && hits.get(hits.size() - 1).score < PART * hits.get(0).score) {
            hits.remove(hits.size() - 1);
        }
        return hits;
    }
}
