import com.acme.models.*;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Three models of one package: the first two are in turn on the same tensor, all are loaded at the same time. */
public final class Together {
    private Together() {}

    public static void main(String[] words) throws Exception {
        Assets assets = Assets.folder(new File(words[1]));
        Options options = new Options().device(words[3]).cache(new File(words[2]));
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Callable<AutoCloseable>> loads = new ArrayList<>();
        loads.add(() -> Lookup.open(assets, options));
        loads.add(() -> Next.open(assets, options));
        loads.add(() -> Opinion.open(assets, options));
        List<AutoCloseable> models = new ArrayList<>();
        for (Future<AutoCloseable> loaded : pool.invokeAll(loads)) {
            models.add(loaded.get());
        }
        pool.shutdown();
        try (Lookup lookup = (Lookup) models.get(0);
                Next next = (Next) models.get(1);
                Opinion opinion = (Opinion) models.get(2)) {
            Tensor scores = lookup.run(Tensor.of(new float[] {1, 0, 2, 3, 0, 4}, 2, 3), Tensor.of(new long[] {3, 5}, 2)).scores;
            print(scores);
            print(next.run(scores).more);
            for (Label label : opinion.classify("the cat")) {
                System.out.println(label.name + " " + label.score);
            }
            System.out.println(lookup.device().name + " " + next.device().name);
            try {
                next.run(Tensor.of(new float[32], 32));
            } catch (ShapeException error) {
                System.out.println(error.getMessage());
            }
            System.out.println(Lookup.memory(2, 3) + " " + Next.memory(2));
            System.out.println(next.profile(2, scores).steps.size() + " " + Lookup.devices().equals(Next.devices()));
            lookup.close();
            print(next.run(scores).more); // the driver and the library stay
        }
    }

    private static void print(Tensor tensor) {
        StringBuilder text = new StringBuilder();
        for (float value : tensor.floats()) {
            text.append(value).append(' ');
        }
        System.out.println(text);
    }
}
