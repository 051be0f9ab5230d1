// Healthy: waits for something to do.
#include "target.h"

int main(void) {
    limit_own_life();
    say_ready();
    wait_for_stop();
    return 0;
}
