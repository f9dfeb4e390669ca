package org.deploykit.treelstm;

/** {@code Tree = Leaf | Node}. */
public interface Tree {}
