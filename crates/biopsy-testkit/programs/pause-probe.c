// Measures from inside how long the program was kept from running: a thread reads the clock as fast as it can and
// remembers its longest gap, while the others wait in the usual ways and count the calls that were broken off.
//
// Arguments: megabytes of memory to touch (64), threads besides the main one (20), `huge` for huge pages, `small`, or
// `collapsible` for small ones that may be made huge; `quiet`: nothing is measured, and the processor is left to others.
// On a line of stdin it prints `GAP nanoseconds EINTR count` and starts anew.
#include "target.h"
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static _Atomic uint64_t longest_gap;
static _Atomic uint64_t broken_off;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *meter(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "meter");
    // Others must not be taken for the pause; where this is refused the numbers are noisier.
    setpriority(PRIO_PROCESS, 0, -19);
    uint64_t before = now();
    for (;;) {
        uint64_t time = now();
        uint64_t gap = time - before;
        before = time;
        uint64_t longest = atomic_load_explicit(&longest_gap, memory_order_relaxed);
        if (gap > longest) atomic_store_explicit(&longest_gap, gap, memory_order_relaxed);
    }
    return NULL;
}

static void count_if_broken_off(long result) {
    if (result < 0 && errno == EINTR) atomic_fetch_add(&broken_off, 1);
}

static void *waits(void *argument) {
    long way = (long)argument % 5;
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    int epoll = epoll_create1(0);
    uint32_t word = 0;
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    char byte;
    static const char *const names[] = {"in-epoll", "in-futex", "in-read", "in-poll", "in-sleep"};
    prctl(PR_SET_NAME, names[way]);
    for (;;) {
        struct epoll_event event;
        struct timespec hour = {3600, 0};
        switch (way) {
        case 0: count_if_broken_off(epoll_wait(epoll, &event, 1, -1)); break;
        case 1: count_if_broken_off(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0)); break;
        case 2: count_if_broken_off(read(ends[0], &byte, 1)); break;
        case 3: count_if_broken_off(poll(&one, 1, -1)); break;
        default: count_if_broken_off(nanosleep(&hour, NULL)); break;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    size_t bytes = (size_t)number_argument(argc, argv, 1, 64) << 20;
    long threads = number_argument(argc, argv, 2, 20);
    int huge = argc > 3 && strcmp(argv[3], "huge") == 0;
    int collapsible = argc > 3 && strcmp(argv[3], "collapsible") == 0;
    int quiet = argc > 4 && strcmp(argv[4], "quiet") == 0;
    // Aligned to 2 MiB, so that all of it can be in huge pages.
    unsigned char *memory = mmap(NULL, bytes + (2u << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    memory = (unsigned char *)(((uintptr_t)memory + (2u << 20) - 1) & ~(uintptr_t)((2u << 20) - 1));
    madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    // Compressible like ordinary memory: of each 4 words, one is random and three are small numbers.
    uint64_t state = 88172645463325252u;
    for (size_t at = 0; at + 32 <= bytes; at += 32) {
        uint64_t *words = (uint64_t *)(memory + at);
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        words[0] = state;
        words[1] = at >> 12;
        words[2] = at & 0xff;
        words[3] = 1;
    }
    if (collapsible) madvise(memory, bytes, MADV_HUGEPAGE);
    for (long i = 0; i + 1 < threads; i++) start_thread(waits, (void *)i);
    if (!quiet) start_thread(meter, NULL);
    say_ready();
    char line[64];
    atomic_store(&longest_gap, 0);
    for (;;) {
        if (fgets(line, sizeof line, stdin) == NULL) {
            if (ferror(stdin) && errno == EINTR) {
                clearerr(stdin);
                atomic_fetch_add(&broken_off, 1);
                continue;
            }
            _exit(0);
        }
        printf("GAP %llu EINTR %llu\n", (unsigned long long)atomic_exchange(&longest_gap, 0),
               (unsigned long long)atomic_exchange(&broken_off, 0));
        fflush(stdout);
    }
}
