// Allocates and gives back from several threads, then tells what tcmalloc itself counts, in bytes: blocks in use, what caches of threads keep, what is moved
// between them, what it has from the system, and what of that it has given back.
#include "target.h"

#define BLOCKS 4000
#define THREADS 3

int MallocExtension_GetNumericProperty(const char *name, size_t *value);

static pthread_barrier_t done;

static void *churn(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    for (int turn = 0; turn < 40000; turn++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 8) % BLOCKS;
        size_t size = 1 + (state >> 16) % (turn % 50 == 0 ? 400000 : turn % 7 == 0 ? 9000 : 600);
        free(blocks[at]);
        blocks[at] = malloc(size);
        memset(blocks[at], 1, size);
    }
    for (int at = 0; at < BLOCKS; at++) {
        if (at % 3 == 0 || at < BLOCKS / 2) {
            free(blocks[at]);
            blocks[at] = NULL;
        }
    }
    pthread_barrier_wait(&done);
    for (;;) pause();
    return blocks;
}

static size_t number(const char *name) {
    size_t value = 0;
    if (!MallocExtension_GetNumericProperty(name, &value)) _exit(3);
    return value;
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
    size_t used = number("generic.current_allocated_bytes"), threads = number("tcmalloc.current_total_thread_cache_bytes"),
           moved = number("tcmalloc.transfer_cache_free_bytes"), system = number("generic.heap_size"),
           returned = number("tcmalloc.pageheap_unmapped_bytes");
    printf("READY %d\nCOUNTED %zu %zu %zu %zu %zu\n", (int)getpid(), used, threads, moved, system, returned);
    wait_for_stop();
}
