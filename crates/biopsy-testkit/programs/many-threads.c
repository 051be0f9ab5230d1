// 5,000 (or the number given) sleeping threads with small stacks.
#include "target.h"

static void *sleeper(void *unused) {
    (void)unused;
    for (;;) pause();
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    long threads = number_argument(argc, argv, 1, 5000);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        int error = pthread_create(&thread, &attributes, sleeper, NULL);
        if (error != 0) {
            fprintf(stderr, "thread %ld: %s\n", i, strerror(error));
            return 2;
        }
    }
    say_ready();
    wait_for_stop();
    return 0;
}
