package org.deploykit.app;

import android.app.ActivityManager;
import android.content.Context;
import android.content.Intent;
import android.os.Build;
import android.os.Bundle;
import android.system.Os;
import android.system.OsConstants;
import android.view.View;
import android.widget.TextView;
import java.util.Arrays;
import org.deploykit.app.thinking.Report;
import org.deploykit.digits.Digits;
import org.deploykit.digits.Options;

/** What this phone is, and how fast the model is on each of its devices. Nothing leaves the phone by itself. */
public final class PhoneActivity extends Screen {
    private static final String TEXT = "text";

    /** What is measured; null: nothing. */
    private Report report;
    private TextView text;

    @Override
    protected int layout() {
        return R.layout.phone;
    }

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        text = findViewById(R.id.report);
        onClick(R.id.share, this::share);
        String known = state == null ? null : state.getString(TEXT);
        if (known != null) {
            show(known);
            return;
        }
        measure();
    }

    private void measure() {
        Report own = new Report((device, threads) -> Digits.load(this, new Options().device(device).threads(threads)));
        report = own;
        text.setText(facts());
        new Thread(() -> {
            // In order. View.post is not: before the view is attached, it keeps what later calls overtake.
            own.measure(line -> tell(own, () -> text.append("\n\n" + line)));
            tell(own, () -> {
                report = null;
                show(text.getText().toString());
            });
        }).start();
    }

    /** Show what a report says, unless it was ended. */
    private void tell(Report own, Runnable news) {
        runOnUiThread(() -> {
            if (own == report) {
                news.run();
            }
        });
    }

    /** End what is measured. */
    @Override
    void release() {
        if (report != null) {
            report.cancel();
            report = null;
        }
    }

    /** Measure again what was ended. */
    @Override
    void reopen() {
        if (!findViewById(R.id.share).isEnabled()) {
            measure();
        }
    }

    /** Show the whole text, which may be shared from now on. */
    private void show(String whole) {
        text.setText(whole);
        findViewById(R.id.measuring).setVisibility(View.GONE);
        findViewById(R.id.share).setEnabled(true);
        reportFullyDrawn();
    }

    private String facts() {
        ActivityManager.MemoryInfo memory = new ActivityManager.MemoryInfo();
        ((ActivityManager) getSystemService(Context.ACTIVITY_SERVICE)).getMemoryInfo(memory);
        return getString(R.string.phone_facts, Build.MANUFACTURER + " " + Build.MODEL, Build.HARDWARE,
                Build.VERSION.RELEASE, Build.VERSION.SDK_INT, Arrays.toString(Build.SUPPORTED_ABIS),
                Os.sysconf(OsConstants._SC_PAGESIZE) / 1024, Runtime.getRuntime().availableProcessors(),
                memory.totalMem >> 20, memory.availMem >> 20);
    }

    private void share() {
        Intent intent = new Intent(Intent.ACTION_SEND).setType("text/plain")
                .putExtra(Intent.EXTRA_TEXT, text.getText().toString());
        startActivity(Intent.createChooser(intent, getString(R.string.share)));
    }

    @Override
    protected void onSaveInstanceState(Bundle state) {
        super.onSaveInstanceState(state);
        if (findViewById(R.id.share).isEnabled()) {
            state.putString(TEXT, text.getText().toString());
        }
    }

    @Override
    protected void onDestroy() {
        release();
        super.onDestroy();
    }
}
