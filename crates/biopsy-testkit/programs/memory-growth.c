// Sick: keeps 10 MB more every second, up to 500 MB (or the number of MB given).
#include "target.h"

struct entry {
    struct entry *next;
    char text[64 * 1024];
};

static struct entry *volatile entries;

VISIBLE void remember_forever(void) {
    struct entry *entry = malloc(sizeof *entry);
    if (entry == NULL) _exit(2);
    memset(entry->text, 'm', sizeof entry->text);
    entry->next = entries;
    entries = entry;
}

int main(int argc, char **argv) {
    limit_own_life();
    long most = number_argument(argc, argv, 1, 500) * 16;
    watch_stdin();
    say_ready();
    for (long kept = 0; kept < most; kept++) {
        remember_forever();
        sleep_ns(1000000000L / 160);
    }
    for (;;) pause();
}
