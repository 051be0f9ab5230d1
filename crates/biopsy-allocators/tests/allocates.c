// Allocates and gives back from several threads, then tells what glibc itself counts (mallinfo2(3), over
// all arenas): bytes from the system, free bytes, blocks and bytes in fast bins, blocks and bytes with mappings of their own.
#include "target.h"
#include <malloc.h>
#include <sys/mman.h>

#define BLOCKS 4000
#define THREADS 3

static pthread_barrier_t done;

static void *churn(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    for (int turn = 0; turn < 40000; turn++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 8) % BLOCKS;
        size_t size = 1 + (state >> 16) % (turn % 50 == 0 ? 9000 : 600);
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
#ifdef ALIGNS
    // Blocks with mappings of their own that begin further on in these.
    for (size_t alignment = 64; alignment <= 1 << 22; alignment <<= 4) memset(aligned_alloc(alignment, 1 << 22), 3, 1 << 22);
#endif
#ifdef SPLITS
    // A page of the heap becomes a mapping of its own, as with libraries that keep secrets out of dumps.
    char *secret = malloc(64 << 10);
    madvise((void *)(((uintptr_t)secret + 4095) & ~(uintptr_t)4095), 4096, MADV_DONTDUMP);
#endif
    pthread_barrier_wait(&done);
    // Before counting, because it allocates.
    setvbuf(stdout, NULL, _IONBF, 0);
    struct mallinfo2 sums = mallinfo2();
    printf("READY %d\nCOUNTED %zu %zu %zu %zu %zu %zu\n", (int)getpid(), sums.arena, sums.fordblks, sums.smblks,
           sums.fsmblks, sums.hblks, sums.hblkhd);
    wait_for_stop();
}
