// Writes to all pages of its memory, over and over. Arguments: MiB of memory, 64; `huge`: in huge pages, `can-be-huge`: in
// small ones that may be turned into huge ones.
// Says `ROUNDS n` when it gets a line on stdin.
#include "target.h"

#include <sys/mman.h>

static _Atomic long rounds;

static void *answer(void *unused) {
    (void)unused;
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("ROUNDS %ld\n", rounds);
        fflush(stdout);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    limit_own_life();
    size_t bytes = (size_t)number_argument(argc, argv, 1, 64) << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    const char *pages = argc > 2 ? argv[2] : "";
    madvise(memory, bytes, strcmp(pages, "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
    if (strcmp(pages, "can-be-huge") == 0) madvise(memory, bytes, MADV_HUGEPAGE);
    start_thread(answer, NULL);
    say_ready();
    for (;;) {
        for (size_t at = 0; at < bytes; at += 4096) memory[at]++;
        rounds++;
    }
}
