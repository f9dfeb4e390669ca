package org.deploykit.spans;

import android.content.Context;
import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.File;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;

/**
 * The model {@code Spans}. It can be used from any thread; runs of one model wait for each other.
 *
 * <p>For each instance it runs {@code main(scale: float, spans: list[Span], pair: tuple[int, Tensor[4]]) -> tuple[list[Tensor[2]], tuple[float, bool], list[int], Tensor[2, 2]]}.
 */
public final class Spans implements AutoCloseable {
    /** The bytes of the weights, which are mapped into memory. */
    public static final long WEIGHTS_BYTES = 144L;

    private static final Function RUN = new Function(0,
            new int[] {6, 6, 6, 0},
            new Tensor.Type[] {Tensor.Type.INT, Tensor.Type.INT, Tensor.Type.INT, Tensor.Type.FLOAT},
            new Tensor.Type[] {Tensor.Type.FLOAT, Tensor.Type.INT, Tensor.Type.DOUBLE, Tensor.Type.BYTE, Tensor.Type.INT, Tensor.Type.INT, Tensor.Type.FLOAT, Tensor.Type.INT, Tensor.Type.INT});

    private final Session session;

    private Spans(Assets assets, Options options, Memory memory, File cache) {
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
    public static Spans load(@NonNull Context context) {
        return load(context, null);
    }

    /** Load the model from the assets of an app. */
    @NonNull
    public static Spans load(@NonNull Context context, @Nullable Options options) {
        AndroidSystem system = new AndroidSystem(context.getApplicationContext());
        Options own = options == null ? new Options() : options;
        Spans model = new Spans(system, own, own.memory == null ? system : own.memory,
            own.cache == null ? context.getCacheDir() : own.cache);
        if (!model.weightsMapped()) {
            AndroidSystem.warnOfCopy("Spans", WEIGHTS_BYTES);
        }
        return model;
    }

    /** Load the model from other assets, also outside of Android. */
    @NonNull
    public static Spans open(@NonNull Assets assets, @Nullable Options options) {
        Options own = options == null ? new Options() : options;
        return new Spans(assets, own, own.memory, own.cache);
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
     * What {@code main(scale: float, spans: list[Span], pair: tuple[int, Tensor[4]]) -> tuple[list[Tensor[2]], tuple[float, bool], list[int], Tensor[2, 2]]} returns for each instance. Instances run together, in batches.
     *
     * <p>Raises {@link ShapeException} and {@link DataException} for an instance that does not fit,
     * {@link DataException} where the model refuses it, {@link MemoryException} if memory is short,
     * {@link DeviceException} if the device fails, and {@link ClosedException} after {@link #close}.
     */
    @NonNull
    @SuppressWarnings("unchecked")
    public List<Object[]> run(@NonNull List<? extends Object[]> instances) {
        return (List<Object[]>) Instances.run(session, RUN, instances);
    }

    /** Run the model on instances, on another thread. Cancelling the future stops the run. */
    @NonNull
    public Future<List<Object[]>> runAsync(@NonNull Executor executor, @NonNull List<? extends Object[]> instances) {
        return session.start(executor, () -> run(instances));
    }

    /**
     * Run the model on instances as words, which functions in C make.
     *
     * <p>Raises {@link ShapeException} for inputs of another shape or type, {@link DataException} for values out of
     * their range, {@link MemoryException} if memory is short, {@link DeviceException} if the device fails, is lost or
     * lacks memory, {@link java.util.concurrent.CancellationException} if it is stopped, and {@link ClosedException}
     * after {@link #close}.
     */
    @NonNull
    public Result run(@NonNull Tensor instances, @NonNull Tensor roots, @NonNull Tensor policy, @NonNull Tensor elements) {
        return new Result(session.run(RUN.call(instances, roots, policy, elements)));
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
        /** {@code result_0 float32[result_0_items, 2]}. */
        @NonNull public final Tensor result_0;

        /** {@code result_0_lengths int32[batch]}. */
        @NonNull public final Tensor result_0_lengths;

        /** {@code result_1 float64[batch]}. */
        @NonNull public final Tensor result_1;

        /** {@code result_2 bool[batch]}. */
        @NonNull public final Tensor result_2;

        /** {@code result_3 int32[result_3_items]}. */
        @NonNull public final Tensor result_3;

        /** {@code result_3_lengths int32[batch]}. */
        @NonNull public final Tensor result_3_lengths;

        /** {@code result_4 float32[batch, 2, 2]}. */
        @NonNull public final Tensor result_4;

        /** {@code launches int32[3]}. */
        @NonNull public final Tensor launches;

        /** {@code trace int32[traced, 4]}. */
        @NonNull public final Tensor trace;

        private Result(Tensor[] outputs) {
            result_0 = outputs[0];
            result_0_lengths = outputs[1];
            result_1 = outputs[2];
            result_2 = outputs[3];
            result_3 = outputs[4];
            result_3_lengths = outputs[5];
            result_4 = outputs[6];
            launches = outputs[7];
            trace = outputs[8];
        }
    }
}
