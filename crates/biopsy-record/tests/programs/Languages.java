/** Stands in known functions: one thread computes, one waits. */
public class Languages {
    static int countUp(int n) {
        int total = 0;
        for (int number = 0; number < n; number++) total += number * number % 7;
        return total;
    }

    static int throughLambda(int n) {
        return java.util.stream.IntStream.of(n, n).map(each -> countUp(each)).max().getAsInt();
    }

    static void compute() {
        while (true) throughLambda(20_000);
    }

    static void waitForNothing() {
        Object never = new Object();
        synchronized (never) {
            try {
                never.wait();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (Runnable each : new Runnable[] {Languages::compute, Languages::waitForNothing}) {
            Thread thread = new Thread(each);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("READY");
        while (System.in.read() >= 0) {}
    }
}
