// Allocates in all sizes and gives back at random from several threads, over what musl's malloc has for it: small blocks in groups in
// groups, large ones with mappings of their own, moved ones, aligned ones. Then tells what it holds itself: blocks, and the sum of
// malloc_usable_size(3) over them, which in musl is what was asked for; of those of at least 128 KiB the same.
#include "target.h"
#include <malloc.h>
#include <stdatomic.h>

#define BLOCKS 4000
#define THREADS 3

static pthread_barrier_t done;
static atomic_size_t counts[4];

static void hold(void *block) {
    size_t size = malloc_usable_size(block);
    counts[0] += 1;
    counts[1] += size;
    if (size >= 131052) {
        counts[2] += 1;
        counts[3] += size;
    }
}

static size_t some_size(unsigned state, int turn) {
    if (turn % 4000 == 0) return 131000 + (state >> 8) % 900000;
    if (turn % 50 == 0) return (state >> 12) % 70000;
    return (state >> 16) % 700;
}

static void *churn(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    for (int turn = 0; turn < 40000; turn++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 8) % BLOCKS;
        size_t size = some_size(state * 2654435761u, turn);
        if (turn % 7 == 0) {
            blocks[at] = realloc(blocks[at], size + 1);
        } else if (turn % 11 == 0) {
            free(blocks[at]);
            blocks[at] = aligned_alloc((size_t)32 << turn % 12, size);
        } else {
            free(blocks[at]);
            blocks[at] = malloc(size);
        }
        if (blocks[at]) memset(blocks[at], 1, size);
    }
    for (int at = 0; at < BLOCKS; at += 3) {
        free(blocks[at]);
        blocks[at] = NULL;
    }
    for (int at = 0; at < BLOCKS; at++) {
        if (blocks[at]) hold(blocks[at]);
    }
    hold(blocks);
    pthread_barrier_wait(&done);
    for (;;) pause();
    return blocks;
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
    // Moved or grown in place, and one that begins far into its memory.
    large[2] = realloc(large[2], 9000000);
    large[1] = aligned_alloc(4 << 20, 1000000);
    for (int number = 0; number < 4; number++) hold(large[number]);
    pthread_barrier_wait(&done);
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("READY %d\nCOUNTED %zu %zu %zu %zu\n", (int)getpid(), counts[0], counts[1], counts[2], counts[3]);
    wait_for_stop();
}
