// What every sick program shares: it says READY, ends on end of stdin or SIGTERM, and never lives longer than ten
// minutes even when its test is gone.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// A function that must be visible by name in stacks: not inlined, not cloned, not merged with a twin.
#define VISIBLE __attribute__((noinline, noclone, noipa))

static inline void end_well(int signal) {
    (void)signal;
    _exit(0);
}

static inline void end_late(int signal) {
    (void)signal;
    static const char text[] = "still running after ten minutes: ending\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(3);
}

static inline void limit_own_life(void) {
    signal(SIGTERM, end_well);
    signal(SIGALRM, end_late);
    alarm(600);
}

static inline void wait_for_stop(void) {
    char byte;
    for (;;) {
        ssize_t got = read(0, &byte, 1);
        if (got == 0) _exit(0);
        if (got < 0 && errno != EINTR) _exit(0);
    }
}

static inline void *stdin_watcher(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "stdin-watcher");
    wait_for_stop();
    return NULL;
}

static inline pthread_t start_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0) {
        fprintf(stderr, "pthread_create: %s\n", strerror(error));
        _exit(2);
    }
    return thread;
}

// The main thread does the work; a second one waits for the end of stdin.
static inline void watch_stdin(void) {
    start_thread(stdin_watcher, NULL);
}

static inline void say_ready(void) {
    printf("READY %d\n", (int)getpid());
    fflush(stdout);
}

static inline void sleep_ns(long nanoseconds) {
    struct timespec pause = {nanoseconds / 1000000000L, nanoseconds % 1000000000L};
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
    }
}

static inline long number_argument(int argc, char **argv, int index, long otherwise) {
    return argc > index ? strtol(argv[index], NULL, 10) : otherwise;
}
