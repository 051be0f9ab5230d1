// Works for a while (2,000 ms or the number given), then becomes itself again by exec and burns CPU for ever.
#include "target.h"

VISIBLE void work_before_exec(long milliseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < milliseconds);
}

VISIBLE void work_after_exec(void) {
    volatile uint64_t count = 0;
    for (;;) count++;
}

int main(int argc, char **argv) {
    limit_own_life();
    if (argc > 1 && strcmp(argv[1], "--second-life") == 0) {
        watch_stdin();
        printf("SECOND-LIFE %d\n", (int)getpid());
        fflush(stdout);
        work_after_exec();
    }
    watch_stdin();
    say_ready();
    work_before_exec(number_argument(argc, argv, 1, 2000));
    execl("/proc/self/exe", "second-life", "--second-life", (char *)NULL);
    perror("execl");
    return 2;
}
