package org.deploykit.app;

import android.content.Context;
import android.content.SharedPreferences;
import java.util.Map;
import org.deploykit.app.thinking.Choice;

/** Texts that the system keeps for the app. */
final class Preferences implements Choice.Store {
    private final SharedPreferences preferences;

    Preferences(Context context, String name) {
        preferences = context.getSharedPreferences(name, Context.MODE_PRIVATE);
    }

    @Override
    public Map<String, ?> all() {
        return preferences.getAll();
    }

    @Override
    public void put(String name, String text) {
        preferences.edit().putString(name, text).commit(); // a driver may end the app right after
    }
}
