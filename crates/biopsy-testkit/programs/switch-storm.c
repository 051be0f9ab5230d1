// Two threads throw a byte to and fro through pipes as fast as they can: some 100,000 context switches a second.
#include "target.h"

static int there[2], back[2];

VISIBLE void throw_and_catch(int out, int in) {
    char ball = 0;
    if (write(out, &ball, 1) != 1 || read(in, &ball, 1) != 1) _exit(2);
}

static void *ping(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "ping");
    for (;;) throw_and_catch(there[1], back[0]);
    return NULL;
}

static void *pong(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "pong");
    for (;;) throw_and_catch(back[1], there[0]);
    return NULL;
}

int main(void) {
    limit_own_life();
    if (pipe(there) != 0 || pipe(back) != 0) return 2;
    start_thread(ping, NULL);
    start_thread(pong, NULL);
    say_ready();
    wait_for_stop();
    return 0;
}
