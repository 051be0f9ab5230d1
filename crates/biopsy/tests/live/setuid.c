// Has a child that runs a setuid copy of this program, and becomes one itself when it is told to.
#include "target.h"

#include <errno.h>
#include <fcntl.h>

static void become(const char *program, const char *what) {
    // A test beside this one may have forked while the file was written, and still have it open for that.
    for (int tries = 0; tries < 1000; tries++) {
        execl(program, "helper", what, (char *)NULL);
        if (errno != ETXTBSY) break;
        usleep(10 * 1000);
    }
    perror(program);
    _exit(2);
}

int main(int count, char **arguments) {
    limit_own_life();
    if (count > 1 && strcmp(arguments[1], "child") == 0) {
        printf("CHILD %d %d\n", getpid(), geteuid());
        fflush(stdout);
        wait_for_stop();
    }
    if (count > 1 && strcmp(arguments[1], "self") == 0) {
        printf("SELF %d\n", geteuid());
        fflush(stdout);
        wait_for_stop();
    }
    // The child ends when this process does, which alone has the other end.
    int ends[2];
    if (count < 2 || pipe2(ends, O_CLOEXEC) != 0) return 2;
    // Before the child says anything: what is said before it is passed over.
    printf("READY %d\n", getpid());
    fflush(stdout);
    if (fork() == 0) {
        dup2(ends[0], 0);
        become(arguments[1], "child");
    }
    char line[16];
    if (fgets(line, sizeof line, stdin) != NULL) become(arguments[1], "self");
    return 0;
}
