import java.io.File;
import java.util.Arrays;
import org.deploykit.tokens.*;

/** A model with ragged inputs and outputs. */
public final class Batches {
    private Batches() {}

    private interface Action {
        Object run();
    }

    private static void attempt(Action action) {
        try {
            System.out.println(action.run());
        } catch (DeploykitException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    private static String text(Ragged found) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < found.size(); ++i) {
            text.append(Arrays.toString(found.shape(i))).append(Arrays.toString(found.get(i).floats()));
        }
        return text.toString();
    }

    public static void main(String[] words) {
        float[] a = {1, -1, 2, -2, 3, -3, 4, -4}, b = {5, -5, 6, -6}, none = {};
        long[] two = {1, 2}, one = {3};
        try (TokensModel model = TokensModel.open(Assets.folder(new File(words[1])), null)) {
            attempt(() -> text(model.run(Ragged.of(a, b), Ragged.of(two, one)).y));
            attempt(() -> text(model.run(Ragged.of(none, b), Ragged.of(new long[0], one)).y));
            attempt(() -> text(model.run(Ragged.of(new float[0][]), Ragged.of(new long[0][])).y));
            attempt(() -> text(model.run(Ragged.of(Tensor.of(a, 2, 4), Tensor.of(b, 1, 4)), Ragged.of(two, one)).y));
            attempt(() -> model.run(Ragged.of(a, b), Ragged.of(one, one)));
            attempt(() -> model.run(Ragged.of(a, b), Ragged.of(two)));
            attempt(() -> model.run(Ragged.of(new float[3], b), Ragged.of(one, one)));
            attempt(() -> Ragged.of(Tensor.of(a, 2, 4), new long[] {1, 2}));
            attempt(() -> Ragged.of(Tensor.of(a, 2, 4), new long[] {3, -1}));
            attempt(() -> model.run(Ragged.of(a, b), Ragged.of(two, one)).y.get(2));
        }
    }
}
