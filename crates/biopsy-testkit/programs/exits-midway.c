// Works for a while (2,000 ms or the number given), then ends by itself with code 0.
#include "target.h"

VISIBLE void last_work(long milliseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < milliseconds);
}

int main(int argc, char **argv) {
    limit_own_life();
    watch_stdin();
    say_ready();
    last_work(number_argument(argc, argv, 1, 2000));
    return 0;
}
