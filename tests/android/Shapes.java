import java.io.File;
import java.util.Arrays;
import org.deploykit.matrices.*;

/** A model whose instances differ in two extents. */
public final class Shapes {
    private static final Tensor A = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
    private static final Tensor NONE = Tensor.of(new float[0], 0, 5);
    private static final Tensor B = Tensor.of(new float[] {7, 8}, 2, 1);

    private static void attempt(java.util.function.Supplier<Object> action) {
        try {
            System.out.println(action.get());
        } catch (DeploykitException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    public static void main(String[] words) {
        try (Matrices model =
                Matrices.open(Assets.folder(new File(words[1])), null)) {
            attempt(() -> {
                Matrices.Result result = model.run(Ragged.of(A, NONE, B));
                String text = result.y + "";
                for (int i = 0; i < 3; ++i) {
                    text += Arrays.toString(result.y.get(i).floats());
                }
                return text + Arrays.toString(result.size.longs());
            });
            attempt(() -> model.run(Ragged.of(new float[] {1, 2})));
            attempt(() -> model.run(
                Tensor.of(new float[6], 6), Tensor.of(new long[] {2}, 1), Tensor.of(new long[] {4}, 1)));
        }
    }
}
