// Three threads put into a short list, and wait for room. Argument 1 says who takes from it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER, work = PTHREAD_COND_INITIALIZER;
static int count;

static __attribute__((noinline)) void put(void) {
    pthread_mutex_lock(&list);
    while (count == 4) pthread_cond_wait(&room, &list);
    count++;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&list);
}

static __attribute__((noinline)) void take(void) {
    pthread_mutex_lock(&list);
    while (count == 0) pthread_cond_wait(&work, &list);
    count--;
    pthread_cond_signal(&room);
    pthread_mutex_unlock(&list);
}

static void *puts_all(void *unused) {
    for (;;) put();
    return unused;
}

static void (*volatile chosen)(void) = take;

static __attribute__((noinline)) void rest(void) { sleep(3600); }

// Nobody ever takes; one takes an hour over each; one comes to it by a pointer; one starts the one that takes.
static void *nobody(void *unused) {
    for (;;) rest();
    return unused;
}

static void *slowly(void *unused) {
    for (;;) {
        rest();
        take();
    }
    return unused;
}

static void *by_pointer(void *unused) {
    for (;;) {
        rest();
        chosen();
    }
    return unused;
}

static void *starts(void *unused) {
    pthread_t thread;
    for (;;) {
        rest();
        pthread_create(&thread, NULL, slowly, NULL);
    }
    return unused;
}

int main(int words, char **word) {
    void *(*who)(void *) = nobody;
    if (words > 1 && !strcmp(word[1], "slowly")) who = slowly;
    if (words > 1 && !strcmp(word[1], "pointer")) who = by_pointer;
    if (words > 1 && !strcmp(word[1], "starts")) who = starts;
    pthread_t thread;
    pthread_create(&thread, NULL, who, NULL);
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, puts_all, NULL);
    usleep(200000);
    printf("READY\n");
    fflush(stdout);
    for (;;) pause();
}
