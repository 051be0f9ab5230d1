// Holds what a test looks for in its dump. Arguments: megabytes of noise that does not pack (0), a file to open.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *heap[64];
static uint16_t *wide[64];

int main(int argc, char **argv) {
    long megabytes = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    for (int at = 0; at < 64; at++) {
        // 64 different alignments.
        heap[at] = (char *)malloc(4096) + at;
        // Put together at run time and at its place: nothing else of the program has it.
        strcpy(heap[at], "Server=db;Password");
        snprintf(heap[at] + strlen(heap[at]), 64, "=Zk9-planted-%02d-qTw7;", at);
        wide[at] = (uint16_t *)((char *)malloc(4096) + at * 2);
        for (size_t i = 0; i <= strlen(heap[at]); i++) wide[at][i] = (uint16_t)heap[at][i];
    }
    char *given = getenv("FEED_API_KEY");
    char *alone = malloc(256);
    // The value alone, without the name that gives it away.
    if (given != NULL) snprintf(alone, 256, "just %s in a text", given);
    uint64_t *noise = malloc((size_t)megabytes << 20);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < ((size_t)megabytes << 20) / 8; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise[i] = state;
    }
    printf("READY %d %p %p\n", (int)getpid(), (void *)alone, (void *)noise);
    fflush(stdout);
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
    }
    return heap[0] == NULL || wide[0] == NULL;
}
