import java.io.BufferedReader;
import java.io.File;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Runs any dynamic model on instances from a file, which has a line for each value: {@code i 5}, {@code f 0.5},
 * {@code b 1}, {@code t 1.0 2.0} for a tensor, and {@code l n}, {@code u n}, {@code o Name n} in front of the items of a
 * list, of a tuple and of the fields of an object. {@code s n} is the value that the file had in line n. {@code d n Name}
 * puts a value into n objects, each of which is the first field of the next one and has the value behind as its second.
 * Prints what the model returns as literals of Python.
 */
public final class Objects {
    private final String place;
    private final BufferedReader lines;
    private final List<Object> known = new ArrayList<>();

    private Objects(String place, BufferedReader lines) {
        this.place = place;
        this.lines = lines;
    }

    private Object[] read(int count) throws Exception {
        Object[] values = new Object[count];
        for (int i = 0; i < count; ++i) {
            values[i] = read();
        }
        return values;
    }

    private Object read() throws Exception {
        String[] words = lines.readLine().split(" ");
        int number = known.size();
        known.add(null);
        Object value = value(words);
        known.set(number, value);
        return value;
    }

    private Object value(String[] words) throws Exception {
        switch (words[0]) {
            case "i":
                return Integer.parseInt(words[1]);
            case "f":
                return Double.parseDouble(words[1]);
            case "b":
                return words[1].equals("1");
            case "t":
                float[] elements = new float[words.length - 1];
                for (int i = 0; i < elements.length; ++i) {
                    elements[i] = Float.parseFloat(words[1 + i]);
                }
                return elements;
            case "s":
                return known.get(Integer.parseInt(words[1]));
            case "d":
                Object inner = read();
                Object second = read();
                for (int i = 0; i < Integer.parseInt(words[1]); ++i) {
                    inner = made(words[2], inner, second);
                }
                return inner;
            case "l":
                return new ArrayList<>(Arrays.asList(read(Integer.parseInt(words[1]))));
            case "u":
                return read(Integer.parseInt(words[1]));
            default:
                return made(words[1], read(Integer.parseInt(words[2])));
        }
    }

    private Object made(String name, Object... fields) throws Exception {
        return Class.forName(place + "." + name).getConstructors()[0].newInstance(fields);
    }

    private static String text(Object value) throws IllegalAccessException {
        StringBuilder found = new StringBuilder();
        if (value instanceof float[] || value instanceof List) {
            int count = value instanceof List ? ((List<?>) value).size() : Array.getLength(value);
            for (int i = 0; i < count; ++i) {
                found.append(text(value instanceof List ? ((List<?>) value).get(i) : Array.get(value, i))).append(", ");
            }
            return "[" + found + "]";
        }
        if (value instanceof Object[]) {
            for (Object item : (Object[]) value) {
                found.append(text(item)).append(", ");
            }
            return "(" + found + ")";
        }
        if (value instanceof Number) {
            return value.toString();
        }
        if (value instanceof Boolean) {
            return (Boolean) value ? "True" : "False";
        }
        for (Field field : value.getClass().getFields()) {
            found.append(", ").append(text(field.get(value)));
        }
        return "('" + value.getClass().getSimpleName() + "'" + found + ")";
    }

    public static void main(String[] words) throws Throwable {
        String place = words[3].substring(0, words[3].lastIndexOf('.'));
        Class<?> assets = Class.forName(place + ".Assets");
        Class<?> type = Class.forName(words[3]);
        Object folder = assets.getMethod("folder", File.class).invoke(null, new File(words[1]));
        // These find one method, without a look at those that name classes of Android.
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        Class<?> options = Class.forName(place + ".Options");
        MethodHandle open = lookup.findStatic(type, "open", MethodType.methodType(type, assets, options));
        MethodHandle run = lookup.findVirtual(type, "run", MethodType.methodType(List.class, List.class));
        try (AutoCloseable model = (AutoCloseable) open.invokeWithArguments(folder, null)) {
            for (int file = 4; file < words.length; ++file) {
                Objects objects = new Objects(place, Files.newBufferedReader(Paths.get(words[file])));
                try {
                    System.out.println(text(run.invokeWithArguments(model, objects.read())));
                } catch (RuntimeException error) {
                    System.out.println(error.getClass().getSimpleName() + ": " + error.getMessage());
                }
            }
        }
    }
}
