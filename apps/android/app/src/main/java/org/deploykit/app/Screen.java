package org.deploykit.app;

import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.content.pm.ApplicationInfo;
import android.os.Bundle;
import android.os.StrictMode;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.Toast;

/** A screen: the buttons of all screens above its own content, inside of the system's bars. */
public abstract class Screen extends Activity {
    private boolean started;
    private boolean released;

    /** The layout of the content. */
    protected abstract int layout();

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        if ((getApplicationInfo().flags & ApplicationInfo.FLAG_DEBUGGABLE) != 0) {
            StrictMode.setThreadPolicy(new StrictMode.ThreadPolicy.Builder().detectAll().penaltyLog().build());
        }
        setContentView(R.layout.screen);
        getLayoutInflater().inflate(layout(), findViewById(R.id.content));
        findViewById(R.id.root).setOnApplyWindowInsetsListener((root, insets) -> {
            root.setPadding(insets.getSystemWindowInsetLeft(), insets.getSystemWindowInsetTop(),
                    insets.getSystemWindowInsetRight(), insets.getSystemWindowInsetBottom());
            return insets.consumeSystemWindowInsets();
        });
        ViewGroup screens = findViewById(R.id.screens);
        for (int i = 0; i < screens.getChildCount(); ++i) {
            Button button = (Button) screens.getChildAt(i);
            Class<?> target = Screens.of(button.getId());
            button.setSelected(target == getClass());
            button.setOnClickListener(view -> open(target));
        }
    }

    /** Free what can be had again: the model. */
    void release() {}

    /** Have it again, if it does not come by itself. */
    void reopen() {}

    @Override
    protected void onStart() {
        super.onStart();
        started = true;
        if (released) {
            released = false;
            reopen();
        }
    }

    @Override
    protected void onStop() {
        started = false;
        super.onStop();
    }

    @Override
    public void onTrimMemory(int level) {
        super.onTrimMemory(level);
        if (level >= TRIM_MEMORY_RUNNING_CRITICAL) {
            release();
            released = !started;
            if (started) {
                reopen();
            }
        }
    }

    private void open(Class<?> screen) {
        if (screen != getClass()) {
            startActivity(new Intent(this, screen).addFlags(Intent.FLAG_ACTIVITY_REORDER_TO_FRONT));
        }
    }

    /** Start an app that gives a result. Where there is none, a word says so. */
    void startOther(Intent intent, int request) {
        try {
            startActivityForResult(intent, request);
        } catch (ActivityNotFoundException error) {
            Toast.makeText(this, R.string.no_app, Toast.LENGTH_LONG).show();
        }
    }

    /** Call {@code action} when the view with this id is clicked. */
    void onClick(int id, Runnable action) {
        View view = findViewById(id);
        view.setOnClickListener(clicked -> action.run());
    }
}
