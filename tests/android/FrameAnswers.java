import android.graphics.Rect;
import android.media.Image;
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
import org.deploykit.model.*;

/**
 * Prints what the method of a model gives for frames of a file. Each has width, height, the crop rectangle, the degrees,
 * the format, whether it is closed, and whether its memory is outside of the heap; then for each plane the strides of
 * rows and points, and its bytes with their number.
 */
public final class FrameAnswers {
    /** A frame of a camera. */
    private static final class Frame extends Image {
        final int[] numbers;
        final Plane[] planes = new Plane[3];

        Frame(ByteBuffer file) {
            numbers = new int[10];
            file.asIntBuffer().get(numbers);
            file.position(file.position() + 4 * numbers.length);
            for (int i = 0; i < 3; ++i) {
                int row = file.getInt(), point = file.getInt();
                byte[] bytes = new byte[file.getInt()];
                file.get(bytes);
                ByteBuffer memory = numbers[9] != 0 ? ByteBuffer.allocateDirect(bytes.length) : ByteBuffer.allocate(bytes.length);
                memory.put(bytes); // and is left at its end: what was read before does not matter
                planes[i] = new Plane() {
                    @Override
                    public int getRowStride() {
                        return row;
                    }

                    @Override
                    public int getPixelStride() {
                        return point;
                    }

                    @Override
                    public ByteBuffer getBuffer() {
                        return memory;
                    }
                };
            }
        }

        private int open(int number) {
            if (numbers[8] != 0) {
                throw new IllegalStateException("Image is already closed");
            }
            return number;
        }

        @Override
        public int getWidth() {
            return open(numbers[0]);
        }

        @Override
        public int getHeight() {
            return open(numbers[1]);
        }

        @Override
        public int getFormat() {
            return open(numbers[7]);
        }

        @Override
        public Rect getCropRect() {
            Rect part = new Rect();
            part.left = open(numbers[2]);
            part.top = numbers[3];
            part.right = numbers[4];
            part.bottom = numbers[5];
            return part;
        }

        @Override
        public Plane[] getPlanes() {
            open(0);
            return planes;
        }
    }

    public static void main(String[] words) throws Throwable {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Paths.get(words[3]))).order(ByteOrder.LITTLE_ENDIAN);
        Model model = Model.open(Assets.folder(new File(words[1])), null);
        boolean segments = words[0].equals("segment"), floats = words[0].equals("embed"), detects = words.length > 4;
        Class<?> type = segments ? Class.forName("org.deploykit.model.Segments") : floats ? float[].class : List.class;
        MethodType taken = MethodType.methodType(type, Image.class, int.class);
        // Found without looking at other methods, which name classes that only Android has.
        MethodHandle method = MethodHandles.publicLookup()
                .findVirtual(Model.class, words[0], detects ? taken.appendParameterTypes(float.class) : taken);
        while (file.hasRemaining()) {
            Frame frame = new Frame(file);
            try {
                Object found = detects
                        ? method.invoke(model, frame, frame.numbers[6], Float.parseFloat(words[4]))
                        : method.invoke(model, frame, frame.numbers[6]);
                System.out.println(segments ? Arrays.toString((int[]) type.getField("classes").get(found))
                        : floats ? Arrays.toString((float[]) found) : found);
            } catch (DeploykitException error) {
                System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        }
        model.close();
    }
}
