// Starts programs, as an agent does. A line on stdin is `COUNT PAUSE_US STATUS PATH ARGUMENTS...`: it starts the program COUNT
// times, one after the other (COUNT below 0: all at once), waits for each, and prints
// `DONE as-expected MATCHING of COUNT longest-ms N`, where MATCHING have ended with the wait status STATUS (in decimal; the bit
// for a core dump is ignored; -1: any). `START PATH ARGUMENTS...` starts one with a stdin of its own and prints `STARTED PID`; its
// end is printed as `ENDED PID STATUS`. `TELL` writes an empty line to the stdin of the one started last, `CLOSE` ends it.
#include "target.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static pid_t start(char **arguments, int input) {
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, 0);
    int error = posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        fprintf(stderr, "cannot start %s: %s\n", arguments[0], strerror(error));
        return -1;
    }
    return child;
}

static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status & ~0x80;
}

static void *wait_and_tell(void *child) {
    int status = wait_for((pid_t)(long)child);
    printf("ENDED %ld %d\n", (long)child, status);
    fflush(stdout);
    return NULL;
}

static void run(long count, long pause_us, long expected, char **arguments) {
    long matching = 0, longest = 0;
    if (count < 0) {
        count = -count;
        pid_t *children = calloc((size_t)count, sizeof *children);
        long begin = milliseconds();
        for (long i = 0; i < count; i++) children[i] = start(arguments, -1);
        for (long i = 0; i < count; i++) {
            int status = wait_for(children[i]);
            if (expected < 0 || status == expected) matching++;
        }
        longest = milliseconds() - begin;
        free(children);
    } else {
        for (long i = 0; i < count; i++) {
            long begin = milliseconds();
            int status = wait_for(start(arguments, -1));
            long took = milliseconds() - begin;
            if (took > longest) longest = took;
            if (expected < 0 || status == expected) matching++;
            if (pause_us > 0) sleep_ns(pause_us * 1000);
        }
    }
    printf("DONE as-expected %ld of %ld longest-ms %ld\n", matching, count, longest);
    fflush(stdout);
}

int main(void) {
    limit_own_life();
    say_ready();
    static char line[4096];
    int input[2] = {-1, -1};
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *words[64];
        int count = 0;
        for (char *word = strtok(line, " \n"); word != NULL && count < 63; word = strtok(NULL, " \n")) words[count++] = word;
        words[count] = NULL;
        if (count >= 2 && strcmp(words[0], "START") == 0) {
            if (pipe2(input, O_CLOEXEC) != 0) return 2;
            pid_t child = start(words + 1, input[0]);
            close(input[0]);
            printf("STARTED %d\n", (int)child);
            fflush(stdout);
            start_thread(wait_and_tell, (void *)(long)child);
        } else if (count == 1 && strcmp(words[0], "TELL") == 0) {
            (void)!write(input[1], "\n", 1);
        } else if (count == 1 && strcmp(words[0], "CLOSE") == 0) {
            close(input[1]);
        } else if (count >= 4) {
            run(strtol(words[0], NULL, 10), strtol(words[1], NULL, 10), strtol(words[2], NULL, 10), words + 3);
        }
    }
    return 0;
}
