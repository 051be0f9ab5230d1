// Sick: burns one CPU in `compute_checksum_bit_by_bit`, which two callers share: `verify_package` (most of the calls)
// and `verify_manifest`.
#include "target.h"

static volatile uint32_t sink;

VISIBLE uint32_t compute_checksum_bit_by_bit(const uint8_t *bytes, size_t length) {
    uint32_t checksum = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        checksum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) checksum = (checksum >> 1) ^ (0xedb88320 & -(checksum & 1));
    }
    return ~checksum;
}

VISIBLE void verify_package(const uint8_t *bytes) {
    sink += compute_checksum_bit_by_bit(bytes, 48 * 1024);
    sink ^= 1;
}

VISIBLE void verify_manifest(const uint8_t *bytes) {
    sink += compute_checksum_bit_by_bit(bytes, 16 * 1024);
    sink ^= 2;
}

VISIBLE void deploy_forever(const uint8_t *bytes) {
    for (;;) {
        verify_package(bytes);
        verify_manifest(bytes);
    }
}

int main(void) {
    static uint8_t package[48 * 1024];
    limit_own_life();
    for (size_t i = 0; i < sizeof package; i++) package[i] = (uint8_t)(i * 31);
    watch_stdin();
    say_ready();
    deploy_forever(package);
    return 0;
}
