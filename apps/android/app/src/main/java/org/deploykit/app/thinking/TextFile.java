package org.deploykit.app.thinking;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Reads and writes texts in UTF-8. */
public final class TextFile {
    /** The largest text, in bytes. */
    public static final int LARGEST = 2_000_000;

    /** A file is no text in UTF-8. */
    public static final class NoTextException extends IOException {}

    /** A text is larger than {@link #LARGEST}. */
    public static final class TooLargeException extends IOException {}

    private TextFile() {}

    /** The text of a stream, which is closed. */
    public static String read(InputStream stream) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] part = new byte[1 << 16];
        try (InputStream closed = stream) {
            for (int count = closed.read(part); count >= 0; count = closed.read(part)) {
                bytes.write(part, 0, count);
                if (bytes.size() > LARGEST) {
                    throw new TooLargeException();
                }
            }
        }
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes.toByteArray())).toString();
            if (text.indexOf('\0') < 0) {
                return text;
            }
        } catch (CharacterCodingException error) {
            // it is said below
        }
        throw new NoTextException();
    }

    static String read(File file) throws IOException {
        return read(new FileInputStream(file));
    }

    /** Write a file, whole or not at all. */
    static void write(File file, String text) throws IOException {
        File unfinished = new File(file.getPath() + "-unfinished");
        try (OutputStream stream = new FileOutputStream(unfinished)) {
            stream.write(text.getBytes(StandardCharsets.UTF_8));
        }
        if (!unfinished.renameTo(file)) {
            throw new IOException("cannot write " + file);
        }
    }
}
