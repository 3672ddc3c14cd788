/* Loaded before the C library: every change of a file named data.mdb, and every sync of it, is added to $RECORD_TO.

   An entry is op u8 | offset u64 | size u64 | bytes, little-endian:
       W  written, durable at the next sync      D  written through a descriptor that syncs each write
       S  synced                                 T  cut or extended to this offset
       M  a mark of the program itself: the argument of `recorder_mark`
   With $RECORD_UNSYNCED set, no sync reaches the disk, which is faster. Images of the record give syncs their effect. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 4096
static char kind[MOST]; /* by descriptor: 0, W or D */

static void entry(char op, uint64_t offset, uint64_t size, const void *bytes) {
    static int log = -1;
    const char *path = getenv("RECORD_TO");
    char head[17];
    struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, bytes ? size : 0}};
    if (!path) return;
    if (log < 0) log = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    head[0] = op;
    memcpy(head + 1, &offset, 8);
    memcpy(head + 9, &size, 8);
    if (syscall(SYS_writev, log, parts, 2) != (long)(sizeof head + parts[1].iov_len)) abort();
}

void recorder_mark(uint64_t number) { entry('M', number, 0, NULL); }

static int opened(int at, const char *path, int flags, mode_t mode) {
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    size_t n = strlen(path);
    if (fd >= MOST) abort();
    if (fd >= 0) kind[fd] = n < 8 || strcmp(path + n - 8, "data.mdb") ? 0 : flags & O_DSYNC ? 'D' : 'W';
    return fd;
}

#define MODE(flags)                        \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest;                      \
        va_start(rest, flags);             \
        mode = va_arg(rest, mode_t);       \
        va_end(rest);                      \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }

int close(int fd) {
    if (fd >= 0 && fd < MOST) kind[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

static char known(int fd) { return fd >= 0 && fd < MOST ? kind[fd] : 0; }

static ssize_t written(int fd, ssize_t did, const struct iovec *parts, int count, uint64_t offset) {
    size_t left = did > 0 && known(fd) ? (size_t)did : 0;
    for (int i = 0; i < count && left; i++) {
        size_t size = parts[i].iov_len < left ? parts[i].iov_len : left;
        entry(known(fd), offset, size, parts[i].iov_base);
        offset += size;
        left -= size;
    }
    return did;
}

static uint64_t place(int fd) { return known(fd) ? (uint64_t)lseek(fd, 0, SEEK_CUR) : 0; }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return written(fd, syscall(SYS_pwritev, fd, parts, count, offset, 0), parts, count, (uint64_t)offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) {
    return pwritev(fd, parts, count, offset);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    struct iovec part = {(void *)bytes, size};
    return written(fd, syscall(SYS_pwrite64, fd, bytes, size, offset), &part, 1, (uint64_t)offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset) { return pwrite(fd, bytes, size, offset); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint64_t offset = place(fd);
    return written(fd, syscall(SYS_writev, fd, parts, count), parts, count, offset);
}
ssize_t write(int fd, const void *bytes, size_t size) {
    struct iovec part = {(void *)bytes, size};
    uint64_t offset = place(fd);
    return written(fd, syscall(SYS_write, fd, bytes, size), &part, 1, offset);
}

static int synced(int fd, long call) {
    int failed = getenv("RECORD_UNSYNCED") && known(fd) ? 0 : (int)syscall(call, fd);
    if (!failed && known(fd)) entry('S', 0, 0, NULL);
    return failed;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int ftruncate(int fd, off_t size) {
    int failed = (int)syscall(SYS_ftruncate, fd, size);
    if (!failed && known(fd)) entry('T', (uint64_t)size, 0, NULL);
    return failed;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
