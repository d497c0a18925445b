#ifndef WK_TESTS_FAKE_CLOCK_H
#define WK_TESTS_FAKE_CLOCK_H

#include <stdint.h>

#include "base/clock.h"

extern int64_t fake_mono_ms, fake_wall_ms;

#endif
