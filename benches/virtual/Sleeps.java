/** Sleeps in two threads, and prints how far the clock went. */
class Sleeps {
    public static void main(String[] words) throws InterruptedException {
        long began = System.nanoTime();
        Thread other = new Thread(() -> sleep(200));
        other.start();
        sleep(100);
        other.join();
        System.out.println((System.nanoTime() - began) / 1e9 + " s");
    }

    private static void sleep(long pause_ms) {
        try {
            for (int n = 0; n < 20; n++) {
                Thread.sleep(pause_ms);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
