// Allocates and gives back from several threads, also blocks of others, then tells what mimalloc itself counts in the pages of all threads: blocks
// and bytes in use, given back by others or not; blocks and bytes that others gave back and no thread has taken; blocks and bytes that the program
// has of a thread that has ended.
#include "target.h"
#include <stdbool.h>

#define BLOCKS 4000
#define THREADS 3
#define OTHERS 250

typedef struct mi_heap_s mi_heap_t;
typedef struct {
    void *blocks;
    size_t reserved, committed, used, block_size;
} area_t;
mi_heap_t *mi_heap_get_default(void);
bool mi_heap_visit_blocks(const mi_heap_t *, bool, bool (*)(const mi_heap_t *, const area_t *, void *, size_t, void *), void *);
size_t mi_usable_size(const void *);

struct sum {
    size_t blocks, bytes;
};

static pthread_barrier_t done;
static mi_heap_t *heaps[THREADS + 1];
static void **tables[THREADS + 1];

static void churn(int number) {
    unsigned state = number;
    void **blocks = tables[number] = calloc(BLOCKS, sizeof *blocks);
    for (int turn = 0; turn < 40000; turn++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 8) % BLOCKS;
        size_t size = 1 + (state >> 16) % (turn % 50 == 0 ? 90000 : turn % 7 == 0 ? 3000 : 600);
        free(blocks[at]);
        // Of those that are aligned the program sees less than there is: none that others give back or that are counted here are.
        bool aligned = turn % 10 == 0 && at % 3 == 2 && number < THREADS;
        blocks[at] = aligned ? aligned_alloc(256, (size + 255) / 256 * 256) : malloc(size);
        memset(blocks[at], 1, size);
    }
    for (int at = 0; at < BLOCKS; at += 3) {
        free(blocks[at]);
        blocks[at] = NULL;
    }
}

static void *stay(void *argument) {
    int number = (int)(uintptr_t)argument;
    churn(number);
    heaps[number] = mi_heap_get_default();
    pthread_barrier_wait(&done);
    for (;;) pause();
    return NULL;
}

static void *end(void *argument) {
    churn((int)(uintptr_t)argument);
    return NULL;
}

static bool add(const mi_heap_t *heap, const area_t *area, void *block, size_t size, void *argument) {
    (void)heap, (void)block, (void)size;
    struct sum *sum = argument;
    sum->blocks += area->used;
    sum->bytes += area->used * area->block_size;
    return true;
}

int main(void) {
    limit_own_life();
    pthread_barrier_init(&done, NULL, THREADS);
    for (uintptr_t number = 1; number < THREADS; number++) start_thread(stay, (void *)number);
    pthread_barrier_wait(&done);
    // One whose blocks outlive it. Nobody allocates behind it, who would take its pages.
    void *large[4];
    for (int number = 0; number < 4; number++) {
        large[number] = malloc(number < 2 ? 3000000 : 40000000);
        memset(large[number], 2, 3000000);
    }
    free(large[1]);
    free(large[2]);
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_join(start_thread(end, (void *)(uintptr_t)THREADS), NULL);
    struct sum others = {0}, ended = {0}, sum = {0};
    for (int number = 1; number < THREADS; number++) {
        for (int at = 1; others.blocks < (size_t)(OTHERS * number); at += 3) {
            void **block = &tables[number][at];
            if (*block == NULL) continue;
            others.blocks++;
            others.bytes += mi_usable_size(*block);
            free(*block);
            *block = NULL;
        }
    }
    for (int at = 0; at < BLOCKS; at++) {
        void *block = tables[THREADS][at];
        if (block == NULL) continue;
        ended.blocks++;
        ended.bytes += mi_usable_size(block);
    }
    ended.blocks++;
    ended.bytes += mi_usable_size(tables[THREADS]);
    heaps[0] = mi_heap_get_default();
    for (int number = 0; number < THREADS; number++) mi_heap_visit_blocks(heaps[number], false, add, &sum);
    printf("READY %d\nCOUNTED %zu %zu %zu %zu %zu %zu\n", (int)getpid(), sum.blocks, sum.bytes, others.blocks, others.bytes, ended.blocks, ended.bytes);
    wait_for_stop();
}
