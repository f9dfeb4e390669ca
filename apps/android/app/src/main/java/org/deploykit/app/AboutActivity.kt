package org.deploykit.app

import android.os.Build
import android.os.Bundle
import android.view.ViewGroup
import android.widget.TextView
import java.io.File
import org.deploykit.app.thinking.Contents
import org.deploykit.app.thinking.Contents.Kind

/** What this app is: versions, the sizes of its parts, notices. */
class AboutActivity : Screen() {
    private class Found(val notices: List<String>, val parts: List<Contents.Part>)

    override fun layout() = R.layout.about

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        Thread {
            val found = Found(Contents.notices(files()), Contents.parts(files()))
            runOnUiThread { show(found) }
        }.start()
    }

    /** The files of this app. */
    private fun files() = (listOf(applicationInfo.sourceDir) + applicationInfo.splitSourceDirs.orEmpty()).map(::File)

    private fun show(found: Found) {
        val version = packageManager.getPackageInfo(packageName, 0).versionName
        val name = getString(R.string.app)
        findViewById<TextView>(R.id.versions).text = getString(
            R.string.versions, name, version, Contents.version(found.notices.first()), Build.VERSION.RELEASE)
        found.parts.forEach { addSize(named(it), it.bytes) }
        addSize(getString(R.string.part_all), found.parts.sumOf { it.bytes })
        findViewById<TextView>(R.id.notices).text = Contents.joined(found.notices)
        reportFullyDrawn()
    }

    private fun addSize(part: String, bytes: Long) {
        val list = findViewById<ViewGroup>(R.id.sizes)
        val row = layoutInflater.inflate(R.layout.size, list, false)
        row.findViewById<TextView>(R.id.part).text = part
        row.findViewById<TextView>(R.id.bytes).text = getString(R.string.kilobytes, (bytes + 500) / 1000)
        list.addView(row)
    }

    private fun named(part: Contents.Part) = when (part.kind!!) {
        Kind.CODE -> getString(R.string.part_code)
        Kind.RESOURCES -> getString(R.string.part_resources)
        Kind.LIBRARY -> getString(R.string.part_library, part.name)
        Kind.WEIGHTS -> getString(R.string.part_weights, part.name)
        Kind.KERNELS -> getString(R.string.part_kernels)
        Kind.OTHER -> getString(R.string.part_other)
        Kind.ZIP -> getString(R.string.part_zip)
    }
}
