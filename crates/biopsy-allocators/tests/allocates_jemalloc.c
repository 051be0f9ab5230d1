// Allocates and gives back from several threads, then tells what jemalloc itself counts: bytes of blocks in use, bytes of pages that it has in use,
// free pages that are still in memory, bytes that threads keep, blocks in use in slabs.
#include "target.h"

#define BLOCKS 4000
#define THREADS 3

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);

static pthread_barrier_t done;

static void *churn(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    for (int turn = 0; turn < 40000; turn++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 8) % BLOCKS;
        size_t size = 1 + (state >> 16) % (turn % 50 == 0 ? 90000 : 600);
        free(blocks[at]);
        blocks[at] = malloc(size);
        memset(blocks[at], 1, size);
    }
    for (int at = 0; at < BLOCKS; at += 3) {
        free(blocks[at]);
        blocks[at] = NULL;
    }
    pthread_barrier_wait(&done);
    for (;;) pause();
    return blocks;
}

static size_t number(const char *name, size_t length) {
    uint64_t value = 0;
    if (mallctl(name, &value, &length, NULL, 0) != 0) _exit(3);
    return value;
}

static size_t of_arenas(const char *format) {
    size_t sum = 0;
    for (size_t arena = 0; arena < number("arenas.narenas", 4); arena++) {
        char name[80];
        uint64_t value = 0;
        size_t length = sizeof value;
        snprintf(name, sizeof name, format, arena);
        // Those that were never used are not there.
        if (mallctl(name, &value, &length, NULL, 0) == 0) sum += value;
    }
    return sum;
}

int main(void) {
    limit_own_life();
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (uintptr_t number = 1; number <= THREADS; number++) start_thread(churn, (void *)number);
    void *large[4];
    for (int number = 0; number < 4; number++) {
        large[number] = malloc(3000000 + 500000 * number);
        memset(large[number], 2, 3000000);
    }
    free(large[1]);
    pthread_barrier_wait(&done);
    setvbuf(stdout, NULL, _IONBF, 0);
    uint64_t epoch = 1;
    size_t length = sizeof epoch;
    if (mallctl("epoch", &epoch, &length, &epoch, length) != 0) return 3;
    size_t free_pages = of_arenas("stats.arenas.%zu.pdirty") + of_arenas("stats.arenas.%zu.pmuzzy");
    size_t in_slabs = of_arenas("stats.arenas.%zu.small.allocated");
    printf("READY %d\nCOUNTED %zu %zu %zu %zu %zu\n", (int)getpid(), number("stats.allocated", 8), number("stats.active", 8),
           free_pages * 4096, of_arenas("stats.arenas.%zu.tcache_bytes"), in_slabs);
    wait_for_stop();
}
