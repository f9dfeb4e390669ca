import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.deploykit.mean.*;

/** A model of three functions with states, of which `update` changes them. */
public final class Means {
    private static final int WIDTH = 6;

    private Means() {}

    private interface Action {
        Object run() throws Exception;
    }

    /** Marks a line, because drivers and the JVM print others. */
    private static void print(Object line) {
        System.out.println("\n> " + line);
    }

    private static void attempt(Action action) throws Exception {
        try {
            print(action.run());
        } catch (DeploykitException error) {
            print(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    /** The same values as in test_functions.py. */
    static float[] sample(int rows, int seed) {
        float[] values = new float[rows * WIDTH];
        for (int i = 0; i < values.length; ++i) {
            values[i] = ((i * 7 + seed * 5) % 11 - 5) * 0.25f;
        }
        return values;
    }

    /** Threads that update the states of one model, and read them: prints how often each count was found. */
    private static void threads(Mean model) throws Exception {
        int count = 8, runs = 50;
        model.reset(3);
        ExecutorService pool = Executors.newFixedThreadPool(count);
        List<Future<List<Float>>> results = new ArrayList<>();
        for (int i = 0; i < count; ++i) {
            results.add(pool.submit(() -> {
                List<Float> found = new ArrayList<>();
                for (int run = 0; run < runs; ++run) {
                    found.add(model.update(sample(3, 1), 3).samples.floats()[0]);
                    model.read(sample(2, 9), 2);
                    model.project(sample(5, 1), 5);
                }
                return found;
            }));
        }
        int[] seen = new int[count * runs + 1];
        for (Future<List<Float>> result : results) {
            for (float samples : result.get()) {
                ++seen[(int) samples];
            }
        }
        pool.shutdown();
        print(Arrays.toString(seen));
        print(Arrays.toString(model.read(sample(1, 9), 1).scores.floats()));
    }

    public static void main(String[] words) throws Exception {
        Assets assets = Assets.folder(new File(words[1]));
        long[] free = {Long.MAX_VALUE / 2};
        Options options = new Options().device(words[3]).memory(() -> free[0]).cache(new File(words[2]));
        try (Mean model = Mean.open(assets, options)) {
            if (words[0].equals("results")) {
                for (int streams : new int[] {1, 3, 9, 4}) {
                    model.reset(streams);
                    for (int number = 1; number <= 3; ++number) {
                        print(model.update(sample(streams, number), streams).samples.floats()[0]);
                        print(Arrays.toString(model.read(sample(number, 9), number).scores.floats()));
                    }
                }
                print(Arrays.toString(model.project(sample(5, 1), 5).projected.floats()));
                print(model.device().name + "|" + model.device().reason);
                return;
            }
            if (words[0].equals("threads")) {
                threads(model);
                return;
            }
            attempt(() -> model.update(sample(1, 1), 1).samples.floats()[0]); // states of the least sizes are there
            attempt(() -> model.update(sample(2, 1), 2));
            attempt(() -> Mean.stateMemory(10));
            attempt(() -> {
                model.reset(0);
                return null;
            });
            attempt(() -> Mean.stateMemory(9) > Mean.stateMemory(1));
            attempt(() -> model.update(sample(1, 1), 1).samples.floats()[0]);
            free[0] = Mean.stateMemory(9) - 1;
            attempt(() -> {
                model.reset(9);
                return null;
            });
            attempt(() -> model.update(sample(1, 1), 1).samples.floats()[0]);
            free[0] = Mean.stateMemory(9);
            attempt(() -> {
                model.reset(9);
                return "reset";
            });
            free[0] = 0;
            attempt(() -> model.update(sample(9, 1), 9).samples.floats()[0]);
            free[0] = 1 << 20;
            model.updateReserve(9);
            ExecutorService pool = Executors.newSingleThreadExecutor();
            attempt(() -> model.updateAsync(pool, sample(9, 2), 9).get().samples.floats()[0]);
            pool.shutdown();
            model.close();
            attempt(() -> {
                model.reset(1);
                return null;
            });
            attempt(() -> model.read(sample(1, 1), 1));
        }
    }
}
