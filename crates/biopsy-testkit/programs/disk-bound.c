// Sick: appends records to a journal in the folder given and waits for the disk after each one. They are large, because
// some disks (of virtual machines) take small ones in less than a tenth of a millisecond, and they go past the page cache
// where the file system can, because copying them into it may take longer than the disk does.
#include "target.h"

#include <fcntl.h>

#define RECORD ((size_t)2 << 20)

static int journal;
static char record[RECORD] __attribute__((aligned(4096)));

VISIBLE void flush_journal(void) {
    if (write(journal, record, RECORD) != (ssize_t)RECORD) {
        perror("write");
        _exit(2);
    }
    if (fsync(journal) != 0) {
        perror("fsync");
        _exit(2);
    }
}

VISIBLE void append_record(long number) {
    memcpy(record, &number, sizeof number);
    flush_journal();
}

int main(int argc, char **argv) {
    limit_own_life();
    char path[4096];
    snprintf(path, sizeof path, "%s/journal", argc > 1 ? argv[1] : ".");
    int flags = O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC;
    journal = open(path, flags | O_DIRECT, 0600);
    if (journal < 0 && errno == EINVAL) journal = open(path, flags, 0600);
    if (journal < 0) {
        perror(path);
        return 2;
    }
    memset(record, 'r', RECORD);
    watch_stdin();
    say_ready();
    for (long written = 0;; written++) {
        // The journal stays below 64 MB.
        if (written % 32 == 0 && lseek(journal, 0, SEEK_SET) != 0) return 2;
        append_record(written);
    }
}
