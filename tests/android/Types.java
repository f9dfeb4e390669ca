import java.io.File;
import java.util.Arrays;
import org.deploykit.elements.*;

/** A model with elements of many types. */
public final class Types {
    public static void main(String[] words) {
        short one = 0x3c00; // float16
        try (Elements model = Elements.open(Assets.folder(new File(words[1])), null)) {
            Elements.Result result = model.run(
                new short[] {one, 0}, new byte[] {(byte) 200, 3}, new byte[] {1, 0}, new double[] {0.5, -2},
                new int[] {1 << 30, 7}, new short[] {-5, 5}, new long[] {-1}, 2);
            System.out.println(Arrays.toString(result.a2.shorts()));
            System.out.println(Arrays.toString(result.b2.bytes()));
            System.out.println(Arrays.toString(result.c2.bytes()));
            System.out.println(Arrays.toString(result.d2.doubles()));
            System.out.println(Arrays.toString(result.e2.ints()));
            System.out.println(Arrays.toString(result.f2.shorts()));
            System.out.println(result.g2 + " " + result.g2.longs()[0] + " " + result.none + result.none.longs().length);
        }
    }
}
