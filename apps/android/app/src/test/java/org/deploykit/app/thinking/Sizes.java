package org.deploykit.app.thinking;

import java.io.File;
import java.util.Collections;

/** Prints the parts of an app's file: kind, bytes, name. */
public final class Sizes {
    private Sizes() {}

    public static void main(String[] words) throws Exception {
        for (Contents.Part part : Contents.parts(Collections.singletonList(new File(words[0])))) {
            System.out.println(part.kind + "," + part.bytes + "," + part.name);
        }
    }
}
