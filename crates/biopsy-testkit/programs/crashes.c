// Sick: dies of a signal. Argument 1 says how (default null), argument 2 after how many milliseconds (default: when a byte
// comes on stdin; 0 is at once). All work is done in `crash_here`, under `middle_of_work`, in a thread named `worker`; with
// `main` as argument 3 in the main thread.
//   null            reads a field at offset 24 of a null pointer       null-write      writes through one
//   stack-overflow  recursion without end                              guard           writes into the guard page of its own mmap
//   abort           abort()                                            assert          assert() with a message
//   wild-jump       calls address 0x1234                               jump-data       calls data: not executable
//   read-only       writes to a constant                               unmapped        reads memory that was unmapped
//   non-canonical   reads at 0xdeadbeefdeadbeef                        freed           reads through a pointer of freed memory (0xdd...)
//   double-free     frees twice                                        divide          divides by zero
//   trap            a breakpoint                                       illegal         an instruction that does not exist
//   bus             reads behind the end of a mapped file              handler         null, inside a signal handler
//   exit            no crash: exit(3)
//   together        null, in eight threads at once; the handler, as those of some languages, only gives the signal back its default
#include "target.h"
#include <assert.h>
#include <sys/mman.h>

static const char *mode = "null";
static volatile long sink;
static const char mode_that_writes_here[] = "a constant";
static volatile unsigned char data[64] __attribute__((aligned(64))) = {0xc3};

struct order {
    long id, customer, amount, price;
};

#pragma GCC diagnostic ignored "-Winfinite-recursion"
VISIBLE long recurse(long depth) {
    volatile char room[512];
    room[depth % 512] = (char)depth;
    return recurse(depth + 1) + room[(depth + 1) % 512];
}

static void reads_null_in_handler(int signal) {
    (void)signal;
    volatile struct order *order = NULL;
    sink = order->price;
}

static volatile int all_are_there;

static void faults_again(int signal_number) { signal(signal_number, SIG_DFL); }

static void *reads_null_with_others(void *order) {
    while (!all_are_there)
        ;
    sink = ((volatile struct order *)order)->price;
    return NULL;
}

VISIBLE void crash_here(void) {
    volatile struct order *order = NULL;
    if (strcmp(mode, "null") == 0) {
        sink = order->price;
    } else if (strcmp(mode, "null-write") == 0) {
        order->amount = 7;
    } else if (strcmp(mode, "stack-overflow") == 0) {
        sink = recurse(0);
    } else if (strcmp(mode, "guard") == 0) {
        char *area = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(area + 4096, 4096, PROT_NONE);
        ((volatile char *)area)[4100] = 1;
    } else if (strcmp(mode, "abort") == 0) {
        abort();
    } else if (strcmp(mode, "assert") == 0) {
        assert(order != NULL && "an order must be there");
    } else if (strcmp(mode, "wild-jump") == 0) {
        ((void (*)(void))0x1234)();
    } else if (strcmp(mode, "jump-data") == 0) {
        ((void (*)(void))(uintptr_t)data)();
    } else if (strcmp(mode, "read-only") == 0) {
        *(volatile char *)(uintptr_t)mode_that_writes_here = 7;
    } else if (strcmp(mode, "unmapped") == 0) {
        volatile char *area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap((void *)(uintptr_t)area, 1 << 20);
        sink = area[64];
    } else if (strcmp(mode, "non-canonical") == 0) {
        sink = *(volatile long *)0xdeadbeefdeadbeefUL;
    } else if (strcmp(mode, "freed") == 0) {
        order = *(struct order *volatile *)memset(malloc(64), 0xdd, 64);
        sink = order->price;
    } else if (strcmp(mode, "double-free") == 0) {
        void *volatile block = malloc(24);
        free(block);
        free(block);
    } else if (strcmp(mode, "divide") == 0) {
        volatile long zero = 0;
        sink = 10 / zero;
    } else if (strcmp(mode, "trap") == 0) {
        __asm__ volatile("int3");
    } else if (strcmp(mode, "illegal") == 0) {
        __asm__ volatile("ud2");
    } else if (strcmp(mode, "bus") == 0) {
        FILE *file = tmpfile();
        volatile char *area = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
        sink = area[100];
    } else if (strcmp(mode, "handler") == 0) {
        signal(SIGUSR2, reads_null_in_handler);
        raise(SIGUSR2);
    } else if (strcmp(mode, "together") == 0) {
        signal(SIGSEGV, faults_again);
        for (int other = 0; other < 7; other++) start_thread(reads_null_with_others, NULL);
        all_are_there = 1;
        reads_null_with_others(NULL);
    } else {
        exit(3);
    }
}

VISIBLE void middle_of_work(void) {
    crash_here();
    sink++;
}

static void *worker(void *delay) {
    prctl(PR_SET_NAME, "worker");
    long milliseconds = (long)delay;
    char byte;
    if (milliseconds < 0 && read(0, &byte, 1) <= 0) _exit(0);
    if (milliseconds > 0) sleep_ns(milliseconds * 1000000L);
    middle_of_work();
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    if (argc > 1) mode = argv[1];
    long delay = number_argument(argc, argv, 2, -1);
    say_ready();
    if (argc > 3 && strcmp(argv[3], "main") == 0) {
        worker((void *)delay);
    } else {
        pthread_join(start_thread(worker, (void *)delay), NULL);
    }
    return 0;
}
