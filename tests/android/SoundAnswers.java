import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.deploykit.model.*;

/** Prints the transcripts of the sounds of a file: of each, whether it has integers, channels, rate and all samples. */
public final class SoundAnswers {
    public static void main(String[] words) throws IOException {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Paths.get(words[3]))).order(ByteOrder.LITTLE_ENDIAN);
        try (Model model = Model.open(Assets.folder(new File(words[1])), null)) {
            while (file.hasRemaining()) {
                boolean whole = file.getInt() != 0;
                int channels = file.getInt(), rate = file.getInt(), count = file.getInt();
                try {
                    System.out.println(whole ? integers(model, file, count, rate, channels) : floats(model, file, count, rate, channels));
                } catch (DeploykitException error) {
                    System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
                }
            }
        }
    }

    private static String floats(Model model, ByteBuffer file, int count, int rate, int channels) {
        float[] samples = new float[count];
        for (int i = 0; i < count; ++i) {
            samples[i] = file.getFloat();
        }
        return channels == 1 ? model.transcribe(samples, rate) : model.transcribe(samples, rate, channels);
    }

    private static String integers(Model model, ByteBuffer file, int count, int rate, int channels) {
        short[] samples = new short[count];
        for (int i = 0; i < count; ++i) {
            samples[i] = file.getShort();
        }
        return channels == 1 ? model.transcribe(samples, rate) : model.transcribe(samples, rate, channels);
    }
}
