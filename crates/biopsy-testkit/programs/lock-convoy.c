// Sick: N threads (default 8) append to one log; each holds the only mutex during a pause of a millisecond.
#include "target.h"

static pthread_mutex_t log_gate = PTHREAD_MUTEX_INITIALIZER;
static volatile long lines;

VISIBLE void write_line_slowly(void) {
    sleep_ns(1000000);
    lines++;
}

VISIBLE void append_under_lock(void) {
    pthread_mutex_lock(&log_gate);
    write_line_slowly();
    pthread_mutex_unlock(&log_gate);
    // Without a breath the thread that just unlocked wins the mutex again and again, and others may not run for a second: a breath is longer
    // than a sleeping thread takes to wake on a busy virtual machine.
    sleep_ns(200000);
}

static void *log_writer(void *number) {
    char name[16];
    snprintf(name, sizeof name, "log-writer-%ld", (long)number);
    prctl(PR_SET_NAME, name);
    for (;;) append_under_lock();
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    long threads = number_argument(argc, argv, 1, 8);
    for (long i = 0; i < threads; i++) start_thread(log_writer, (void *)i);
    say_ready();
    wait_for_stop();
    return 0;
}
