import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.deploykit.lookup.*;

/** Cases of tests for the classes of a package, each a method, called by its name. */
public final class Desktop {
    private final File assets;
    private final File place;
    private final String[] arguments;

    private Desktop(String[] words) {
        assets = new File(words[1]);
        place = new File(words[2]);
        arguments = Arrays.copyOfRange(words, 3, words.length);
    }

    public static void main(String[] words) throws Throwable {
        try {
            Desktop.class.getDeclaredMethod(words[0]).invoke(new Desktop(words));
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private interface Action {
        Object run() throws Exception;
    }

    private static void print(String what, Action action) throws Exception {
        try {
            System.out.println(what + ": " + action.run());
        } catch (DeploykitException error) {
            System.out.println(what + ": " + error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    private Lookup load() {
        return load(new Options());
    }

    private Lookup load(Options options) {
        return Lookup.open(Assets.folder(assets), options);
    }

    /** The same values as in test_java.py. */
    private static float[] x(int b, int n) {
        float[] values = new float[b * n];
        for (int i = 0; i < values.length; ++i) {
            values[i] = (i % 7 - 3) * 0.125f;
        }
        return values;
    }

    private static long[] ids(int b) {
        long[] values = new long[b];
        for (int i = 0; i < b; ++i) {
            values[i] = i * 5 % 16;
        }
        return values;
    }

    private static String text(Lookup.Result result) {
        return Arrays.toString(result.scores.floats()) + Arrays.toString(result.places.shape()) + sum(result.places);
    }

    private static long sum(Tensor tensor) {
        long sum = 0;
        for (long value : tensor.longs()) {
            sum += value;
        }
        return sum;
    }

    void results() {
        try (Lookup model = load(new Options().threads(Integer.parseInt(arguments[0])))) {
            for (int[] size : new int[][] {{1, 1}, {3, 7}, {8, 64}, {2, 33}}) {
                Lookup.Result result = model.run(x(size[0], size[1]), ids(size[0]), size[0], size[1]);
                System.out.println(Arrays.toString(result.scores.shape()));
                System.out.println(Arrays.toString(result.scores.floats()));
                System.out.println(Arrays.toString(result.places.shape()));
                System.out.println(Arrays.toString(result.places.longs()));
            }
        }
    }

    void direct() throws Exception {
        ByteBuffer memory = ByteBuffer.allocateDirect(64 * 4);
        try (Lookup model = load()) {
            Tensor x = Tensor.direct(Tensor.Type.FLOAT, memory, 8, 8);
            memory.order(java.nio.ByteOrder.nativeOrder()).asFloatBuffer().put(x(8, 8));
            Lookup.Result first = model.run(x, Tensor.of(ids(8), 8));
            System.out.println(text(first).equals(text(model.run(x(8, 8), ids(8), 8, 8))));
            print("heap", () -> Tensor.direct(Tensor.Type.FLOAT, ByteBuffer.allocate(4), 1));
            print("elements", () -> first.scores.longs());
        }
    }

    void errors() throws Exception {
        Lookup model = load();
        print("rank", () -> model.run(Tensor.of(x(1, 1), 1), Tensor.of(ids(1), 1)));
        print("axis", () -> model.run(Tensor.of(x(2, 3), 2, 3), Tensor.of(ids(3), 3)));
        print("bounds", () -> model.run(x(9, 1), ids(9), 9, 1));
        print("type", () -> model.run(Tensor.of(ids(1), 1, 1), Tensor.of(ids(1), 1)));
        print("short", () -> model.run(x(1, 3), ids(2), 2, 3));
        print("deep", () -> model.run(Tensor.of(x(1, 1), new long[20]), Tensor.of(ids(1), 1)));
        print("data", () -> model.run(x(1, 1), new long[] {99}, 1, 1));
        print("sizes", () -> Lookup.memory(9, 1));
        print("device", () -> load(new Options().device("gpu")));
        print("threads", () -> new Options().threads(0));
        print("missing", () -> Lookup.open(Assets.folder(place), null));
        print("nowhere", () -> Lookup.open(Assets.folder(new File(place, "nowhere")), null));
        print("after", () -> model.run(x(1, 1), ids(1), 1, 1).scores);
        model.close();
        model.close();
        print("closed", () -> model.run(x(1, 1), ids(1), 1, 1));
        print("reserve", () -> {
            model.reserve(1, 1);
            return null;
        });
    }

    void memory() throws Exception {
        long most = Lookup.memory(8, 64);
        System.out.println(Lookup.memory(1, 1) < most);
        long[] free = {most};
        try (Lookup model = load(new Options().memory(() -> free[0]))) {
            model.reserve(8, 64);
            free[0] = 0;
            System.out.println(model.run(x(8, 64), ids(8), 8, 64).scores);
        }
        try (Lookup model = load(new Options().memory(() -> 10))) {
            print("short", () -> model.run(x(8, 64), ids(8), 8, 64));
        }
    }

    void devices() {
        try (Lookup model = load(new Options().device(Lookup.devices().get(0).name))) {
            System.out.println(model.device().name + " " + Lookup.devices().size());
        }
    }

    /** Weights that are compressed, or lie at odd places of a file. */
    void places() throws Exception {
        byte[] weights = Files.readAllBytes(new File(assets, "lookup/weights.bin").toPath());
        String expected;
        try (Lookup model = load()) {
            expected = text(model.run(x(3, 7), ids(3), 3, 7));
        }
        for (int offset : new int[] {4, 1, 4096 + 8, 70000, -1}) {
            File file = new File(place, "weights-at-" + offset);
            byte[] shifted = new byte[Math.max(offset, 0) + weights.length];
            System.arraycopy(weights, 0, shifted, Math.max(offset, 0), weights.length);
            Files.write(file.toPath(), shifted);
            Assets own = new Assets() {
                @Override
                public Range range(String name) {
                    return offset < 0 ? null : new Range(file.getPath(), offset, weights.length);
                }

                @Override
                public InputStream open(String name) {
                    return new ByteArrayInputStream(weights);
                }
            };
            List<Long> heard = new ArrayList<>();
            try (Lookup model = Lookup.open(own, new Options().progress((done, total) -> heard.add(total - done)))) {
                System.out.println(offset + " " + expected.equals(text(model.run(x(3, 7), ids(3), 3, 7))) + " " + heard);
            }
        }
        print("length", () -> Lookup.open(cut(weights.length - 4), null));
        print("stream", () -> Lookup.open(cut(-1), null));
        print("zeros", () -> Lookup.open(holding(new byte[weights.length]), null));
        byte[] damaged = weights.clone();
        damaged[weights.length - 1] ^= 1;
        print("damaged", () -> Lookup.open(holding(damaged), new Options().checkWeights(true)));
        try (Lookup model = Lookup.open(holding(weights), new Options().checkWeights(true))) {
            System.out.println("whole " + expected.equals(text(model.run(x(3, 7), ids(3), 3, 7))));
        }
    }

    private static Assets holding(byte[] weights) {
        return new Assets() {
            @Override
            public Range range(String name) {
                return null;
            }

            @Override
            public InputStream open(String name) {
                return new ByteArrayInputStream(weights);
            }
        };
    }

    private Assets cut(int length) {
        return new Assets() {
            @Override
            public Range range(String name) {
                return length < 0 ? null : new Range(new File(assets, name).getPath(), 0, length);
            }

            @Override
            public InputStream open(String name) {
                return new ByteArrayInputStream(new byte[10]);
            }
        };
    }

    /** Weights in a file of their own. */
    void apart() throws Exception {
        Options options = new Options().weights(new File(arguments[0])).checkWeights(true);
        print("missing", () -> load());
        try (Lookup model = load(options)) {
            System.out.println(model.weightsMapped() + " " + model.run(x(3, 7), ids(3), 3, 7).scores);
        }
        print("other", () -> load(options.weights(new File(place, "nothing"))));
    }

    /** A file that is open, as Android gives it. */
    void descriptor() throws Exception {
        File file = new File(assets, "lookup/weights.bin");
        AtomicInteger closed = new AtomicInteger();
        Assets own = new Assets() {
            @Override
            public Range range(String name) throws IOException {
                FileInputStream stream = new FileInputStream(file);
                for (File each : new File("/proc/self/fd").listFiles()) {
                    if (each.getCanonicalPath().equals(file.getCanonicalPath())) {
                        return new Range(Integer.parseInt(each.getName()), 0, file.length(), () -> {
                            closed.incrementAndGet();
                            stream.close();
                        });
                    }
                }
                throw new IOException("not open");
            }

            @Override
            public InputStream open(String name) throws IOException {
                return new FileInputStream(file);
            }
        };
        try (Lookup model = Lookup.open(own, null)) {
            System.out.println(closed + " " + model.run(x(1, 1), ids(1), 1, 1).scores);
        }
    }

    void threads() throws Exception {
        int count = 8;
        ExecutorService pool = Executors.newFixedThreadPool(count);
        try (Lookup shared = load(new Options().threads(2)); Lookup other = load()) {
            String[] expected = new String[count];
            for (int i = 0; i < count; ++i) {
                expected[i] = text(shared.run(x(1 + i, 7), ids(1 + i), 1 + i, 7));
            }
            List<Future<Integer>> results = new ArrayList<>();
            for (int i = 0; i < count; ++i) {
                int own = i;
                results.add(pool.submit(() -> {
                    int right = 0;
                    for (int run = 0; run < 100; ++run) {
                        Lookup model = run % 2 == 0 ? shared : other;
                        right += text(model.run(x(1 + own, 7), ids(1 + own), 1 + own, 7)).equals(expected[own]) ? 1 : 0;
                    }
                    return right;
                }));
            }
            int right = 0;
            for (Future<Integer> result : results) {
                right += result.get();
            }
            System.out.println(right);
        }
        pool.shutdown();
    }

    void closing() throws Exception {
        for (int round = 0; round < 50; ++round) {
            Lookup model = load(new Options().threads(2));
            CountDownLatch started = new CountDownLatch(1);
            AtomicInteger closed = new AtomicInteger();
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        model.run(x(8, 64), ids(8), 8, 64);
                        started.countDown();
                    }
                } catch (ClosedException error) {
                    closed.incrementAndGet();
                }
            });
            thread.start();
            started.await();
            model.close();
            thread.join();
            if (closed.get() != 1) {
                throw new AssertionError();
            }
        }
        System.out.println("closed");
    }

    void async() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        CountDownLatch busy = new CountDownLatch(1);
        try (Lookup model = load()) {
            System.out.println(model.runAsync(pool, x(3, 7), ids(3), 3, 7).get().scores);
            pool.execute(() -> {
                try {
                    busy.await();
                } catch (InterruptedException error) {
                    throw new AssertionError(error);
                }
            });
            Future<Lookup.Result> later = model.runAsync(pool, x(1, 1), ids(1), 1, 1);
            later.cancel(true);
            busy.countDown();
            try {
                later.get();
            } catch (CancellationException error) {
                System.out.println("cancelled");
            }
            try {
                model.runAsync(pool, x(1, 1), new long[] {99}, 1, 1).get();
            } catch (ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName());
            }
        }
        pool.shutdown();
    }

    private static long resident() throws IOException {
        for (String line : Files.readAllLines(new File("/proc/self/status").toPath())) {
            if (line.startsWith("VmRSS")) {
                return Long.parseLong(line.replaceAll("\\D", "")) << 10;
            }
        }
        throw new IOException("no VmRSS");
    }

    /** Open and close many times; prints how many bytes more the process has than after the first tenth. */
    void reopening() throws Exception {
        int count = Integer.parseInt(arguments[0]);
        long before = 0;
        for (int i = 0; i < count; ++i) {
            try (Lookup model = load(new Options().threads(1 + i % 2))) {
                model.run(x(1, 1), ids(1), 1, 1);
            }
            if (i % 100 == 0) {
                System.gc(); // what Java has not collected yet is not left open
            }
            if (i == count / 10) {
                before = resident();
            }
        }
        System.gc();
        System.out.println(resident() - before);
    }

    /** The methods of `Native` that Java declares. */
    void methods() {
        try {
            for (Method method : Class.forName("org.deploykit.lookup.Native").getDeclaredMethods()) {
                System.out.println(method.getName());
            }
        } catch (ClassNotFoundException error) {
            throw new AssertionError(error);
        }
    }
}
