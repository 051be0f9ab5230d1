// Calls itself, a thread and a mapped file what its arguments say: PROCESS THREAD FILE.
#include "target.h"
#include <fcntl.h>
#include <sys/mman.h>

static pthread_barrier_t named;

static void *other(void *name) {
    prctl(PR_SET_NAME, name);
    pthread_barrier_wait(&named);
    for (;;) pause();
}

int main(int count, char **arguments) {
    limit_own_life();
    if (count < 4) return 2;
    int file = open(arguments[3], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) return 2;
    volatile char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    map[0] = 1;
    prctl(PR_SET_NAME, arguments[1]);
    pthread_t thread;
    pthread_barrier_init(&named, 0, 2);
    pthread_create(&thread, 0, other, arguments[2]);
    pthread_barrier_wait(&named);
    say_ready();
    wait_for_stop();
    return 0;
}
