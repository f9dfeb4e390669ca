package org.deploykit.model;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** What the model does with sound: how it becomes its input, and what its output means. */
final class Sounds {
    private final Session session;
    private final Run run;

    /** Runs the model on samples. Returns its answer. */
    interface Run {
        Tensor on(Tensor samples);
    }

    Sounds(Session session, Run run) {
        this.session = session;
        this.run = run;
    }

    String transcribe(Tensor samples, int channels, int rate) {
        Tensor scores = run.on(session.sound(samples, channels, rate));
        long times = scores.shape[1];
        ByteBuffer text = Tensor.allocated(5 * times);
        long[] place = new long[2];
        Native.letters(new ByteBuffer[] {scores.data, text}, times, place);
        byte[] bytes = new byte[(int) place[1]];
        text.position((int) place[0]);
        text.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
