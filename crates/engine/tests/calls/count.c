/*
 * Counts the socket calls of the process that it is loaded into by LD_PRELOAD, as a kernel-bypass
 * library would catch them.
 *
 * The counts stand in the file that TRANSFIX_CALLS names, mapped: whoever reads the file sees them
 * at once. An entry is the name of a call, how often it was called, and how often it found nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls whose first argument is a descriptor, which counts if it is a socket. */
#define OF_DESCRIPTORS(X)                                                                         \
    X(read) X(readv) X(recv) X(recvfrom) X(recvmsg) X(recvmmsg)                                   \
    X(write) X(writev) X(send) X(sendto) X(sendmsg) X(sendmmsg) X(sendfile)                       \
    X(accept) X(accept4) X(connect) X(bind) X(listen) X(shutdown) X(close)                        \
    X(getsockopt) X(setsockopt) X(getsockname) X(getpeername) X(fcntl) X(ioctl)

/* Calls that count always. */
#define OF_ALL(X)                                                                                 \
    X(socket) X(socketpair) X(splice) X(epoll_create) X(epoll_create1) X(epoll_ctl)

/* Calls that wait; they have found nothing if they return 0. */
#define OF_WAITS(X)                                                                               \
    X(poll) X(ppoll) X(select) X(pselect) X(epoll_wait) X(epoll_pwait) X(epoll_pwait2)

#define PLACE(name) PLACE_##name,
enum { OF_DESCRIPTORS(PLACE) OF_ALL(PLACE) OF_WAITS(PLACE) PLACE_syscall, ENTRIES };

struct entry {
    char name[16];
    _Atomic uint64_t calls;
    _Atomic uint64_t empty;
};

#define NAME(name) #name,
static const char *const names[ENTRIES] = {OF_DESCRIPTORS(NAME) OF_ALL(NAME) OF_WAITS(NAME) "syscall"};

static struct entry *entries;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TRANSFIX_CALLS");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    size_t bytes = ENTRIES * sizeof(struct entry);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        return;
    }
    struct entry *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) {
        return;
    }
    for (int i = 0; i < ENTRIES; i++) {
        for (int at = 0; at < 15 && names[i][at] != 0; at++) {
            mapped[i].name[at] = names[i][at];
        }
    }
    entries = mapped;
}

static int is_socket(long descriptor) {
    struct stat found;
    return fstat((int)descriptor, &found) == 0 && S_ISSOCK(found.st_mode);
}

static void add(_Atomic uint64_t *number) {
    atomic_fetch_add(number, 1);
}

typedef long call(long, long, long, long, long, long);

/*
 * Arguments that are no floating-point numbers go in registers on all 64-bit Linux systems, six of
 * them at least, so one shape serves every call. It gets the name of the call by an assembler
 * label, since headers declare that name with its own types.
 */
#define COUNTED(name, counts, nothing)                                                            \
    long counted_##name(long, long, long, long, long, long) __asm__(#name);                       \
    long counted_##name(long a, long b, long c, long d, long e, long f) {                         \
        static _Atomic(call *) real;                                                              \
        if (real == NULL) {                                                                       \
            real = (call *)dlsym(RTLD_NEXT, #name);                                               \
        }                                                                                         \
        struct entry *entry = entries != NULL && (counts) ? &entries[PLACE_##name] : NULL;        \
        /* First: what is sent is counted by the time that the other side has it. */              \
        if (entry != NULL) {                                                                      \
            add(&entry->calls);                                                                   \
        }                                                                                         \
        long result = real(a, b, c, d, e, f);                                                     \
        if (entry != NULL && (nothing)) {                                                         \
            add(&entry->empty);                                                                   \
        }                                                                                         \
        return result;                                                                            \
    }

#define OF_SOCKET(name) COUNTED(name, is_socket(a), (int)result == -1 && errno == EAGAIN)
#define ALWAYS(name) COUNTED(name, 1, 0)
#define OF_WAIT(name) COUNTED(name, 1, (int)result == 0)
OF_DESCRIPTORS(OF_SOCKET)
OF_ALL(ALWAYS)
OF_WAITS(OF_WAIT)

/* Numbers of calls about sockets, for who goes past the functions above. */
static int is_about_sockets(long number) {
    static const long numbers[] = {
        SYS_socket,     SYS_connect,  SYS_bind,        SYS_listen,        SYS_accept,
        SYS_accept4,    SYS_sendto,   SYS_sendmsg,     SYS_sendmmsg,      SYS_recvfrom,
        SYS_recvmsg,    SYS_recvmmsg, SYS_shutdown,    SYS_getsockopt,    SYS_setsockopt,
        SYS_sendfile,   SYS_splice,   SYS_ppoll,       SYS_pselect6,      SYS_epoll_create1,
        SYS_epoll_ctl,  SYS_epoll_pwait,
        /* io_uring_setup, io_uring_enter, io_uring_register: the same on all systems. */
        425, 426, 427,
#ifdef SYS_epoll_wait
        SYS_epoll_wait, SYS_poll, SYS_select,
#endif
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i] == number) {
            return 1;
        }
    }
    int is_of_descriptor = number == SYS_read || number == SYS_write || number == SYS_readv ||
                           number == SYS_writev;
    return is_of_descriptor ? 2 : 0;
}

long counted_syscall(long, long, long, long, long, long, long) __asm__("syscall");
long counted_syscall(long number, long a, long b, long c, long d, long e, long f) {
    static _Atomic(long (*)(long, long, long, long, long, long, long)) real;
    if (real == NULL) {
        real = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall");
    }
    int about = is_about_sockets(number);
    if (entries != NULL && (about == 1 || (about == 2 && is_socket(a)))) {
        add(&entries[PLACE_syscall].calls);
    }
    return real(number, a, b, c, d, e, f);
}
