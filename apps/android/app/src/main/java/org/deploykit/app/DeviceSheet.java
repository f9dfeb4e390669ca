package org.deploykit.app;

import android.app.AlertDialog;
import android.content.Context;
import android.view.LayoutInflater;
import android.view.View;
import android.widget.RadioButton;
import android.widget.RadioGroup;
import android.widget.TextView;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.deploykit.app.thinking.Choice;

/** The sheet with the devices of a model and its number of threads. */
final class DeviceSheet {
    private static final List<String> DEVICES = Arrays.asList("cpu", "vulkan", "opencl", "auto");
    private static final int MOST_THREADS = 4;

    /** What hears of a choice. */
    interface Listener {
        void onChosen(String device, int threads);
    }

    private DeviceSheet() {}

    /** Show the sheet, with {@code facts} below the choices. */
    static AlertDialog show(Context context, Choice choice, String facts, Listener listener) {
        View view = LayoutInflater.from(context).inflate(R.layout.device, null);
        RadioGroup devices = view.findViewById(R.id.devices), threads = view.findViewById(R.id.threads);
        fill(devices, Arrays.asList(context.getResources().getStringArray(R.array.devices)),
                DEVICES.indexOf(choice.device()));
        List<String> counts = new ArrayList<>();
        for (int count = 1; count <= MOST_THREADS; ++count) {
            counts.add(context.getResources().getQuantityString(R.plurals.threads, count, count));
        }
        fill(threads, counts, choice.threads() - 1);
        ((TextView) view.findViewById(R.id.sheet_facts)).setText(facts);
        return new AlertDialog.Builder(context)
                .setTitle(R.string.device)
                .setView(view)
                .setNegativeButton(android.R.string.cancel, null)
                .setPositiveButton(android.R.string.ok, (dialog, button) -> listener.onChosen(
                        DEVICES.get(devices.getCheckedRadioButtonId()), threads.getCheckedRadioButtonId() + 1))
                .show();
    }

    /** Put a button for each text into a group; the ids are their numbers. */
    private static void fill(RadioGroup group, List<String> texts, int chosen) {
        for (int i = 0; i < texts.size(); ++i) {
            RadioButton button = new RadioButton(group.getContext());
            button.setId(i);
            button.setText(texts.get(i));
            button.setMinHeight(group.getResources().getDimensionPixelSize(R.dimen.target));
            group.addView(button);
        }
        group.check(chosen);
    }
}
