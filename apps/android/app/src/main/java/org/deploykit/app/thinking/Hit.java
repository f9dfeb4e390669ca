package org.deploykit.app.thinking;

/** A passage that answers a query, and the cosine of the angle between both. */
public final class Hit {
    public final int passage;
    public final float score;

    Hit(int passage, float score) {
        this.passage = passage;
        this.score = score;
    }
}
