package org.deploykit.spans;

import java.lang.reflect.Array;
import java.util.List;

/** The types of the model's instances and results, and runs of instances. */
@SuppressWarnings("unchecked")
final class Instances {
    private static final InstanceType T0 = new InstanceType(InstanceType.FLOAT, "float", new int[] {});
    private static final InstanceType T1 = new InstanceType(InstanceType.UNION, "Span", new int[] {});
    private static final InstanceType T2 = new InstanceType(InstanceType.LIST, "list[Span]", new int[] {}, T1);
    private static final InstanceType T3 = new InstanceType(InstanceType.INT, "int", new int[] {});
    private static final InstanceType T4 = new InstanceType(InstanceType.TENSOR, "Tensor[4]", new int[] {4});
    private static final InstanceType T5 = new InstanceType(InstanceType.TUPLE, "tuple[int, Tensor[4]]", new int[] {}, T3, T4);
    private static final InstanceType T6 = new InstanceType(InstanceType.TUPLE, "tuple[float, list[Span], tuple[int, Tensor[4]]]", new int[] {}, T0, T2, T5);
    private static final InstanceType T7 = new InstanceType(InstanceType.TENSOR, "Tensor[2]", new int[] {2});
    private static final InstanceType T8 = new InstanceType(InstanceType.LIST, "list[Tensor[2]]", new int[] {}, T7);
    private static final InstanceType T9 = new InstanceType(InstanceType.BOOL, "bool", new int[] {});
    private static final InstanceType T10 = new InstanceType(InstanceType.TUPLE, "tuple[float, bool]", new int[] {}, T0, T9);
    private static final InstanceType T11 = new InstanceType(InstanceType.LIST, "list[int]", new int[] {}, T3);
    private static final InstanceType T12 = new InstanceType(InstanceType.TENSOR, "Tensor[2, 2]", new int[] {2, 2});
    private static final InstanceType T13 = new InstanceType(InstanceType.TUPLE, "tuple[list[Tensor[2]], tuple[float, bool], list[int], Tensor[2, 2]]", new int[] {}, T8, T10, T11, T12);
    private static final InstanceType T14 = new InstanceType(InstanceType.TENSOR, "Tensor[2, 4]", new int[] {2, 4});
    private static final InstanceType T15 = new InstanceType(InstanceType.LIST, "list[bool]", new int[] {}, T9);

    static {
        T1.variants = new InstanceType.Variant[] {
            new InstanceType.Variant("Span", new String[] {"start", "weight", "vector", "matrix", "flags"},
                new InstanceType[] {T3, T0, T4, T14, T15},
                v -> new Span((Integer) v[0], (Double) v[1], (float[]) v[2], (float[]) v[3], (List<Boolean>) v[4])),
        };
    }

    private Instances() {}

    /** What {@code main} returns for each instance. */
    static List<?> run(Session session, Function function, List<?> instances) {
        InstanceEncoder encoder = new InstanceEncoder(T6, instances);
        Tensor policy = Tensor.of(new int[] {4});
        Tensor[] outputs = session.run(function.call(encoder.words(), encoder.roots(), policy, encoder.elements()));
        return InstanceDecoder.decode(T13, outputs, instances.size());
    }

    /** A value in a message. */
    static String named(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof List) {
            return "a list of " + ((List<?>) value).size() + " items";
        } else if (value.getClass().isArray()) {
            return value.getClass().getSimpleName() + " of length " + Array.getLength(value);
        } else if (value instanceof Number || value instanceof Boolean || value instanceof String) {
            String text = value.toString();
            return value.getClass().getSimpleName() + " " + text.substring(0, Math.min(40, text.length()));
        }
        return nameOf(value);
    }

    /** The name of an object's dataclass, or of its class. */
    static String nameOf(Object value) {
        return value instanceof Dataclass ? ((Dataclass) value).name() : value instanceof List ? "list" : value.getClass().getSimpleName();
    }
}
