// Checks for ever that nothing of it is changed from outside: general registers, vector and mask registers, x87, MXCSR,
// the red zone, the alternate signal stack, the signal mask, a word on the stack; and that it is never run twice.
//
// Threads: `keeper-N` (argument: how many, 2) hold magic values in all registers in a loop; `in-read`, `in-poll`, `in-nap`,
// `in-epoll` wait in system calls and check what they return; the main thread answers lines of stdin with
// `INTACT rounds N eintr N` or ends with the number of what is broken:
//
//   11 general register  12 vector register  13 mask register  14 red zone  15 x87 or MXCSR  16 alternate stack
//   17 signal mask  18 a copy of the program ran  19 a timed wait ended early  20 wrong result of a call  21 lost signal
//
// With `single` as first argument there is only the main thread, which waits in read(2).
#include "target.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

static pid_t own_pid;
static _Atomic unsigned long rounds;
static _Atomic unsigned long broken_off;
static _Atomic unsigned long signals_seen;
static unsigned long signals_sent;
static int has_avx512;

static void broken(int what, const char *text) {
    char line[128];
    int length = snprintf(line, sizeof line, "BROKEN %d %s\n", what, text);
    (void)!write(1, line, (size_t)length);
    (void)!write(2, line, (size_t)length);
    _exit(what);
}

static void check_identity(void) {
    if (syscall(SYS_getpid) != own_pid) {
        // A copy: nobody reads its exit code, so that the original has to be told.
        kill(own_pid, SIGUSR2);
        _exit(18);
    }
}

static void on_copy(int signal) {
    (void)signal;
    broken(18, "a copy of the program ran");
}

static void on_count(int signal) {
    (void)signal;
    atomic_fetch_add(&signals_seen, 1);
}

static void check_signal_state(const stack_t *expected, const sigset_t *mask) {
    stack_t now;
    sigaltstack(NULL, &now);
    if (now.ss_sp != expected->ss_sp || now.ss_size != expected->ss_size || now.ss_flags != 0) broken(16, "alternate stack");
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int one = 1; one < 64; one++)
        if (sigismember(&blocked, one) != sigismember(mask, one)) broken(17, "signal mask");
}

// Gives the thread a stack and a mask of its own, and remembers them.
static void set_signal_state(stack_t *stack, sigset_t *mask, int own) {
    stack->ss_sp = malloc(65536);
    stack->ss_size = 65536;
    stack->ss_flags = 0;
    if (sigaltstack(stack, NULL) != 0) _exit(2);
    sigemptyset(mask);
    sigaddset(mask, SIGHUP);
    if (own % 2) sigaddset(mask, SIGWINCH);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

#if defined(__x86_64__)
#include <immintrin.h>

struct kept {
    uint64_t seed;
    uint64_t general[13];
    uint64_t red_zone[2];
    uint64_t vector[8];
    uint64_t upper[4];
    uint64_t lower[2];
    uint64_t mask;
    uint64_t equal;
    uint32_t mxcsr;
    uint16_t control;
    double x87;
};

// All general registers but the stack pointer hold functions of the seed while the loop runs; the loop counter is in the
// red zone, since no register is left.
#define HOLD_GENERAL(PROLOGUE, EPILOGUE)                                                                              \
    asm volatile("push %%rbp\n push %%rbx\n"                                                                          \
                 "mov %%rdi, -48(%%rsp)\n mov (%%rdi), %%rax\n" PROLOGUE                                              \
                 "mov %%rax, -24(%%rsp)\n mov %%rax, -120(%%rsp)\n movq $150000, -64(%%rsp)\n"                        \
                 "lea 1(%%rax), %%rbx\n lea 2(%%rax), %%rcx\n lea 3(%%rax), %%rdx\n lea 4(%%rax), %%rsi\n"            \
                 "lea 5(%%rax), %%rbp\n lea 6(%%rax), %%r8\n lea 7(%%rax), %%r9\n lea 8(%%rax), %%r10\n"              \
                 "lea 9(%%rax), %%r11\n lea 10(%%rax), %%r12\n lea 11(%%rax), %%r13\n lea 12(%%rax), %%r14\n"         \
                 "lea 13(%%rax), %%r15\n"                                                                             \
                 "1: subq $1, -64(%%rsp)\n jnz 1b\n"                                                                  \
                 "mov -48(%%rsp), %%rdi\n"                                                                            \
                 "mov %%rbx, 8(%%rdi)\n mov %%rcx, 16(%%rdi)\n mov %%rdx, 24(%%rdi)\n mov %%rsi, 32(%%rdi)\n"         \
                 "mov %%rbp, 40(%%rdi)\n mov %%r8, 48(%%rdi)\n mov %%r9, 56(%%rdi)\n mov %%r10, 64(%%rdi)\n"          \
                 "mov %%r11, 72(%%rdi)\n mov %%r12, 80(%%rdi)\n mov %%r13, 88(%%rdi)\n mov %%r14, 96(%%rdi)\n"        \
                 "mov %%r15, 104(%%rdi)\n mov -24(%%rsp), %%rcx\n mov %%rcx, 112(%%rdi)\n"                            \
                 "mov -120(%%rsp), %%rcx\n mov %%rcx, 120(%%rdi)\n" EPILOGUE "pop %%rbx\n pop %%rbp\n"                \
                 :                                                                                                    \
                 : "D"(kept)                                                                                          \
                 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",  \
                   "xmm0", "xmm3", "xmm9", "xmm15")

// Offsets in `struct kept`: vector 128, upper 192, lower 224, mask 240, equal 248.
__attribute__((noinline, target("avx512f,avx512bw"))) static void hold_wide(struct kept *kept) {
    HOLD_GENERAL("vpbroadcastq %%rax, %%zmm17\n vpbroadcastq %%rax, %%zmm3\n vpbroadcastq %%rax, %%ymm9\n"
                 "vmovq %%rax, %%xmm15\n kmovq %%rax, %%k3\n",
                 "vmovdqu64 %%zmm17, 128(%%rdi)\n vmovdqu %%ymm9, 192(%%rdi)\n vmovdqu %%xmm15, 224(%%rdi)\n"
                 "kmovq %%k3, %%rcx\n mov %%rcx, 240(%%rdi)\n vpcmpeqq %%zmm17, %%zmm3, %%k4\n kmovq %%k4, %%rcx\n"
                 "mov %%rcx, 248(%%rdi)\n vzeroupper\n");
}

__attribute__((noinline)) static void hold_narrow(struct kept *kept) {
    HOLD_GENERAL("movq %%rax, %%xmm3\n movq %%rax, %%xmm9\n movq %%rax, %%xmm15\n",
                 "movdqu %%xmm9, 192(%%rdi)\n movdqu %%xmm15, 224(%%rdi)\n movq %%xmm3, %%rcx\n mov %%rcx, 248(%%rdi)\n");
}

static void check_kept(const struct kept *kept) {
    for (int i = 0; i < 13; i++)
        if (kept->general[i] != kept->seed + (uint64_t)i + 1) broken(11, "general register");
    if (kept->red_zone[0] != kept->seed || kept->red_zone[1] != kept->seed) broken(14, "red zone");
    if (kept->lower[0] != kept->seed || kept->lower[1] != 0 || kept->upper[0] != kept->seed) broken(12, "xmm");
    if (has_avx512) {
        for (int i = 0; i < 8; i++)
            if (kept->vector[i] != kept->seed) broken(12, "zmm");
        for (int i = 0; i < 4; i++)
            if (kept->upper[i] != kept->seed) broken(12, "ymm");
        if (kept->mask != kept->seed) broken(13, "mask register");
        if (kept->equal != 0xff) broken(12, "zmm3");
    } else if (kept->equal != kept->seed) {
        broken(12, "xmm3");
    }
}

static void keep_once(struct kept *kept) {
    // Other rounding modes than usual, and a value on the x87 stack, through the whole loop.
    uint32_t mxcsr = 0x1f80 | 0x6000;
    uint16_t control = 0x037f | 0x0c00;
    uint32_t usual_mxcsr = 0x1f80;
    uint16_t usual_control = 0x037f;
    double value = (double)(kept->seed >> 40);
    asm volatile("ldmxcsr %0\n fldcw %1\n fldl %2" : : "m"(mxcsr), "m"(control), "m"(value));
    if (has_avx512)
        hold_wide(kept);
    else
        hold_narrow(kept);
    asm volatile("stmxcsr %0\n fnstcw %1\n fstpl %2\n" : "=m"(kept->mxcsr), "=m"(kept->control), "=m"(kept->x87));
    asm volatile("ldmxcsr %0\n fldcw %1" : : "m"(usual_mxcsr), "m"(usual_control));
    // Flags of exceptions come and go; the rest may not.
    if ((kept->mxcsr & ~0x3fu) != mxcsr || kept->control != control || kept->x87 != value) broken(15, "x87 or MXCSR");
    check_kept(kept);
}

static int cpu_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}
#else
struct kept {
    uint64_t seed;
};
static void keep_once(struct kept *kept) {
    (void)kept;
    usleep(1000);
}
static int cpu_has_avx512(void) {
    return 0;
}
#endif

static void *keeper(void *argument) {
    long number = (long)argument;
    char name[16];
    snprintf(name, sizeof name, "keeper-%ld", number);
    prctl(PR_SET_NAME, name);
    stack_t stack = {0};
    sigset_t mask;
    set_signal_state(&stack, &mask, (int)number);
    volatile uint64_t canary = 0x5ca1ab1e00000000u + (uint64_t)number;
    for (uint64_t round = 1;; round++) {
        struct kept kept = {.seed = 0x1111111111111111u * ((uint64_t)number % 14 + 1) + round};
        keep_once(&kept);
        check_identity();
        if (canary != 0x5ca1ab1e00000000u + (uint64_t)number) broken(14, "a word on the stack");
        if (round % 16 == 0) check_signal_state(&stack, &mask);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

static uint64_t milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000u + (uint64_t)time.tv_nsec / 1000000u;
}

// Opened before READY, so that the list of open files does not change afterwards.
static int pipes[4][2];
static int epolls[4];

static void *waiter(void *argument) {
    long way = (long)argument % 4;
    static const char *const names[] = {"in-read", "in-poll", "in-nap", "in-epoll"};
    prctl(PR_SET_NAME, names[way]);
    stack_t stack = {0};
    sigset_t mask;
    set_signal_state(&stack, &mask, 1);
    for (;;) {
        char byte;
        struct epoll_event event;
        struct timespec nap = {0, 100000000};
        uint64_t begin = milliseconds();
        long result = 0;
        errno = 0;
        switch (way) {
        case 0: result = read(pipes[way][0], &byte, 1); break;
        case 1: result = poll(NULL, 0, 100); break;
        case 2: result = nanosleep(&nap, NULL); break;
        default: result = epoll_wait(epolls[way], &event, 1, 100); break;
        }
        uint64_t took = milliseconds() - begin;
        if (result < 0 && errno == EINTR)
            atomic_fetch_add(&broken_off, 1);
        else if (result != 0)
            broken(20, "wrong result of a call");
        else if (took < 99)
            broken(19, "a timed wait ended early");
        check_identity();
        check_signal_state(&stack, &mask);
    }
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    own_pid = getpid();
    has_avx512 = cpu_has_avx512();
    signal(SIGUSR2, on_copy);
    struct sigaction count = {.sa_handler = on_count, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &count, NULL);
    int single = argc > 1 && strcmp(argv[1], "single") == 0;
    long keepers = single ? 0 : number_argument(argc, argv, 1, 2);
    // Some memory, so that a fork takes a moment.
    size_t size = (size_t)number_argument(argc, argv, 2, 16) << 20;
    char *memory = malloc(size);
    memset(memory, 0x5a, size);
    stack_t stack = {0};
    sigset_t mask;
    set_signal_state(&stack, &mask, 0);
    for (long i = 0; i < 4 && !single; i++) {
        if (pipe(pipes[i]) != 0) _exit(2);
        epolls[i] = epoll_create1(0);
    }
    for (long i = 0; i < keepers; i++) start_thread(keeper, (void *)i);
    for (long i = 0; i < 4 && !single; i++) start_thread(waiter, (void *)i);
    say_ready();
    volatile uint64_t canary = 0x5ca1ab1e;
    char line[64];
    size_t filled = 0;
    for (;;) {
        ssize_t got = read(0, line + filled, sizeof line - 1 - filled);
        if (got == 0) _exit(0);
        if (got < 0) {
            if (errno == EINTR) continue;
            _exit(2);
        }
        check_identity();
        if (canary != 0x5ca1ab1e) broken(14, "a word on the stack");
        check_signal_state(&stack, &mask);
        filled += (size_t)got;
        line[filled] = 0;
        char *end;
        while ((end = strchr(line, '\n')) != NULL) {
            // `signals N`: so many SIGUSR1 must have come. Else: how it is.
            if (sscanf(line, "signals %lu", &signals_sent) == 1) {
                for (int wait = 0; wait < 200 && atomic_load(&signals_seen) < signals_sent; wait++) sleep_ns(10000000);
                if (atomic_load(&signals_seen) < signals_sent) broken(21, "lost signal");
            }
            printf("INTACT rounds %lu eintr %lu signals %lu\n", atomic_load(&rounds), atomic_load(&broken_off),
                   atomic_load(&signals_seen));
            fflush(stdout);
            memmove(line, end + 1, strlen(end + 1) + 1);
            filled = strlen(line);
        }
    }
}
