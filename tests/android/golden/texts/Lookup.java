package org.deploykit.lookup;

import android.content.Context;
import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.File;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;

/**
 * The model {@code lookup}. It can be used from any thread; runs of one model wait for each other.
 *
 * <p>Input {@code x}: {@code x float32[b, n]}.
 * <p>Input {@code ids}: {@code ids int64[b]}.
 * <p>Output {@code scores}: {@code scores float32[b, 16]}.
 * <p>Output {@code places}: {@code places int64[2, count]}.
 */
public final class Lookup implements AutoCloseable {
    /** The bytes of the weights, which are mapped into memory and not counted by {@link #memory}. */
    public static final long WEIGHTS_BYTES = 2112L;

    private static final Function RUN = new Function(0,
            new int[] {0, 7},
            new Tensor.Type[] {Tensor.Type.FLOAT, Tensor.Type.LONG},
            new Tensor.Type[] {Tensor.Type.FLOAT, Tensor.Type.LONG});

    private final Session session;

    private Lookup(Assets assets, Options options, Memory memory, File cache) {
        session = new Session(assets, options, memory, cache, WEIGHTS_BYTES);
    }

    /** The devices that the model can run on, the CPU first. */
    @NonNull
    public static List<Device> devices() {
        return devices(Options.cacheOfApp());
    }

    /**
     * The devices that the model can run on, the CPU first.
     */
    @NonNull
    public static List<Device> devices(@Nullable File cache) {
        return Session.devices(cache);
    }

    /** Load the model from the assets of an app. */
    @NonNull
    public static Lookup load(@NonNull Context context) {
        return load(context, null);
    }

    /** Load the model from the assets of an app. */
    @NonNull
    public static Lookup load(@NonNull Context context, @Nullable Options options) {
        AndroidSystem system = new AndroidSystem(context.getApplicationContext());
        Options own = options == null ? new Options() : options;
        Lookup model = new Lookup(system, own, own.memory == null ? system : own.memory,
            own.cache == null ? context.getCacheDir() : own.cache);
        if (!model.weightsMapped()) {
            AndroidSystem.warnOfCopy("lookup", WEIGHTS_BYTES);
        }
        return model;
    }

    /** Load the model from other assets, also outside of Android. */
    @NonNull
    public static Lookup open(@NonNull Assets assets, @Nullable Options options) {
        Options own = options == null ? new Options() : options;
        return new Lookup(assets, own, own.memory, own.cache);
    }

    /** Whether the weights are mapped from their file; else they were copied into memory. */
    public boolean weightsMapped() {
        return session.weightsMapped();
    }

    /** The device that the model runs on. */
    @NonNull
    public Device device() {
        return session.device();
    }

    /**
     * The bytes of memory that a run needs for intermediate results and outputs. No model need be loaded.
     * Raises {@link ShapeException} for sizes out of their bounds.
     *
     * @param b 1..8
     *
     * @param n 1..64
     */
    public static long memory(long b, long n) {
        long bytes = Native.memory(0, new long[] {b, n});
        if (bytes == Long.MAX_VALUE) {
            throw new ShapeException("sizes out of their bounds: b 1..8, n 1..64");
        }
        return bytes;
    }

    /** Take the memory for runs of these sizes now, so that no run has to wait for it. */
    public void reserve(long b, long n) {
        session.reserve(memory(b, n));
    }

    /**
     * Run the model.
     *
     * <p>Raises {@link ShapeException} for inputs of another shape or type, {@link DataException} for values out of
     * their range, {@link MemoryException} if memory is short, {@link DeviceException} if the device fails, is lost or
     * lacks memory, {@link java.util.concurrent.CancellationException} if it is stopped, and {@link ClosedException}
     * after {@link #close}.
     */
    @NonNull
    public Result run(@NonNull Tensor x, @NonNull Tensor ids) {
        return new Result(session.run(RUN.call(x, ids)));
    }

    /** Run the model on another thread. Cancelling the future stops the run. */
    @NonNull
    public Future<Result> runAsync(@NonNull Executor executor, @NonNull Tensor x, @NonNull Tensor ids) {
        return session.start(executor, () -> run(x, ids));
    }

    /** Run the model on arrays, which have the shapes that these sizes give. */
    @NonNull
    public Result run(@NonNull float[] x, @NonNull long[] ids, long b, long n) {
        return run(Tensor.of(x, b, n), Tensor.of(ids, b));
    }

    /** Run the model on arrays, on another thread. The arrays are copied first. */
    @NonNull
    public Future<Result> runAsync(@NonNull Executor executor, @NonNull float[] x, @NonNull long[] ids, long b, long n) {
        return runAsync(executor, Tensor.of(x, b, n), Tensor.of(ids, b));
    }

    /** Run the model so often, at least once, after a run that does not count, and time its steps. */
    @NonNull
    public Profile profile(int runs, @NonNull Tensor x, @NonNull Tensor ids) {
        return session.profile(RUN.call(x, ids), runs);
    }

    /** Call the model on another thread. Cancelling the future stops the run that the call is at. */
    @NonNull
    public <T> Future<T> async(@NonNull Executor executor, @NonNull Callable<T> call) {
        return session.start(executor, call);
    }

    /** Stop the run that is under way, if there is one. It raises {@link java.util.concurrent.CancellationException}. */
    public void cancel() {
        session.cancel();
    }

    /** Stop the run that is under way, and free the memory. This run and later calls raise {@link ClosedException}. */
    @Override
    public void close() {
        session.close();
    }

    /** The outputs of a run. */
    public static final class Result {
        /** {@code scores float32[b, 16]}. */
        @NonNull public final Tensor scores;

        /** {@code places int64[2, count]}. */
        @NonNull public final Tensor places;

        private Result(Tensor[] outputs) {
            scores = outputs[0];
            places = outputs[1];
        }
    }
}
