/* A wall clock of a machine's own, for machines that are namespaces of one host: loaded before the C library (LD_PRELOAD), it moves
   CLOCK_REALTIME by the nanoseconds that the file WALL_AHEAD holds, and no other clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <dlfcn.h>

static const volatile int64_t none;
static const volatile int64_t *ahead_ns = &none;
static int (*of_libc)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    of_libc = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("WALL_AHEAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *ahead_ns, PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED)
        ahead_ns = at;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = of_libc ? of_libc(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * 1000000000LL + now->tv_nsec + *ahead_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec wall;
    int failed = clock_gettime(CLOCK_REALTIME, &wall);
    now->tv_sec = wall.tv_sec;
    now->tv_usec = wall.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *there) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (there)
        *there = wall.tv_sec;
    return wall.tv_sec;
}
