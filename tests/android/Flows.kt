import java.io.File
import kotlinx.coroutines.runBlocking
import org.deploykit.model.*

fun main(words: Array<String>): Unit = runBlocking {
    Model.open(Assets.folder(File(words[0])), null).use { model ->
        model.embedFlow(listOf("a", "b c", "a b a"), 2).collect { println(it.contentToString()) }
    }
}
