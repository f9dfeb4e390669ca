package org.deploykit.app;

import android.content.Context;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.graphics.Matrix;
import android.media.ExifInterface;
import java.io.File;
import java.io.IOException;
import java.util.List;
import org.deploykit.app.models.animals.Animals;
import org.deploykit.app.models.animals.Label;
import org.deploykit.app.thinking.Recognizer;
import org.deploykit.app.thinking.Sampling;
import org.deploykit.app.thinking.Turn;

/** Decodes pictures with the system, and classifies them. */
final class Photos implements Recognizer.Source<Bitmap> {
    private final Context context;

    Photos(Context context) {
        this.context = context.getApplicationContext();
    }

    @Override
    public Animals model() {
        return Animals.load(context);
    }

    @Override
    public List<Label> classify(Animals model, Bitmap picture) {
        return model.classify(picture);
    }

    @Override
    public Bitmap decoded(File file) throws IOException {
        BitmapFactory.Options options = new BitmapFactory.Options();
        options.inJustDecodeBounds = true;
        BitmapFactory.decodeFile(file.getPath(), options);
        if (options.outWidth <= 0 || options.outHeight <= 0) {
            throw new IOException(context.getString(R.string.no_picture));
        }
        options.inSampleSize = Sampling.factor(options.outWidth, options.outHeight);
        options.inJustDecodeBounds = false;
        Bitmap picture = BitmapFactory.decodeFile(file.getPath(), options);
        if (picture == null) {
            throw new IOException(context.getString(R.string.no_picture));
        }
        return turned(picture, turn(file));
    }

    private static Turn turn(File file) {
        try {
            ExifInterface exif = new ExifInterface(file.getPath());
            return new Turn(exif.getAttributeInt(ExifInterface.TAG_ORIENTATION, ExifInterface.ORIENTATION_NORMAL));
        } catch (IOException error) { // a kind of file that notes none
            return new Turn(ExifInterface.ORIENTATION_NORMAL);
        }
    }

    private static Bitmap turned(Bitmap picture, Turn turn) {
        if (turn.isNone()) {
            return picture;
        }
        Matrix matrix = new Matrix();
        matrix.postScale(turn.mirrored ? -1 : 1, 1);
        matrix.postRotate(turn.degrees);
        Bitmap found = Bitmap.createBitmap(picture, 0, 0, picture.getWidth(), picture.getHeight(), matrix, false);
        picture.recycle();
        return found;
    }
}
