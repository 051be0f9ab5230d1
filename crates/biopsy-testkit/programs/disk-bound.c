// Sick: writes records to a journal in the folder given and waits for the disk after each one. They are large, because
// some disks (of virtual machines) take small ones in less than a tenth of a millisecond.
#include "target.h"

#include <fcntl.h>

static int journal;

VISIBLE void flush_journal(void) {
    if (fsync(journal) != 0) {
        perror("fsync");
        _exit(2);
    }
}

VISIBLE void append_record(const char *record, size_t length) {
    if (write(journal, record, length) != (ssize_t)length) {
        perror("write");
        _exit(2);
    }
    flush_journal();
}

int main(int argc, char **argv) {
    limit_own_life();
    char path[4096];
    static char record[2 << 20];
    snprintf(path, sizeof path, "%s/journal", argc > 1 ? argv[1] : ".");
    journal = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (journal < 0) {
        perror(path);
        return 2;
    }
    memset(record, 'r', sizeof record);
    watch_stdin();
    say_ready();
    for (long written = 0;; written++) {
        // The journal stays below 64 MB.
        if (written % 32 == 0 && lseek(journal, 0, SEEK_SET) != 0) return 2;
        append_record(record, sizeof record);
    }
}
