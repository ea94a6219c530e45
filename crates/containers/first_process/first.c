// The first process of a container that an engine makes for a node.
//
//     first exec|stay PROGRAM [ARGUMENT...]
//     first lend NODE
//
// It connects to the socket at DOOR and waits until somebody sends a byte with two descriptors, the program's standard output
// and standard error: then the node's ports are there. `exec`: it becomes the program. `stay`: it starts the program, says how
// it ended, and waits to be told to start it again, so that the container, and with it the node's network, outlives it.
//
// `lend`: what it gets is a network namespace, twice; it goes there and stays until nobody listens any more, so that a
// container can be made whose network is this one's.
//
// What it says, five bytes each, a number in the machine's order after the letter:
//     E errno    the program could not be started
//     R pid      it runs (`stay`); of `exec` the socket's end says so; it is there (`lend`)
//     D status   it ended, as wait(2) says (`stay`)
//
// It has no C library, since images need not have one, and since it is part of each image's copy in the engine.

typedef unsigned long word;

#if defined(__x86_64__)
enum {
    READ = 0, WRITE = 1, CLOSE = 3, POLL = 271, SIGACTION = 13, SIGMASK = 14, SOCKET = 41, CONNECT = 42, RECVMSG = 47,
    CLONE = 56, EXECVE = 59, EXIT = 231, WAIT4 = 61, KILL = 62, SETSID = 112, SIGNALFD = 289, DUP3 = 292, PIPE2 = 293,
    SETNS = 308,
};
static long call(long n, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return r;
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
#elif defined(__aarch64__)
enum {
    READ = 63, WRITE = 64, CLOSE = 57, POLL = 73, SIGACTION = 134, SIGMASK = 135, SOCKET = 198, CONNECT = 203, RECVMSG = 212,
    CLONE = 220, EXECVE = 221, EXIT = 94, WAIT4 = 260, KILL = 129, SETSID = 157, SIGNALFD = 74, DUP3 = 24, PIPE2 = 59,
    SETNS = 268,
};
static long call(long n, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d,
                  x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x29, #0\n mov x0, sp\n and x1, x0, #-16\n mov sp, x1\n bl begin\n");
#else
#error "this machine's system calls are not known here"
#endif

enum { ENOENT = 2, EINTR = 4, EACCES = 13, ENOTDIR = 20, ENAMETOOLONG = 36 };
enum { SIGTERM = 15, SIGCHLD = 17 };
enum { CLOEXEC = 02000000, CMSG_CLOEXEC = 0x40000000, NEWNET = 0x40000000 };

static const char DOOR[] = "/.constel/door";
static int door;

struct vector { void *base; word length; };
struct message {
    void *name; unsigned name_length; struct vector *vectors; word vector_count; void *control; word control_length; int flags;
};
struct descriptors { word length; int level, type; int fds[2]; };
struct polled { int fd; short wanted, found; };
struct action { void (*handler)(int); word flags; void *restorer; word mask; };

// The compiler may ask for these.
void *memcpy(void *to, const void *from, word n) {
    for (word i = 0; i < n; i++) {
        ((volatile char *)to)[i] = ((const char *)from)[i];
    }
    return to;
}
void *memset(void *to, int byte, word n) {
    for (word i = 0; i < n; i++) {
        ((volatile char *)to)[i] = (char)byte;
    }
    return to;
}

static void __attribute__((noreturn)) leave(int code) {
    for (;;) {
        call(EXIT, code, 0, 0, 0, 0);
    }
}

static void say(char letter, int number) {
    char text[5] = {letter};
    memcpy(text + 1, &number, 4);
    call(WRITE, door, (long)text, 5, 0, 0);
}

static int has_slash(const char *text) {
    for (; *text; text++) {
        if (*text == '/') {
            return 1;
        }
    }
    return 0;
}

// Becomes the program, which is looked up along the environment's PATH; comes back with why it cannot.
static int become(char **argv, char **env) {
    if (has_slash(argv[0])) {
        return -(int)call(EXECVE, (long)argv[0], (long)argv, (long)env, 0, 0);
    }
    const char *path = "";
    for (char **variable = env; *variable; variable++) {
        const char *v = *variable;
        if (v[0] == 'P' && v[1] == 'A' && v[2] == 'T' && v[3] == 'H' && v[4] == '=') {
            path = v + 5;
        }
    }
    int why = ENOENT;
    for (;;) {
        char file[4096];
        word n = 0, full = 0;
        for (; *path && *path != ':'; path++) {
            if (n < sizeof file - 2) {
                file[n++] = *path;
            } else {
                full = 1;
            }
        }
        if (n > 0) {
            file[n++] = '/';
        }
        for (const char *name = argv[0]; *name; name++) {
            if (n < sizeof file - 1) {
                file[n++] = *name;
            } else {
                full = 1;
            }
        }
        file[n] = 0;
        int error = full ? ENAMETOOLONG : -(int)call(EXECVE, (long)file, (long)argv, (long)env, 0, 0);
        if (error != ENOENT && error != ENOTDIR) {
            why = error;
            if (error != EACCES) {
                return why;
            }
        }
        if (!*path++) {
            return why;
        }
    }
}

// Waits for the word to begin, and puts its descriptors where a program has its output. 0: nobody will ever say it.
static int told(void) {
    char byte;
    struct vector vector = {&byte, 1};
    struct descriptors got;
    for (;;) {
        memset(&got, 0, sizeof got);
        struct message message = {0, 0, &vector, 1, &got, sizeof got, 0};
        long n = call(RECVMSG, door, (long)&message, CMSG_CLOEXEC, 0, 0);
        if (n == -EINTR) {
            continue;
        }
        if (n != 1) {
            return 0;
        }
        if (got.length < sizeof got) {
            continue;
        }
        for (int i = 0; i < 2; i++) {
            call(DUP3, got.fds[i], i + 1, 0, 0, 0);
            call(CLOSE, got.fds[i], 0, 0, 0, 0);
        }
        return 1;
    }
}

static void never(int signal) {
    (void)signal;
}

// Starts the program as the leader of a session of its own. Its number, or minus why it cannot be started.
static int start(char **argv, char **env) {
    int ends[2], why = 0;
    long made = call(PIPE2, (long)ends, CLOEXEC, 0, 0, 0);
    if (made < 0) {
        return (int)made;
    }
    long child = call(CLONE, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        word none = 0;
        call(SETSID, 0, 0, 0, 0, 0);
        call(SIGMASK, 2, (long)&none, 0, sizeof none, 0);
        why = become(argv, env);
        call(WRITE, ends[1], (long)&why, sizeof why, 0, 0);
        leave(127);
    }
    call(CLOSE, ends[1], 0, 0, 0, 0);
    if (child > 0) {
        // Its end closes when the program is there.
        while (call(READ, ends[0], (long)&why, sizeof why, 0, 0) == -EINTR) {
        }
        if (why != 0) {
            while (call(WAIT4, child, 0, 0, 0, 0) == -EINTR) {
            }
            child = -why;
        }
    }
    call(CLOSE, ends[0], 0, 0, 0, 0);
    return (int)child;
}

static void __attribute__((noreturn)) stay(char **argv, char **env) {
    // It is asked to end: what it does is tell the program. That there is a handler shows that it listens; all signals are
    // blocked, and read.
    struct action action = {never, 0, 0, 0};
    call(SIGACTION, SIGTERM, (long)&action, 0, sizeof(word), 0);
    word all = ~0ul;
    call(SIGMASK, 2, (long)&all, 0, sizeof all, 0);
    int signals = (int)call(SIGNALFD, -1, (long)&all, sizeof all, CLOEXEC, 0);
    int child = 0;
    for (;;) {
        struct polled polled[2] = {{signals, 1, 0}, {door, child > 0 ? 0 : 1, 0}};
        call(POLL, (long)polled, 2, 0, 0, 0);
        if (polled[0].found) {
            unsigned info[32];
            call(READ, signals, (long)info, sizeof info, 0, 0);
            if (info[0] != SIGCHLD && child > 0) {
                call(KILL, -child, info[0], 0, 0, 0);
            }
            int status;
            long dead;
            // Orphans of the container are its first process's.
            while ((dead = call(WAIT4, -1, (long)&status, 1, 0, 0)) > 0) {
                if (dead == child) {
                    child = 0;
                    say('D', status);
                }
            }
            continue;
        }
        if (child > 0) {
            if (polled[1].found) {
                // Whoever started the lab is gone. What runs goes on until somebody cleans up.
                polled[1].fd = -1;
                door = -1;
            }
            continue;
        }
        if (polled[1].found || door < 0) {
            if (door < 0 || !told()) {
                leave(0);
            }
            child = start(argv, env);
            if (child > 0) {
                say('R', child);
            } else {
                say('E', -child);
            }
        }
    }
}

static void __attribute__((noreturn)) lend(void) {
    if (told()) {
        int error = -(int)call(SETNS, 1, NEWNET, 0, 0, 0);
        say(error == 0 ? 'R' : 'E', error);
        char byte;
        while (call(READ, door, (long)&byte, 1, 0, 0) == -EINTR) {
        }
    }
    leave(0);
}

__attribute__((used, noreturn)) void begin(word *stack) {
    word count = stack[0];
    char **argv = (char **)(stack + 1), **env = argv + count + 1;
    if (count < 3) {
        leave(125);
    }
    struct { unsigned short family; char path[sizeof DOOR]; } address = {1, {0}};
    memcpy(address.path, DOOR, sizeof DOOR);
    door = (int)call(SOCKET, 1, 1 | CLOEXEC, 0, 0, 0);
    if (door < 0 || call(CONNECT, door, (long)&address, sizeof address, 0, 0) < 0) {
        leave(125);
    }
    if (argv[1][0] == 's') {
        stay(argv + 2, env);
    }
    if (argv[1][0] == 'l') {
        lend();
    }
    if (!told()) {
        leave(0);
    }
    say('E', become(argv + 2, env));
    leave(127);
}
