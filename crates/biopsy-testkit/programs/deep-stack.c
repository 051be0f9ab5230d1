// Burns CPU below 2,000 (or the number given) frames of recursion.
#include "target.h"

static volatile uint64_t sink;

VISIBLE void burn_at_the_bottom(void) {
    for (;;) sink = sink * 6364136223846793005u + 1;
}

VISIBLE long descend(long depth) {
    // Some locals, so that the stack is larger than what one copy takes.
    volatile char local[32] = {(char)depth};
    if (depth == 0) burn_at_the_bottom();
    return descend(depth - 1) + local[0];
}

int main(int argc, char **argv) {
    limit_own_life();
    long depth = number_argument(argc, argv, 1, 2000);
    watch_stdin();
    say_ready();
    return (int)descend(depth);
}
