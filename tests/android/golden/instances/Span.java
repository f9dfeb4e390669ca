package org.deploykit.spans;

import androidx.annotation.NonNull;
import java.util.List;

/** {@code Span(start: int, weight: float, vector: Tensor[4], matrix: Tensor[2, 4], flags: list[bool])}. */
public final class Span extends Dataclass {
    /** {@code start: int}. */
    public final int start;

    /** {@code weight: float}. */
    public final double weight;

    /** {@code vector: Tensor[4]}. */
    @NonNull public final float[] vector;

    /** {@code matrix: Tensor[2, 4]}. */
    @NonNull public final float[] matrix;

    /** {@code flags: list[bool]}. */
    @NonNull public final List<Boolean> flags;

    public Span(int start, double weight, @NonNull float[] vector, @NonNull float[] matrix, @NonNull List<Boolean> flags) {
        this.start = start;
        this.weight = weight;
        this.vector = vector;
        this.matrix = matrix;
        this.flags = flags;
    }

    @Override
    String name() {
        return "Span";
    }

    @Override
    Object[] values() {
        return new Object[] {start, weight, vector, matrix, flags};
    }
}
