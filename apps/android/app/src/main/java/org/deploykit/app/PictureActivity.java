package org.deploykit.app;

import android.content.ClipData;
import android.content.ContentResolver;
import android.content.Intent;
import android.graphics.Bitmap;
import android.net.Uri;
import android.os.Build;
import android.os.Bundle;
import android.os.Handler;
import android.os.Looper;
import android.provider.MediaStore;
import android.view.View;
import android.widget.ImageView;
import android.widget.TextView;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.util.List;
import org.deploykit.app.models.animals.Label;
import org.deploykit.app.thinking.Recognizer;

/** Choose or take a picture, and the model says what it takes it for. */
public final class PictureActivity extends Screen implements Recognizer.Listener<Bitmap> {
    private static final int GALLERY = 1, CAMERA = 2;
    /** Classes that are shown. */
    private static final int SHOWN = 5;

    private Recognizer<Bitmap> recognizer;
    private ImageView picture;
    private TextView guess;
    private TextView facts;
    private TextView problem;
    private BarsView bars;

    @Override
    protected int layout() {
        return R.layout.picture;
    }

    @Override
    @SuppressWarnings("unchecked")
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        picture = findViewById(R.id.photo);
        guess = findViewById(R.id.guess);
        facts = findViewById(R.id.facts);
        problem = findViewById(R.id.problem);
        bars = findViewById(R.id.bars);
        onClick(R.id.gallery, this::openGallery);
        onClick(R.id.camera, this::openCamera);
        recognizer = (Recognizer<Bitmap>) getLastNonConfigurationInstance();
        if (recognizer == null) {
            Handler main = new Handler(Looper.getMainLooper());
            recognizer = new Recognizer<>(new Photos(this), new File(getFilesDir(), "picture"), main::post);
        }
        recognizer.tell(this);
        if (state == null) {
            take(getIntent());
        }
    }

    @Override
    protected void onNewIntent(Intent intent) {
        super.onNewIntent(intent);
        take(intent);
    }

    /** Take the picture that another app shares. */
    private void take(Intent intent) {
        Uri shared = intent.getParcelableExtra(Intent.EXTRA_STREAM);
        if (Intent.ACTION_SEND.equals(intent.getAction()) && shared != null) {
            take(shared);
        }
    }

    private void take(Uri file) {
        ContentResolver resolver = getApplicationContext().getContentResolver();
        problem.setVisibility(View.GONE);
        recognizer.take(stream -> {
            InputStream found = resolver.openInputStream(file);
            if (found == null) {
                throw new FileNotFoundException(file.toString());
            }
            Recognizer.copy(found, stream);
        });
    }

    /** The picker of Android 13 shows pictures only and needs no permission; before, any app with pictures. */
    private void openGallery() {
        startOther(Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU
                ? new Intent(MediaStore.ACTION_PICK_IMAGES)
                : new Intent(Intent.ACTION_GET_CONTENT).addCategory(Intent.CATEGORY_OPENABLE).setType("image/*"), GALLERY);
    }

    /** The camera writes into a file of this app, which needs no permission. */
    private void openCamera() {
        Intent intent = new Intent(MediaStore.ACTION_IMAGE_CAPTURE)
                .putExtra(MediaStore.EXTRA_OUTPUT, CameraProvider.PICTURE)
                .addFlags(Intent.FLAG_GRANT_WRITE_URI_PERMISSION | Intent.FLAG_GRANT_READ_URI_PERMISSION);
        intent.setClipData(ClipData.newRawUri("", CameraProvider.PICTURE));
        startOther(intent, CAMERA);
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (result != RESULT_OK) {
            return;
        }
        if (request == CAMERA) {
            takeFromCamera(data == null ? null : data.getParcelableExtra("data"));
        } else if (data != null && data.getData() != null) {
            take(data.getData());
        }
    }

    /** Take the file that the camera has written; {@code small} is what some cameras give instead. */
    private void takeFromCamera(Bitmap small) {
        File file = CameraProvider.file(getApplicationContext());
        problem.setVisibility(View.GONE);
        recognizer.take(stream -> {
            if (file.length() == 0 && small != null) {
                small.compress(Bitmap.CompressFormat.PNG, 100, stream);
                return;
            }
            Recognizer.copy(new FileInputStream(file), stream);
            file.delete();
        });
    }

    @Override
    public void onPicture(Bitmap found) {
        picture.setImageBitmap(found);
        picture.setVisibility(View.VISIBLE);
        guess.setText(R.string.looking);
    }

    @Override
    public void onClasses(List<Label> classes, long nanoseconds) {
        int count = Math.min(SHOWN, classes.size());
        String[] names = new String[count];
        float[] parts = new float[count];
        for (int i = 0; i < count; ++i) {
            names[i] = classes.get(i).name;
            parts[i] = classes.get(i).score;
        }
        guess.setText(getString(R.string.taken_for, names[0], Math.round(100 * parts[0])));
        bars.show(names, parts);
        facts.setText(getString(R.string.took, nanoseconds / 1e6));
    }

    @Override
    public void onFailed(Exception error) {
        problem.setText(error.getLocalizedMessage());
        problem.setVisibility(View.VISIBLE);
    }

    @Override
    void release() {
        recognizer.release();
    }

    @Override
    public Object onRetainNonConfigurationInstance() {
        return recognizer;
    }

    @Override
    protected void onDestroy() {
        recognizer.tell(null);
        if (!isChangingConfigurations()) {
            recognizer.close();
        }
        super.onDestroy();
    }
}
