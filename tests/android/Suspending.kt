import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.deploykit.spin.*

private fun trips(count: Long): Tensor = Tensor.of(longArrayOf(count))

private fun x(n: Int): Tensor = Tensor.of(FloatArray(n) { 1f + it % 5 }, n.toLong())

fun main(words: Array<String>): Unit = runBlocking {
    val model = Spin.open(Assets.folder(File(words[0])), null)
    println(model.runSuspending(trips(3), x(4)).y.floats()[3])
    try {
        model.suspending { run(x(1), x(1)) }
    } catch (error: ShapeException) {
        println(error.javaClass.simpleName)
    }
    val job = launch(Dispatchers.Default) { model.runSuspending(trips(1L shl 40), x(1000)) }
    delay(300)
    job.cancel()
    val begin = System.nanoTime()
    val result = model.runSuspending(trips(3), x(4)).y.floats()[3] // waits until the run is stopped
    println(if (System.nanoTime() - begin < 200_000_000) "cancelled soon" else "late")
    println(result)
    model.close()
    try {
        model.runSuspending(trips(3), x(4))
    } catch (error: ClosedException) {
        println(error.javaClass.simpleName)
    }
}
