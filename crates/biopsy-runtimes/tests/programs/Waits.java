import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.*;

/** Threads that wait in the ways that are named as arguments; says READY once all of them do. */
public class Waits {
    static final Object CELLAR = new Object(), ATTIC = new Object();
    static final ReentrantLock LEFT = new ReentrantLock(), RIGHT = new ReentrantLock();
    static final ReentrantReadWriteLock SHARED = new ReentrantReadWriteLock();
    static final CountDownLatch BOTH = new CountDownLatch(2);
    static final List<Thread> STARTED = new ArrayList<>();
    static final CountDownLatch WARM = new CountDownLatch(4);
    static volatile long sink;

    static void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        STARTED.add(thread);
        thread.start();
    }

    /** Once both have their first lock, there is no way out. */
    static void meet() {
        BOTH.countDown();
        try {
            BOTH.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void monitorThenMonitor(Object first, Object second) {
        synchronized (first) {
            meet();
            synchronized (second) {
                sink++;
            }
        }
    }

    static void lockThenLock(Lock first, Lock second) {
        first.lock();
        meet();
        second.lock();
    }

    static void monitorThenLock(Object first, Lock second) {
        synchronized (first) {
            meet();
            second.lock();
        }
    }

    static void lockThenMonitor(Lock first, Object second) {
        first.lock();
        meet();
        synchronized (second) {
            sink++;
        }
    }

    static void deep(int depth) {
        if (depth == 0) {
            LockSupport.park(CELLAR);
        } else if (depth % 2 == 0) {
            deep(depth - 1);
        } else {
            odd(depth);
        }
        sink++;
    }

    static void odd(int depth) {
        deep(depth - 1);
        sink += depth;
    }

    interface Step { void go(long nanos, int depth); }
    static void leaf(long nanos) { LockSupport.parkNanos(nanos); sink++; }
    static void middle(long nanos, int depth) { if (depth > 3) leaf(nanos); else outer(nanos, depth + 1); sink++; }
    static void outer(long nanos, int depth) { Step step = Waits::middle; step.go(nanos, depth); sink++; }

    /** Compiled, and inlined, before it waits for good. */
    static void warm(long nanos) {
        for (int turn = 0; turn < 12_000; turn++) outer(1, 0);
        WARM.countDown();
        outer(nanos, 0);
    }

    static class Lazy {
        static final int VALUE;
        static {
            LockSupport.park(ATTIC);
            VALUE = 1;
        }
    }

    public static void main(String[] modes) throws Exception {
        for (String mode : modes) switch (mode) {
            case "monitors":
                start("cellar-first", () -> monitorThenMonitor(CELLAR, ATTIC));
                start("attic-first", () -> monitorThenMonitor(ATTIC, CELLAR));
                break;
            case "locks":
                start("left-first", () -> lockThenLock(LEFT, RIGHT));
                start("right-first", () -> lockThenLock(RIGHT, LEFT));
                break;
            case "mixed":
                start("monitor-first", () -> monitorThenLock(CELLAR, LEFT));
                start("lock-first", () -> lockThenMonitor(LEFT, CELLAR));
                break;
            case "others":
                start("deep", () -> deep(400));
                start("lazy", () -> sink += Lazy.VALUE);
                start("upgrade", () -> { SHARED.readLock().lock(); SHARED.writeLock().lock(); });
                start("waiter", () -> { synchronized (SHARED) { try { SHARED.wait(); } catch (InterruptedException e) { sink++; } } });
                start("latch", () -> { try { new CountDownLatch(1).await(); } catch (InterruptedException e) { sink++; } });
                start("future", () -> new CompletableFuture<String>().join());
                start("joins", () -> { try { STARTED.get(0).join(); } catch (InterruptedException e) { sink++; } });
                start("reflected", () -> {
                    try {
                        Waits.class.getDeclaredMethod("deep", int.class).invoke(null, 3);
                    } catch (ReflectiveOperationException e) {
                        throw new IllegalStateException(e);
                    }
                });
                start("streamed", () -> List.of(1, 2).stream().map(one -> one + 1).forEach(one -> deep(one)));
                start("compared", () -> new TreeMap<String, String>((a, b) -> { deep(5); return 0; }).put("a", "b"));
                ExecutorService pool = Executors.newFixedThreadPool(3);
                for (int number = 0; number < 3; number++) pool.submit(() -> sink++);
                break;
            case "warm":
                for (int number = 0; number < 4; number++) start("warm-" + number, () -> warm(Long.MAX_VALUE));
                break;
            case "many":
                for (int number = 0; number < 300; number++) start("many-" + number, () -> deep(20));
                break;
            case "virtual":
                // Holds its carrier: it waits inside of a monitor.
                Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, (Runnable) () -> { synchronized (ATTIC) { deep(6); } });
                Thread.sleep(500);
                break;
            case "spin":
                start("spin", () -> { for (;;) sink += Long.numberOfTrailingZeros(sink | 1); });
                break;
            default:
                throw new IllegalArgumentException(mode);
        }
        if (Arrays.asList(modes).contains("warm")) WARM.await();
        for (Thread thread : STARTED)
            while (!thread.getName().equals("spin") && !waits(thread)) Thread.sleep(20);
        Thread.sleep(200);
        System.out.println("READY");
        while (System.in.read() >= 0) { }
        Runtime.getRuntime().halt(0);
    }

    static boolean waits(Thread thread) {
        Thread.State state = thread.getState();
        return state == Thread.State.BLOCKED || state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
    }
}
