package org.deploykit.app.thinking;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.deploykit.digits.Assets;
import org.deploykit.digits.Digits;
import org.deploykit.digits.Options;

/** Reads the drawings of a file, a line each, and prints for each the digit and the picture. */
public final class Drawings implements Reader.Listener {
    private final BlockingQueue<Reading> readings = new LinkedBlockingQueue<>();

    public static void main(String[] words) throws Exception {
        Drawings heard = new Drawings();
        Assets assets = Assets.folder(new File(words[1]));
        try (Reader reader = new Reader(
                (device, threads) -> Digits.open(assets, new Options().device(device).threads(threads)),
                Runnable::run,
                heard)) {
            reader.use("cpu", 1);
            for (String line : Files.readAllLines(Paths.get(words[0]))) {
                reader.read(Raster.of(drawing(line)));
                System.out.println(text(heard.readings.poll(60, TimeUnit.SECONDS)));
            }
        }
    }

    private static Drawing drawing(String line) {
        Drawing drawing = new Drawing();
        for (String stroke : line.split(";")) {
            String[] numbers = stroke.split(" ");
            for (int i = 0; i < numbers.length; i += 2) {
                double x = Double.parseDouble(numbers[i]), y = Double.parseDouble(numbers[i + 1]);
                if (i == 0) {
                    drawing.begin(x, y);
                } else {
                    drawing.extend(x, y);
                }
            }
        }
        return drawing;
    }

    private static String text(Reading reading) {
        StringBuilder line = new StringBuilder().append(reading.best());
        for (float ink : reading.picture) {
            line.append(' ').append(ink);
        }
        return line.toString();
    }

    @Override
    public void onRead(Reading reading) {
        readings.add(reading);
    }

    @Override
    public void onOpened(String device, Digits model) {}

    @Override
    public void onLost(String device, String reason) {
        onFailed(device, reason);
    }

    @Override
    public void onFailed(String device, String reason) {
        throw new AssertionError(device + ": " + reason);
    }
}
