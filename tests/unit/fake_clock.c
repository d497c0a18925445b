/* The false clock of the unit tests: they move it by hand. */
#include "fake_clock.h"

int64_t fake_mono_ms = 1000000;
int64_t fake_wall_ms = 1700000000000;

mono_t clock_mono(void)
{
    return (mono_t){fake_mono_ms};
}

wall_t clock_wall(void)
{
    return (wall_t){fake_wall_ms};
}
