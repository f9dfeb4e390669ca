package org.deploykit.lookup;

import java.nio.ByteBuffer;

/** The functions of the native library. A session is an address; functions and files of the model have numbers. */
final class Native {
    static {
        Library.load("lookup");
    }

    private Native() {}

    static native long create(int threads);

    static native void close(long session);

    static native int allocate(long session, int file, long bytes);

    static native void fill(long session, int file, long offset, byte[] bytes, int count);

    static native int map(long session, int file, int descriptor, byte[] path, long offset, long bytes);

    static native int init(long session);

    static native int mapped(long session);

    static native void stop(long session, boolean stop);

    static native void error(long session, byte[] text);

    static native int bind(long session, int function, ByteBuffer[] inputs, long[] described, long[] needs);

    static native void keep(long session, int function, boolean keep);

    static native int reserve(long session, long bytes);

    static native int run(
            long session, int function, ByteBuffer[] inputs, ByteBuffer[] outputs, long[] shapes, long[] needs);

    static native long memory(int function, long[] dims);

    static native long stateBytes(long[] sizes);

    static native int reset(long session, long[] sizes);

    static native void level(long session, byte[] name);

    static native int measure(long session, int steps);

    static native void measured(long[] calls, long[] host, long[] device);
}
