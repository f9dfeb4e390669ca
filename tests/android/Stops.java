import java.io.File;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.deploykit.spin.*;

/** Stops runs that would last for minutes, and others at any point; prints what becomes of them. */
public final class Stops {
    private static final long LONG = 1L << 40;

    private Stops() {}

    private static Tensor trips(long count) {
        return Tensor.of(new long[] {count});
    }

    private static Tensor x(int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; ++i) {
            values[i] = 1 + i % 5;
        }
        return Tensor.of(values, n);
    }

    private static void print(Object line) {
        System.out.println("\n> " + line);
    }

    /** What a call raises, and whether that took less than 200 ms from a moment on. */
    private static void attempt(Runnable call, long[] since) {
        try {
            call.run();
            print("it ran to its end");
        } catch (RuntimeException error) {
            boolean soon = System.nanoTime() - since[0] < 200_000_000L;
            print(error.getClass().getSimpleName() + ": " + error.getMessage() + (soon ? "" : ", late"));
        }
    }

    private static void later(Runnable call, long[] since) {
        new Thread(() -> {
            try {
                Thread.sleep(300);
            } catch (InterruptedException error) {
                throw new AssertionError(error);
            }
            since[0] = System.nanoTime();
            call.run();
        }).start();
    }

    public static void main(String[] words) throws Exception {
        Options options = new Options().device(words[4]).cache(new File(words[3]));
        Spin model = Spin.open(Assets.folder(new File(words[1])), options);
        if (words[0].equals("long")) {
            long[] since = new long[1];
            model.cancel(); // without a run it does nothing
            print(model.run(trips(3), x(4)).y.floats()[3]);
            later(model::cancel, since);
            attempt(() -> model.run(trips(LONG), x(1000)), since);
            print(model.run(trips(3), x(4)).y.floats()[3]);
            ExecutorService pool = Executors.newSingleThreadExecutor();
            Future<Spin.Result> future = model.runAsync(pool, trips(LONG), x(1000));
            later(() -> future.cancel(false), since);
            attempt(() -> {
                try {
                    future.get();
                } catch (CancellationException error) {
                    throw error;
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            }, since);
            print(model.runAsync(pool, trips(3), x(4)).get().y.floats()[3]);
            later(model::close, since);
            attempt(() -> model.profile(1, trips(LONG), x(1000)), since);
            pool.shutdown();
            return;
        }
        if (words[0].equals("errors")) {
            long[] now = {System.nanoTime()};
            attempt(() -> model.profile(0, trips(1), x(1)), now);
            attempt(() -> model.profile(-3, trips(1), x(1)), now);
            return;
        }
        int stopped = 0;
        for (int round = 0; round < 60; ++round) {
            int wait = round;
            Thread thread = new Thread(() -> {
                for (long end = System.nanoTime() + wait * 50_000L; System.nanoTime() < end;) {}
                model.cancel();
            });
            thread.start();
            try {
                model.run(trips(words[4].equals("cpu") ? 1_000_000 : 400), x(64));
            } catch (CancellationException error) {
                ++stopped;
            }
            thread.join();
            if (model.run(trips(3), x(4)).y.floats()[3] != 32) {
                throw new AssertionError("round " + round);
            }
        }
        print(stopped > 0);
        model.close();
    }
}
