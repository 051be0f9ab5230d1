// Sick: starts 20 threads a second that never end, up to 400 (or the number given).
#include "target.h"

VISIBLE void watch_task(void) {
    for (;;) sleep_ns(500000000);
}

static void *watchdog(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "watchdog");
    watch_task();
    return NULL;
}

VISIBLE void spawn_watchdog(void) {
    start_thread(watchdog, NULL);
    sleep_ns(50000000);
}

int main(int argc, char **argv) {
    limit_own_life();
    long most = number_argument(argc, argv, 1, 400);
    watch_stdin();
    say_ready();
    for (long i = 0; i < most; i++) spawn_watchdog();
    for (;;) pause();
}
