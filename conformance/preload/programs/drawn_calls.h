/* Calls of drawn.c that move bytes, or change a connection. */
#include <sys/sendfile.h>

/* The most that a call moves. */
#define MOST 4096
/* Bytes that the peer has not read: less than what every carrier takes at once. */
#define AHEAD 24000
/* Parts of a call with several pieces of memory. */
#define PARTS 3

/* Whether a write of so many bytes does the same over SMC; says so if not. */
static bool has_room(struct end *end, const struct step *of, size_t length)
{
    const char *why = NULL;
    if (end->sent - end->peer_received + length > AHEAD)
        why = "the peer has much to read";
    /* SMC writes nothing behind an urgent byte before the peer has read what is before that:
     * docs/programs.md, "What differs from TCP". */
    if (end->is_urgent)
        why = "an urgent byte is on its way";
    /* A peer that has ended both directions, but is not closed, resets TCP only: likewise. */
    if (end->peer_shut == 3)
        why = "the peer is shut";
    if (why != NULL)
        report("%d c%d: %s", of->number, end->number, why);
    return why == NULL;
}

/* Says what a call that writes has done. */
static void wrote(struct end *end, const struct step *of, const char *call, size_t length, long done)
{
    int error = errno, signals = pipes;
    pipes = 0;
    errno = error;
    report("%d c%d %s(%zu) = %s%s", of->number, end->number, call, length, value(done),
        signals ? " SIGPIPE" : "");
    if (done > 0)
        end->sent += done;
}

/* --- writing */

static void call_write(struct end *end, const struct step *of)
{
    char bytes[MOST];
    size_t length = length_of(of->a);
    if (!has_room(end, of, length))
        return;
    compose(end, bytes, length);
    wrote(end, of, "write", length, write(end->fd[chosen(end, of->b)], bytes, length));
}

static void call_send(struct end *end, const struct step *of)
{
    static const int flags[] = {0, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_DONTWAIT | MSG_NOSIGNAL,
        MSG_MORE, MSG_EOR, MSG_CONFIRM, MSG_DONTROUTE};
    char bytes[MOST], name[32];
    size_t length = length_of(of->a);
    if (!has_room(end, of, 2 * length + 1))
        return;
    int flag = flags[of->c % 8], fd = end->fd[chosen(end, of->b)];
    compose(end, bytes, length);
    snprintf(name, sizeof name, "send %x", flag);
    wrote(end, of, name, length, send(fd, bytes, length, flag));
    if (flag == MSG_MORE) {
        /* TCP waits for more, or for some time: here more comes at once. */
        compose(end, bytes, 1);
        wrote(end, of, "send", 1, send(fd, bytes, 1, MSG_NOSIGNAL));
    }
}

/* Cuts bytes into parts, of which some may be empty: how many. */
static int cut(struct iovec *parts, char *bytes, size_t length, unsigned drawn)
{
    int count = 1 + drawn % PARTS;
    size_t from = 0;
    for (int at = 0; at < count; at++) {
        drawn = drawn / 7 + 13;
        size_t size = at + 1 == count ? length - from : drawn % (length - from + 1);
        parts[at] = (struct iovec){bytes + from, size};
        from += size;
    }
    return count;
}

static void call_write_parts(struct end *end, const struct step *of)
{
    char bytes[MOST];
    size_t length = length_of(of->a);
    if (!has_room(end, of, length))
        return;
    struct iovec parts[PARTS];
    compose(end, bytes, length);
    int count = cut(parts, bytes, length, of->c), fd = end->fd[chosen(end, of->b)];
    if (of->d % 2) {
        wrote(end, of, "writev", length, writev(fd, parts, count));
    } else {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        int flags = of->d / 2 % 2 ? MSG_NOSIGNAL : 0;
        wrote(end, of, "sendmsg", length, sendmsg(fd, &message, flags));
    }
}

static void call_send_urgent(struct end *end, const struct step *of)
{
    char bytes[MOST];
    size_t length = of->a % 8 ? 1 : 1 + of->a / 8 % 5;
    if (!has_room(end, of, length))
        return;
    compose(end, bytes, length);
    bytes[length - 1] = toupper(bytes[length - 1]);
    int fd = end->fd[chosen(end, of->b)], flags = MSG_OOB | (of->c % 2 ? MSG_NOSIGNAL : 0);
    long done = send(fd, bytes, length, flags);
    wrote(end, of, "send urgent", length, done);
    end->is_urgent |= done > 0;
}

static void call_sendfile(struct end *end, const struct step *of)
{
    char bytes[MOST], name[] = "/tmp/smc-drawn-XXXXXX";
    size_t length = length_of(of->a), asked = length + (of->c % 4 == 0 ? 10 : 0);
    if (!has_room(end, of, length))
        return;
    int file = MUST(mkstemp(name));
    MUST(unlink(name));
    compose(end, bytes, length);
    MUST(write(file, bytes, length));
    off_t offset = 0;
    bool by_offset = of->d % 2;
    MUST(lseek(file, 0, SEEK_SET));
    long done = sendfile(end->fd[chosen(end, of->b)], file, by_offset ? &offset : NULL, asked);
    wrote(end, of, "sendfile", asked, done);
    report("offset %ld position %ld", (long)offset, (long)lseek(file, 0, SEEK_CUR));
    close(file);
}

/* --- reading */

static int unread(int fd)
{
    int count = 0;
    return ioctl(fd, FIONREAD, &count) < 0 ? -1 : count;
}

static int polled(int fd, int events)
{
    struct pollfd one = {.fd = fd, .events = events};
    return poll(&one, 1, 0) < 0 ? 0 : one.revents;
}

/* Whether a read that has to wait would return at once. */
static bool may_read(int fd)
{
    return fcntl(fd, F_GETFL) & O_NONBLOCK || polled(fd, POLLIN) & (POLLIN | POLLERR | POLLHUP);
}

/* Says what a call that reads has done; the bytes with those behind, which are to stay as they are. */
static void has_read(struct end *end, const struct step *of, const char *call, size_t length,
    long done, const char *bytes, bool takes)
{
    report("%d c%d %s(%zu) = %s%s", of->number, end->number, call, length, value(done),
        done > 0 ? shown(bytes, done) : "");
    if (done >= 0 && bytes[done] != '.')
        report("a byte behind was written");
    if (done > 0 && takes)
        end->received += done;
}

static void call_read(struct end *end, const struct step *of)
{
    char bytes[MOST + 1];
    size_t length = length_of(of->a);
    int fd = end->fd[chosen(end, of->b)];
    memset(bytes, '.', sizeof bytes);
    if (may_read(fd))
        has_read(end, of, "read", length, read(fd, bytes, length), bytes, true);
    else
        report("%d c%d not readable", of->number, end->number);
}

/* Flags for a call that reads, with which it does not wait for long. */
static int reading_flags(int fd, unsigned drawn, size_t length)
{
    static const int all[] = {0, 0, MSG_PEEK, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC,
        MSG_PEEK | MSG_TRUNC, MSG_PEEK | MSG_DONTWAIT, MSG_WAITALL | MSG_DONTWAIT,
        MSG_PEEK | MSG_WAITALL, MSG_NOSIGNAL, MSG_CMSG_CLOEXEC};
    int flags = all[drawn % (sizeof all / sizeof *all)];
    bool waits_for_all = flags & MSG_WAITALL && unread(fd) < (int)length;
    if (!may_read(fd) || waits_for_all)
        flags |= MSG_DONTWAIT;
    return flags;
}

static void call_recv(struct end *end, const struct step *of)
{
    char bytes[MOST + 1], name[32];
    size_t length = length_of(of->a);
    int fd = end->fd[chosen(end, of->b)], flags = reading_flags(fd, of->c, length);
    memset(bytes, '.', sizeof bytes);
    snprintf(name, sizeof name, "recv %x", flags);
    has_read(end, of, name, length, recv(fd, bytes, length, flags), bytes, !(flags & MSG_PEEK));
}

static void call_read_parts(struct end *end, const struct step *of)
{
    char bytes[MOST + 1], name[48];
    size_t length = length_of(of->a);
    int fd = end->fd[chosen(end, of->b)];
    memset(bytes, '.', sizeof bytes);
    struct iovec parts[PARTS];
    int count = cut(parts, bytes, length, of->d);
    if (of->c % 3 == 0) {
        if (may_read(fd))
            has_read(end, of, "readv", length, readv(fd, parts, count), bytes, true);
        else
            report("%d c%d not readable", of->number, end->number);
        return;
    }
    int flags = reading_flags(fd, of->c / 3, length);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count, .msg_flags = 0x40};
    long done = recvmsg(fd, &message, flags);
    snprintf(name, sizeof name, "recvmsg %x flags %x", flags, message.msg_flags);
    has_read(end, of, name, length, done, bytes, !(flags & MSG_PEEK));
}

static void call_recv_urgent(struct end *end, const struct step *of)
{
    char bytes[8], name[48];
    memset(bytes, '.', sizeof bytes);
    size_t length = of->a % 8 ? 1 + of->a / 8 % 3 : 0;
    int fd = end->fd[chosen(end, of->b)];
    int flags = MSG_OOB | (of->c % 4 == 0 ? MSG_PEEK : 0) | (of->c % 16 == 1 ? MSG_TRUNC : 0);
    if (of->d % 2) {
        snprintf(name, sizeof name, "recv urgent %x", flags);
        has_read(end, of, name, length, recv(fd, bytes, length, flags), bytes, false);
        return;
    }
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    long done = recvmsg(fd, &message, flags);
    snprintf(name, sizeof name, "recvmsg urgent %x flags %x", flags, message.msg_flags);
    has_read(end, of, name, length, done, bytes, false);
}

static void call_preadv(struct end *end, const struct step *of)
{
    char bytes[9];
    memset(bytes, '.', sizeof bytes);
    struct iovec part = {bytes, 8};
    int fd = end->fd[chosen(end, of->b)];
    has_read(end, of, "preadv", 8, preadv(fd, &part, 1, of->a % 2), bytes, false);
}

/* --- the connection */

static void call_shutdown(struct end *end, const struct step *of)
{
    static const int ways[] = {SHUT_WR, SHUT_WR, SHUT_RD, SHUT_RDWR, 3};
    int how = ways[of->a % 5];
    int done = shutdown(end->fd[chosen(end, of->b)], how);
    report("%d c%d shutdown(%d) = %s", of->number, end->number, how, value(done));
    if (done == 0)
        end->shut |= how + 1;
}

static void close_one(struct end *end, int place)
{
    MUST(close(end->fd[place]));
    end->fd[place] = -1;
    end->open--;
}

static void call_close(struct end *end, const struct step *of)
{
    int place = chosen(end, of->b);
    close_one(end, place);
    report("%d c%d close of %d, %d left", of->number, end->number, place, end->open);
}

/* Closes all descriptors with SO_LINGER of zero seconds, which resets the connection. */
static void call_reset(struct end *end, const struct step *of)
{
    struct linger none = {1, 0};
    if (of->a % 2) {
        report("%d c%d no reset", of->number, end->number);
        return;
    }
    MUST(setsockopt(end->fd[chosen(end, of->b)], SOL_SOCKET, SO_LINGER, &none, sizeof none));
    while (end->open > 0)
        close_one(end, chosen(end, 0));
    report("%d c%d reset", of->number, end->number);
}

static void call_duplicate(struct end *end, const struct step *of)
{
    int from = chosen(end, of->b), to = of->c % DESCRIPTORS;
    if (end->fd[to] >= 0) {
        report("%d c%d dup2 = %d", of->number, end->number,
            dup2(end->fd[from], end->fd[to]) == end->fd[to]);
        return;
    }
    if (of->d % 2)
        end->fd[to] = MUST(dup(end->fd[from]));
    else
        end->fd[to] = MUST(fcntl(end->fd[from], F_DUPFD_CLOEXEC, 0));
    end->open++;
    report("%d c%d dup of %d is %d", of->number, end->number, from, to);
}
