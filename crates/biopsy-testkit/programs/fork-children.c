// Starts a child every 100 ms (or the number of ms given); each burns CPU for 50 ms in `child_work` and ends.
#include "target.h"

#include <sys/wait.h>

VISIBLE void child_work(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 50);
}

VISIBLE void run_child(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "build-step");
        child_work();
        _exit(0);
    }
    if (child < 0) {
        perror("fork");
        _exit(2);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    limit_own_life();
    long pause_ms = number_argument(argc, argv, 1, 100);
    watch_stdin();
    say_ready();
    for (;;) {
        run_child();
        sleep_ns(pause_ms * 1000000);
    }
}
