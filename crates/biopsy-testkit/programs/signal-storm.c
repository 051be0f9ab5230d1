// Works without pause while a timer sends it signals that it handles, as samplers, timers and garbage collectors of
// runtimes do.
//
// Arguments: signals a second (1000; 0: none). On a line of stdin it prints `DID work SIGNALS count LOST count`, each since
// the line before: rounds of work, signals handled, and signals of the timer that fell into one because the one before was
// not handled yet.
#include "target.h"
#include <stdatomic.h>
#include <sys/syscall.h>

static _Atomic uint64_t work;
static _Atomic uint64_t signals;
static _Atomic uint64_t lost;
static volatile uint64_t sink;

static void count(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&lost, (uint64_t)info->si_overrun, memory_order_relaxed);
}

static void *answers(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "answers");
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("DID %llu SIGNALS %llu LOST %llu\n", (unsigned long long)atomic_exchange(&work, 0),
               (unsigned long long)atomic_exchange(&signals, 0), (unsigned long long)atomic_exchange(&lost, 0));
        fflush(stdout);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    limit_own_life();
    long rate = number_argument(argc, argv, 1, 1000);
    start_thread(answers, NULL);
    if (rate > 0) {
        struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
        // glibc has no public name for it before 2.38.
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        struct itimerspec times = {{0, 1000000000L / rate}, {0, 1000000000L / rate}};
        timer_t timer;
        if (rate == 1) times = (struct itimerspec){{1, 0}, {1, 0}};
        if (sigaction(SIGPROF, &action, NULL) != 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
            timer_settime(timer, 0, &times, NULL) != 0) {
            _exit(2);
        }
    }
    say_ready();
    uint64_t state = 88172645463325252u;
    for (;;) {
        // About a microsecond.
        for (int i = 0; i < 400; i++) state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sink = state;
        atomic_fetch_add_explicit(&work, 1, memory_order_relaxed);
    }
}
