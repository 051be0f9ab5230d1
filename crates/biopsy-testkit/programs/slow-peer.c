// Sick: `fetch_from_peer` waits 200 ms for every answer of a peer on the loopback; the peer is a child process, so that
// the target itself only waits.
#include "target.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void serve_slowly(int listener) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "slow-peer-srv");
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) continue;
        char request;
        while (read(connection, &request, 1) == 1) {
            sleep_ns(200000000);
            if (write(connection, "answer", 6) != 6) break;
        }
        close(connection);
    }
}

VISIBLE long fetch_from_peer(int connection) {
    char answer[6];
    if (write(connection, "?", 1) != 1) _exit(2);
    ssize_t got = recv(connection, answer, sizeof answer, MSG_WAITALL);
    if (got != sizeof answer) _exit(2);
    return got;
}

int main(void) {
    limit_own_life();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("listen");
        return 2;
    }
    pid_t peer = fork();
    if (peer == 0) serve_slowly(listener);
    close(listener);
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer < 0 || connect(connection, (struct sockaddr *)&address, length) != 0) {
        perror("connect");
        return 2;
    }
    watch_stdin();
    say_ready();
    volatile long bytes = 0;
    for (;;) bytes += fetch_from_peer(connection);
}
