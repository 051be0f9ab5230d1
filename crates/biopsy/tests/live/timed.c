// Threads in waits with a time limit, which the kernel takes up again as restart_syscall after a stop.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ends[2];

static struct timespec in_an_hour(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 3600;
    return at;
}

static void *at_condition(void *unused) {
    struct timespec at = in_an_hour();
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&condition, &lock, &at) == 0) {
    }
    return unused;
}

static void *at_semaphore(void *unused) {
    struct timespec at = in_an_hour();
    sem_timedwait(&semaphore, &at);
    return unused;
}

static void *at_pipe(void *unused) {
    struct pollfd pipe_end = {.fd = ends[0], .events = POLLIN};
    poll(&pipe_end, 1, 3600 * 1000);
    return unused;
}

static void *asleep(void *unused) {
    sleep(3600);
    return unused;
}

static void start(const char *name, void *(*body)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    pthread_setname_np(thread, name);
}

int main(void) {
    sem_init(&semaphore, 0, 0);
    if (pipe(ends) != 0) {
        return 1;
    }
    start("condition", at_condition);
    start("semaphore", at_semaphore);
    start("pipe", at_pipe);
    start("asleep", asleep);
    usleep(200 * 1000);
    printf("READY\n");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    poll(&input, 1, -1);
    return 0;
}
