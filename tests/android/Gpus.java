import java.io.File;
import java.util.Arrays;
import org.deploykit.lookup.*;

/** Runs a model on the devices that are named; prints each result. */
public final class Gpus {
    private Gpus() {}

    /** Marks a line, because drivers and the JVM print others. */
    private static void print(String line) {
        System.out.println("\n> " + line);
    }

    private static Lookup.Result run(Lookup model, int b, int n) {
        float[] x = new float[b * n];
        for (int i = 0; i < x.length; ++i) {
            x[i] = (i % 7 - 3) * 0.125f;
        }
        long[] ids = new long[b];
        for (int i = 0; i < b; ++i) {
            ids[i] = i * 5 % 16;
        }
        return model.run(x, ids, b, n);
    }

    public static void main(String[] words) {
        Assets assets = Assets.folder(new File(words[1]));
        switch (words[0]) {
            case "devices":
                for (Device device : Lookup.devices(new File(words[3]))) {
                    print(device.name);
                }
                print(Lookup.devices(new File(words[3])).get(0).reason);
                break;
            case "profile":
                Options chosen = new Options().device(words[4]).cache(new File(words[3]));
                try (Lookup model = Lookup.open(assets, chosen); Lookup other = Lookup.open(assets, null)) {
                    Thread beside = new Thread(() -> {
                        while (!Thread.interrupted()) {
                            run(other, 3, 7); // whose steps do not count
                        }
                    });
                    beside.start();
                    Tensor x = Tensor.of(new float[8 * 64], 8, 64);
                    Profile profile = model.profile(20, x, Tensor.of(new long[8], 8));
                    beside.interrupt();
                    beside.join();
                    print(profile.runs + " " + profile.device.name + " " + profile.milliseconds);
                    for (Profile.Step step : profile.steps) {
                        print(step.name + "|" + step.result + "|" + step.calls + "|" + step.milliseconds + "|" + step.onDevice);
                    }
                } catch (InterruptedException error) {
                    throw new AssertionError(error);
                }
                break;
            case "run":
                for (int round = 0; round < 3; ++round) {
                    Options options = new Options().device(words[4]).cache(new File(words[3]));
                    try (Lookup model = Lookup.open(assets, options)) {
                        for (int[] size : new int[][] {{3, 7}, {8, 64}, {1, 1}}) {
                            Lookup.Result result = run(model, size[0], size[1]);
                            print(Arrays.toString(result.scores.floats()));
                            print(Arrays.toString(result.places.longs()));
                        }
                        print(model.device().name + "|" + model.device().reason);
                    } catch (DeviceException error) {
                        print("DeviceException: " + error.getMessage());
                    }
                }
                break;
            default:
                throw new AssertionError();
        }
    }
}
