/* Changes files from within an image that has nothing else: makes what layers of real images have. No libc. */
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
#define P(s) ((long)(s))
void _start(void) {
    long bad = 0;
    bad |= call(87, P("/etc/gone"), 0, 0);              /* unlink: a whiteout */
    bad |= call(87, P("/opt/old/file"), 0, 0);
    bad |= call(84, P("/opt/old"), 0, 0);               /* rmdir and mkdir: an opaque folder */
    bad |= call(83, P("/opt/old"), 0700, 0);
    bad |= call(88, P("../srv/data"), P("/opt/old/link"), 0);
    bad |= call(86, P("/srv/data"), P("/srv/data2"), 0); /* link: copied up, one file with two names */
    bad |= call(90, P("/bin/setuid"), 04755, 0);        /* chmod */
    call(60, bad != 0, 0, 0);
    __builtin_unreachable();
}
