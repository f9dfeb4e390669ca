package org.deploykit.lookup;

import java.nio.ByteBuffer;

/** The functions of the native library. A session is an address. */
final class Native {
    static {
        System.loadLibrary("lookup");
    }

    private Native() {}

    static native long create(int threads);

    static native void close(long session);

    static native int allocate(long session, long bytes);

    static native void fill(long session, long offset, byte[] bytes, int count);

    static native int map(long session, int file, byte[] path, long offset, long bytes);

    static native int init(long session);

    static native void error(long session, byte[] text);

    static native int bind(long session, ByteBuffer[] inputs, long[] described, long[] needs);

    static native int reserve(long session, long bytes);

    static native int run(long session, ByteBuffer[] inputs, ByteBuffer[] outputs, long[] shapes);

    static native long memory(long[] dims);
}
