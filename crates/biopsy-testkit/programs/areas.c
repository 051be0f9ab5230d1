// One area of memory of each kind, each with a known history. Argument: a file of 16 pages to map (a temporary one).
// Says `READY PID name=address,bytes ...`.
#include "target.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PAGE 4096L

static char *area(const char *name, long pages, int protection, int flags, int file) {
    char *start = mmap(NULL, (size_t)(pages * PAGE), protection, flags, file, 0);
    if (start == MAP_FAILED) {
        perror(name);
        _exit(2);
    }
    madvise(start, (size_t)(pages * PAGE), MADV_NOHUGEPAGE);
    printf(" %s=%p,%ld", name, (void *)start, pages * PAGE);
    return start;
}

int main(int argc, char **argv) {
    limit_own_life();
    const int private = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
    FILE *temporary = argc > 1 ? NULL : tmpfile();
    int file = temporary != NULL ? fileno(temporary) : open(argc > 1 ? argv[1] : "", O_RDONLY);
    if (file < 0 || (temporary != NULL && ftruncate(file, 16 * PAGE) != 0)) {
        perror("open");
        return 2;
    }
    printf("READY %d", (int)getpid());
    // Pages 0 to 9 and 512 written, 600 only read (that maps the page of zeros).
    char *plain = area("plain", 1024, both, private, -1);
    for (long page = 0; page < 10; page++) plain[page * PAGE] = 'a';
    plain[512 * PAGE] = 'b';
    volatile char zero = plain[600 * PAGE];
    (void)zero;
    // Written, then closed: only a debugger can read it.
    char *closed = area("closed", 2, both, private, -1);
    memset(closed, 'c', 2 * PAGE);
    mprotect(closed, 2 * PAGE, PROT_NONE);
    // Page 3 is an own copy, page 5 was read.
    char *own = area("file", 16, both, MAP_PRIVATE, file);
    own[3 * PAGE] = 'd';
    zero = own[5 * PAGE];
    // Page 7 was written through the descriptor, page 9 through memory.
    int memory = (int)memfd_create("patient", 0);
    if (memory < 0 || ftruncate(memory, 64 * PAGE) != 0 || pwrite(memory, "e", 1, 7 * PAGE) != 1) {
        perror("memfd");
        return 2;
    }
    char *shared = area("memfd", 64, both, MAP_SHARED, memory);
    shared[9 * PAGE] = 'f';
    char *anonymous = area("shared", 64, both, MAP_SHARED | MAP_ANONYMOUS, -1);
    anonymous[5 * PAGE] = 'g';
    char *kept = area("dontfork", 4, both, private, -1);
    memset(kept, 'h', 4 * PAGE);
    madvise(kept, 4 * PAGE, MADV_DONTFORK);
    char *wiped = area("wipeonfork", 4, both, private, -1);
    memset(wiped, 'i', 4 * PAGE);
    madvise(wiped, 4 * PAGE, MADV_WIPEONFORK);
    printf("\n");
    fflush(stdout);
    wait_for_stop();
    return 0;
}
