// Burns N CPUs (default 1) in `count_forever`; with a cgroup around it, the throttled patient.
#include "target.h"

VISIBLE uint64_t count_some(uint64_t count) {
    for (int i = 0; i < 1000000; i++) count = count * 6364136223846793005u + 1442695040888963407u;
    return count;
}

static void *count_forever(void *unused) {
    (void)unused;
    volatile uint64_t count = 1;
    for (;;) count = count_some(count);
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    long threads = number_argument(argc, argv, 1, 1);
    for (long i = 0; i < threads; i++) start_thread(count_forever, NULL);
    say_ready();
    wait_for_stop();
    return 0;
}
