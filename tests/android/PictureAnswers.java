import android.graphics.Bitmap;
import java.io.File;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.deploykit.model.*;

/**
 * Prints what the method of a model gives for pictures of a file, each in all configurations of a bitmap. The file has
 * width, height, whether there is transparency and whether it is multiplied into points, and these.
 */
public final class PictureAnswers {
    public static void main(String[] words) throws Throwable {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Paths.get(words[3]))).order(ByteOrder.LITTLE_ENDIAN);
        Model model = Model.open(Assets.folder(new File(words[1])), null);
        while (file.hasRemaining()) {
            int width = file.getInt(), height = file.getInt(), alpha = file.getInt(), multiplied = file.getInt();
            byte[] points = new byte[4 * width * height];
            file.get(points);
            for (Bitmap.Config config : Bitmap.Config.values()) {
                print(model, words, new Bitmap(config, width, height, alpha != 0, multiplied != 0, points));
            }
        }
        model.close();
        print(model, words, new Bitmap(Bitmap.Config.ARGB_8888, 2, 2, true, true, new byte[16]));
    }

    private static void print(Model model, String[] words, Bitmap bitmap) throws Throwable {
        boolean segments = words[0].equals("segment"), floats = words[0].equals("embed");
        Class<?> type = segments ? Class.forName("org.deploykit.model.Segments") : floats ? float[].class : List.class;
        try {
            Object found = words.length < 5
                    ? of(Model.class, words[0], type, Bitmap.class).invoke(model, bitmap)
                    : of(Model.class, words[0], type, Bitmap.class, float.class)
                            .invoke(model, bitmap, Float.parseFloat(words[4]));
            if (segments) {
                int[] classes = (int[]) type.getField("classes").get(found);
                Object point = of(type, "at", String.class, int.class, int.class).invoke(found, bitmap.getWidth() - 1, 0);
                System.out.println(Arrays.toString(classes) + " " + point + " " + of(type, "shares", Map.class).invoke(found));
            } else {
                System.out.println(floats ? Arrays.toString((float[]) found) : found);
            }
        } catch (DeploykitException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    /** A method, found without looking at others, which name classes that only Android has. */
    private static MethodHandle of(Class<?> type, String name, Class<?> result, Class<?>... parameters)
            throws ReflectiveOperationException {
        return MethodHandles.publicLookup().findVirtual(type, name, MethodType.methodType(result, parameters));
    }
}
