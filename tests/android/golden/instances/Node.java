package org.deploykit.treelstm;

import androidx.annotation.NonNull;

/** {@code Node(left: Tree, right: Tree)}. */
public final class Node extends Dataclass implements Tree {
    /** {@code left: Tree}. */
    @NonNull public final Tree left;

    /** {@code right: Tree}. */
    @NonNull public final Tree right;

    public Node(@NonNull Tree left, @NonNull Tree right) {
        this.left = left;
        this.right = right;
    }

    @Override
    String name() {
        return "Node";
    }

    @Override
    Object[] values() {
        return new Object[] {left, right};
    }
}
