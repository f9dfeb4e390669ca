import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Random;
import org.deploykit.model.*;

/**
 * Prints the final texts of a sound, a line each, when its samples come in pieces. The file has whether there are
 * integers, the channels, the rate and all samples.
 */
public final class Listens {
    public static void main(String[] words) throws Exception {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Paths.get(words[3]))).order(ByteOrder.LITTLE_ENDIAN);
        boolean whole = file.getInt() != 0;
        file.getInt();
        int rate = file.getInt(), count = file.getInt(), seconds = Integer.parseInt(words[4]);
        int most = Integer.parseInt(words[5]);
        Random random = new Random(most);
        try (Model model = Model.open(Assets.folder(new File(words[1])), null)) {
            Listening listening = model.listen(rate, seconds);
            for (int sounds = 0; sounds < 2; ++sounds) {
                for (int at = 0, length; at < count; at += length) {
                    length = Math.min(count - at, random.nextInt(most + 1));
                    String text;
                    if (whole) {
                        short[] piece = new short[length];
                        for (int i = 0; i < length; ++i) {
                            piece[i] = file.getShort(16 + 2 * (at + i));
                        }
                        text = listening.add(piece);
                    } else {
                        float[] piece = new float[length];
                        for (int i = 0; i < length; ++i) {
                            piece[i] = file.getFloat(16 + 4 * (at + i));
                        }
                        text = listening.add(piece);
                    }
                    if (!text.isEmpty()) {
                        System.out.println(text);
                    }
                }
                String partial = listening.partial(), end = listening.end();
                System.out.println(end);
                System.out.println(partial.equals(end) + " " + listening.partial().isEmpty() + " " + listening.end().isEmpty());
            }
            tell(() -> listening.add(new float[] {0, Float.NaN}));
            tell(() -> model.listen(0));
            tell(() -> model.listen(16000, 0));
            model.close();
            listening.add(new float[8]);
            tell(listening::end);
            tell(listening::end);
        }
    }

    private static void tell(Runnable call) {
        try {
            call.run();
            System.out.println("no exception");
        } catch (DeploykitException error) {
            System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }
}
