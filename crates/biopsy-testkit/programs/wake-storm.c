// A starved machine: very many threads that wake often and work a little. Arguments: threads (8000), times a second (20), work for
// each in microseconds (10). Says `ROUNDS n` when it gets a line on stdin.
#include "target.h"

static _Atomic long rounds;
static long period_ns, work_ns;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

VISIBLE void work_a_little(void) {
    long end = now_ns() + work_ns;
    while (now_ns() < end) {
    }
}

static void *wake_often(void *unused) {
    for (;;) {
        sleep_ns(period_ns);
        work_a_little();
        rounds++;
    }
    return unused;
}

int main(int argc, char **argv) {
    limit_own_life();
    long threads = number_argument(argc, argv, 1, 8000);
    period_ns = 1000000000L / number_argument(argc, argv, 2, 20);
    work_ns = 1000L * number_argument(argc, argv, 3, 10);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, wake_often, NULL) != 0) _exit(2);
    }
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("ROUNDS %ld\n", rounds);
        fflush(stdout);
    }
    return 0;
}
