package org.deploykit.app;

import android.app.AlertDialog;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.widget.TextView;
import org.deploykit.app.thinking.Choice;
import org.deploykit.app.thinking.Drawing;
import org.deploykit.app.thinking.Examples;
import org.deploykit.app.thinking.Raster;
import org.deploykit.app.thinking.Reader;
import org.deploykit.app.thinking.Reading;
import org.deploykit.app.thinking.Times;
import org.deploykit.digits.Digits;
import org.deploykit.digits.Options;

/** Draw a digit, and the model reads along. */
public final class DrawActivity extends Screen implements Reader.Listener {
    private static final String DRAWING = "drawing", NEXT = "next";
    private static final String[] NAMES = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

    private final Drawing drawing = new Drawing();
    private Times times = new Times();
    private Reader reader;
    private PadView pad;
    private TextView guess;
    private TextView facts;
    private PictureView picture;
    private BarsView bars;
    private Digits model;
    private Choice choice;
    private AlertDialog sheet;
    /** The device that is opened; null while none is. */
    private String wanted;
    private String problem = "";
    /** The digit of the next example. */
    private int next;

    @Override
    protected int layout() {
        return R.layout.draw;
    }

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        pad = findViewById(R.id.pad);
        guess = findViewById(R.id.guess);
        facts = findViewById(R.id.facts);
        picture = findViewById(R.id.picture);
        bars = findViewById(R.id.bars);
        if (state != null) {
            drawing.restore(state.getDoubleArray(DRAWING));
            next = state.getInt(NEXT);
        }
        pad.show(drawing, this::changed);
        onClick(R.id.undo, () -> edit(drawing::undo));
        onClick(R.id.clear, () -> edit(drawing::clear));
        onClick(R.id.device, this::showSheet);
        onClick(R.id.example, () -> edit(() -> Examples.draw(next++ % NAMES.length, drawing)));
        Handler main = new Handler(Looper.getMainLooper());
        reader = new Reader(this::load, main::post, this);
        choice = new Choice(new Preferences(this, "draw"));
        reader.use(Choice.CPU, choice.threads()); // it answers at once
        if (choice.fatal != null) {
            problem = getString(R.string.fatal, choice.fatal);
        } else if (!choice.device().equals(Choice.CPU)) {
            use(choice.device(), choice.threads());
        }
        changed();
    }

    /** Go on with another device, as soon as it is ready. */
    private void use(String device, int threads) {
        problem = "";
        choice.begin(device, threads);
        wanted = device;
        reader.use(device, threads);
    }

    @Override
    void release() {
        reader.release();
        model = null;
    }

    @Override
    void reopen() {
        use(choice.device(), choice.threads());
    }

    private void showSheet() {
        if (model == null) {
            return;
        }
        String facts = getString(R.string.sheet_facts, model.device().description, model.device().reason,
                Digits.WEIGHTS_BYTES / 1000, Digits.memory(1) / 1000);
        sheet = DeviceSheet.show(this, choice, facts, this::use);
    }

    private Digits load(String device, int threads) {
        return Digits.load(this, new Options().device(device).threads(threads));
    }

    @Override
    protected void onSaveInstanceState(Bundle state) {
        super.onSaveInstanceState(state);
        state.putDoubleArray(DRAWING, numbers());
        state.putInt(NEXT, next);
    }

    @Override
    protected void onDestroy() {
        if (sheet != null) {
            sheet.dismiss();
        }
        reader.close();
        super.onDestroy();
    }

    /** The drawing as numbers. */
    double[] numbers() {
        return drawing.numbers();
    }

    private void edit(Runnable change) {
        change.run();
        pad.invalidate();
        changed();
    }

    private void changed() {
        if (drawing.isEmpty()) {
            guess.setText(R.string.empty);
            picture.show(null);
            bars.show(NAMES, new float[NAMES.length]);
        } else {
            reader.read(Raster.of(drawing));
        }
    }

    @Override
    public void onRead(Reading reading) {
        if (drawing.isEmpty()) {
            return;
        }
        times.add(reading.nanoseconds);
        String words = getString(R.string.guess, reading.best(), reading.percent(reading.best()));
        if (!words.contentEquals(guess.getText())) { // screen readers hear what is set
            guess.setText(words);
        }
        picture.show(reading.picture);
        bars.show(NAMES, reading.probabilities);
        showFacts();
    }

    @Override
    public void onOpened(String device, Digits found) {
        model = found;
        times = new Times();
        settle(device, true);
        changed();
        showFacts();
    }

    @Override
    public void onFailed(String device, String reason) {
        problem = model == null
                ? getString(R.string.failed, device, reason)
                : getString(R.string.failed_stays, device, reason, model.device().description);
        settle(device, false);
        showFacts();
    }

    /** A run failed: the CPU is there still. */
    @Override
    public void onLost(String device, String reason) {
        if (!device.equals(Choice.CPU)) {
            use(Choice.CPU, choice.threads());
        }
        problem = getString(R.string.failed, device, reason);
        showFacts();
    }

    private void settle(String device, boolean works) {
        if (device.equals(wanted)) {
            choice.end(device, works);
            wanted = null;
        }
    }

    private void showFacts() {
        String device = model == null ? "" : model.device().description;
        String facts = times.runs() == 0
                ? device
                : getString(R.string.facts, device, times.milliseconds(0.5), times.milliseconds(1), times.runs());
        this.facts.setText(problem.isEmpty() ? facts : problem + "\n" + facts);
    }
}
