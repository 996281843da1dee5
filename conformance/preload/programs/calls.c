/* Every call that moves bytes, and its flags. */
#include "case.h"
#include <sys/select.h>
#include <linux/sockios.h>
#include <sys/sendfile.h>

#define BULK (1 << 20)

/* --- one pair of calls each: the client sends, the server receives and answers */

static void read_write_server(int listener)
{
    int fd = take(listener);
    receive_pattern(fd, BULK);
    send_pattern(fd, BULK);
    expect_end(fd);
}

static void read_write_client(int port)
{
    int fd = dial(port);
    send_pattern(fd, BULK);
    receive_pattern(fd, BULK);
    MUST(close(fd));
}

/* Until so many bytes can be read: a stream may bring them in parts, whatever sent them. */
static void await_bytes(int fd, int count)
{
    int waiting = 0;
    do
        await(fd, POLLIN), MUST(ioctl(fd, FIONREAD, &waiting));
    while (waiting < count);
}

static void vectors_server(int listener)
{
    int fd = take(listener);
    char head[4], tail[8];
    struct iovec parts[3] = {{head, 4}, {NULL, 0}, {tail, 8}};
    await_peer(fd);
    await_bytes(fd, 6);
    say("readv = %zd, %.4s %.2s", readv(fd, parts, 3), head, tail);
    MUST(writev(fd, (struct iovec[]){{"a", 1}, {"bc", 2}, {"", 0}, {"def", 3}}, 4));
    outcome("writev of nothing", writev(fd, parts, 0));
    outcome("readv of too many", readv(fd, parts, -1));
    expect_end(fd);
}

static void vectors_client(int port)
{
    int fd = dial(port);
    MUST(writev(fd, (struct iovec[]){{"!", 1}, {"head", 4}, {"ta", 2}}, 3));
    char all[7] = {0};
    say("%zu bytes: %s", read_all(fd, all, 6), all);
    MUST(close(fd));
}

static void send_recv_server(int listener)
{
    int fd = take(listener);
    char bytes[16] = {0};
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    outcome("recv", recv(fd, bytes, 3, 0));
    say("%s", bytes);
    signal_peer(fd);
    memset(bytes, 0, sizeof bytes);
    memset(&from, 0xff, sizeof from);
    outcome("recvfrom", recvfrom(fd, bytes, 3, 0, (struct sockaddr *)&from, &length));
    say("%s, address of %d bytes", bytes, length);
    signal_peer(fd);
    memset(bytes, 0, sizeof bytes);
    struct iovec part = {bytes, 3};
    char control[64];
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part,
        .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    outcome("recvmsg", recvmsg(fd, &message, 0));
    say("%s, name of %d, control of %zu, flags %x", bytes, message.msg_namelen,
        message.msg_controllen, message.msg_flags);
    signal_peer(fd);
    expect_end(fd);
}

static void send_recv_client(int port)
{
    int fd = dial(port);
    struct sockaddr_in address = loopback(port);
    outcome("send", send(fd, "one", 3, MSG_NOSIGNAL));
    await_peer(fd);
    outcome("sendto", sendto(fd, "two", 3, 0, (struct sockaddr *)&address, sizeof address));
    await_peer(fd);
    struct iovec part = {"3rd", 3};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    outcome("sendmsg", sendmsg(fd, &message, 0));
    await_peer(fd);
    MUST(close(fd));
}

static void many_messages_server(int listener)
{
    int fd = take(listener);
    char bytes[2][8] = {{0}};
    struct iovec parts[2] = {{bytes[0], 4}, {bytes[1], 4}};
    struct mmsghdr messages[2] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
        {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0}};
    await_peer(fd);
    await_bytes(fd, 8);
    outcome("recvmmsg", recvmmsg(fd, messages, 2, MSG_WAITFORONE, NULL));
    say("%u %s, %u %s", messages[0].msg_len, bytes[0], messages[1].msg_len, bytes[1]);
    signal_peer(fd);
    expect_end(fd);
}

static void many_messages_client(int port)
{
    int fd = dial(port);
    struct iovec parts[2] = {{"!abc", 4}, {"defgh", 5}};
    struct mmsghdr messages[2] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
        {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0}};
    /* In one piece, for a server that reads all of it at once. */
    int cork = 1;
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof cork));
    outcome("sendmmsg", sendmmsg(fd, messages, 2, 0));
    cork = 0;
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof cork));
    say("%u, %u", messages[0].msg_len, messages[1].msg_len);
    await_peer(fd);
    MUST(close(fd));
}

static void by_number_server(int listener)
{
    int fd = MUST(syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC));
    char bytes[8] = {0};
    outcome("SYS_read", syscall(SYS_read, fd, bytes, 3));
    say("%s", bytes);
    outcome("SYS_write", syscall(SYS_write, fd, "answer", 6));
    fd_set set;
    struct timeval moment = {LIMIT, 0};
    struct timespec none = {0, 0};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    outcome("SYS_select", syscall(SYS_select, fd + 1, &set, NULL, NULL, &moment));
    say("readable: %d", FD_ISSET(fd, &set));
    outcome("SYS_recvfrom", syscall(SYS_recvfrom, fd, bytes, 3, 0, NULL, NULL));
    outcome("SYS_pselect6", syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &none, NULL));
    struct iovec part = {bytes, 3};
    write_all(fd, "more", 4);
    outcome("SYS_preadv2", syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, 0));
    outcome("SYS_shutdown", syscall(SYS_shutdown, fd, SHUT_WR));
    outcome("SYS_close", syscall(SYS_close, fd));
    outcome("SYS_close again", syscall(SYS_close, fd));
}

static void by_number_client(int port)
{
    struct sockaddr_in address = loopback(port);
    int fd = MUST(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
    outcome("SYS_connect", syscall(SYS_connect, fd, &address, sizeof address));
    outcome("SYS_sendto", syscall(SYS_sendto, fd, "one", 3, 0, NULL, 0));
    char bytes[8] = {0};
    say("%zu bytes: %s", read_all(fd, bytes, 6), bytes);
    MUST(syscall(SYS_write, fd, "two", 3));
    say("%zu bytes: %.4s", read_all(fd, bytes, 4), bytes);
    MUST(syscall(SYS_write, fd, "six", 3));
    expect_end(fd);
}

static void at_offsets_server(int listener)
{
    int fd = take(listener);
    char bytes[4];
    struct iovec part = {bytes, 4};
    outcome("pread", pread(fd, bytes, 4, 0));
    outcome("pwrite", pwrite(fd, bytes, 4, 0));
    outcome("preadv", preadv(fd, &part, 1, 0));
    outcome("pwritev", pwritev(fd, &part, 1, 0));
    outcome("preadv2 without an offset", preadv2(fd, &part, 1, -1, 0));
    say("%.4s", bytes);
    outcome("pwritev2 without an offset", pwritev2(fd, &part, 1, -1, 0));
    outcome("lseek", lseek(fd, 0, SEEK_CUR));
    expect_end(fd);
}

static void at_offsets_client(int port)
{
    int fd = dial(port);
    char bytes[5] = {0};
    MUST(write(fd, "data", 4));
    say("%zu bytes: %s", read_all(fd, bytes, 4), bytes);
    MUST(close(fd));
}

/* --- sendfile and splice: how nginx and others send files */

static int file_of(size_t length)
{
    char name[] = "/tmp/smc-preload-XXXXXX";
    int file = MUST(mkstemp(name));
    MUST(unlink(name));
    send_pattern(file, length);
    return file;
}

static void sendfile_server(int listener)
{
    int fd = take(listener);
    int file = file_of(BULK);
    /* The head as a server writes it, then the body. */
    MUST(send(fd, "head", 4, MSG_MORE));
    off_t offset = 0;
    while (offset < BULK)
        must("sendfile", sendfile(fd, file, &offset, BULK - offset));
    say("offset %ld, position %ld", (long)offset, (long)lseek(file, 0, SEEK_CUR));
    MUST(lseek(file, 100, SEEK_SET));
    for (size_t left = 1000; left > 0;)
        left -= must("sendfile", sendfile(fd, file, NULL, left));
    say("position %ld", (long)lseek(file, 0, SEEK_CUR));
    offset = BULK;
    outcome("sendfile at the end", sendfile(fd, file, &offset, 10));
    outcome("sendfile of no file", sendfile(fd, -1, NULL, 10));
    expect_end(fd);
}

static void sendfile_client(int port)
{
    int fd = dial(port);
    unsigned char bytes[1000];
    say("%zu bytes of the head", read_all(fd, bytes, 4));
    receive_pattern(fd, BULK);
    say("%zu bytes", read_all(fd, bytes, sizeof bytes));
    judge(bytes, 100, sizeof bytes);
    MUST(close(fd));
}

/* A program that splices has to have another way, which it takes at EINVAL. */
static ssize_t move(int from, int to, size_t length)
{
    ssize_t done = splice(from, NULL, to, NULL, length, 0);
    if (done >= 0 || errno != EINVAL)
        return done;
    char bytes[4096];
    done = read(from, bytes, length < sizeof bytes ? length : sizeof bytes);
    if (done > 0)
        write_all(to, bytes, done);
    return done;
}

static void splice_server(int listener)
{
    int fd = take(listener), ends[2];
    MUST(pipe(ends));
    for (size_t left = 60000; left > 0;) {
        ssize_t moved = must("splice", move(fd, ends[1], left < 4096 ? left : 4096));
        left -= moved;
        while (moved > 0)
            moved -= must("splice", move(ends[0], fd, moved));
    }
    expect_end(fd);
}

static void splice_client(int port)
{
    int fd = dial(port);
    send_pattern(fd, 60000);
    receive_pattern(fd, 60000);
    MUST(close(fd));
}

/* --- flags */

static void flags_server(int listener)
{
    int fd = take(listener);
    char bytes[16] = {0};
    await(fd, POLLIN);
    outcome("recv that peeks", recv(fd, bytes, 3, MSG_PEEK));
    outcome("recv that peeks again", recv(fd, bytes, 3, MSG_PEEK));
    say("%s", bytes);
    outcome("recv", recv(fd, bytes, 3, 0));
    outcome("recv without waiting", recv(fd, bytes, 3, MSG_DONTWAIT));
    signal_peer(fd);
    outcome("recv that waits for all", recv(fd, bytes, 9, MSG_WAITALL));
    say("%.9s", bytes);
    signal_peer(fd);
    outcome("recv that waits for all, and the end comes", recv(fd, bytes, 9, MSG_WAITALL));
    outcome("recv at the end", recv(fd, bytes, 9, MSG_DONTWAIT));
    outcome("recv that peeks at the end", recv(fd, bytes, 9, MSG_PEEK));
    outcome("recv of nothing", recv(fd, bytes, 0, 0));
    MUST(close(fd));
}

static void flags_client(int port)
{
    int fd = dial(port);
    MUST(write(fd, "abc", 3));
    await_peer(fd);
    MUST(write(fd, "123", 3));
    MUST(write(fd, "456", 3));
    MUST(write(fd, "789", 3));
    await_peer(fd);
    MUST(write(fd, "12", 2));
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

/* Bytes that are dropped, counted, or copied into several pieces of memory and left. */
static void drops_server(int listener)
{
    int fd = take(listener);
    char bytes[16] = "................";
    struct iovec parts[3] = {{bytes, 2}, {bytes + 2, 0}, {bytes + 2, 6}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    signal_peer(fd);
    await_bytes(fd, 14);
    outcome("recvmsg that peeks", recvmsg(fd, &message, MSG_PEEK));
    say("%.16s", bytes);
    memset(bytes, '.', sizeof bytes);
    outcome("recv that counts", recv(fd, bytes, 16, MSG_PEEK | MSG_TRUNC));
    outcome("recv that drops", recv(fd, bytes, 3, MSG_TRUNC));
    outcome("recv that drops, without memory", recv(fd, NULL, 2, MSG_TRUNC));
    outcome("recvmsg that drops", recvmsg(fd, &message, MSG_TRUNC | MSG_WAITALL));
    say("%.16s", bytes);
    outcome("recv that drops more than there is", recv(fd, bytes, 16, MSG_TRUNC | MSG_DONTWAIT));
    outcome("recv that finds nothing to drop", recv(fd, bytes, 4, MSG_TRUNC | MSG_DONTWAIT));
    say("%.16s", bytes);
    signal_peer(fd);
    outcome("recv that drops what comes before the end", recv(fd, NULL, 200, MSG_TRUNC | MSG_WAITALL));
    expect_end(fd);
}

static void drops_client(int port)
{
    int fd = dial(port);
    await_peer(fd);
    MUST(write(fd, "abcdefghijklmn", 14));
    await_peer(fd);
    send_pattern(fd, 100);
    MUST(close(fd));
}

/* Calls that move no byte: read returns at once, recv as it would for a byte, and writes fail once
 * nothing can be written. */
static void no_bytes_server(int listener)
{
    int fd = take(listener);
    char byte;
    struct iovec none = {&byte, 0};
    struct msghdr message = {.msg_iov = &none, .msg_iovlen = 1};
    signal(SIGPIPE, SIG_IGN);
    signal_peer(fd);
    await(fd, POLLIN);
    outcome("recv with a byte there", recv(fd, &byte, 0, 0));
    outcome("read", read(fd, &byte, 1));
    outcome("recv without a byte there", recv(fd, &byte, 0, MSG_DONTWAIT));
    outcome("recvmsg", recvmsg(fd, &message, MSG_DONTWAIT));
    outcome("recv that drops", recv(fd, NULL, 0, MSG_DONTWAIT | MSG_TRUNC));
    outcome("read of nothing", read(fd, &byte, 0));
    outcome("readv of nothing", readv(fd, &none, 1));
    outcome("preadv2 of nothing", preadv2(fd, &none, 1, -1, 0));
    outcome("write of nothing", write(fd, &byte, 0));
    signal_peer(fd);
    await(fd, POLLIN);
    outcome("recv at the end", recv(fd, &byte, 0, MSG_DONTWAIT));
    MUST(shutdown(fd, SHUT_WR));
    outcome("write of nothing", write(fd, &byte, 0));
    outcome("send of nothing", send(fd, &byte, 0, MSG_DONTWAIT));
    outcome("writev of nothing", writev(fd, &none, 1));
    outcome("pwritev2 of nothing", pwritev2(fd, &none, 1, -1, 0));
    set_nonblocking(fd, true);
    outcome("sendmsg of nothing", sendmsg(fd, &message, 0));
    expect_end(fd);
}

static void no_bytes_client(int port)
{
    int fd = dial(port);
    await_peer(fd);
    signal_peer(fd);
    await_peer(fd);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

static void waiting_bytes_server(int listener)
{
    int fd = take(listener), waiting = -1;
    MUST(ioctl(fd, FIONREAD, &waiting));
    say("FIONREAD %d", waiting);
    signal_peer(fd);
    await_bytes(fd, 1000);
    MUST(ioctl(fd, FIONREAD, &waiting));
    say("FIONREAD %d", waiting);
    char bytes[1000];
    MUST(read(fd, bytes, 400));
    MUST(ioctl(fd, FIONREAD, &waiting));
    say("FIONREAD %d", waiting);
    MUST(read(fd, bytes, 600));
    signal_peer(fd);
    int nonblocking = 1;
    MUST(ioctl(fd, FIONBIO, &nonblocking));
    outcome("read after FIONBIO", read(fd, bytes, 1));
    say("O_NONBLOCK %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
    signal_peer(fd);
    expect_end(fd);
}

static void waiting_bytes_client(int port)
{
    int fd = dial(port), unsent = -1;
    char bytes[1000] = {0};
    await_peer(fd);
    MUST(write(fd, bytes, sizeof bytes));
    await_peer(fd);
    /* All was read; TCP learns of it a little later. */
    do
        MUST(ioctl(fd, SIOCOUTQ, &unsent));
    while (unsent != 0);
    say("SIOCOUTQ %d", unsent);
    await_peer(fd);
    MUST(close(fd));
}

static int waiting_in(int fd)
{
    int waiting = 0;
    MUST(ioctl(fd, FIONREAD, &waiting));
    return waiting;
}

static void low_water_server(int listener)
{
    int fd = take(listener), mark = 10;
    await_peer(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    socklen_t length = sizeof mark;
    mark = 0;
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, &length));
    say("SO_RCVLOWAT %d", mark);
    signal_peer(fd);
    while (waiting_in(fd) < 5)
        sched_yield();
    struct pollfd one = {fd, POLLIN, 0};
    outcome("poll with five bytes", poll(&one, 1, 0));
    signal_peer(fd);
    outcome("poll for ten bytes", poll(&one, 1, -1));
    char bytes[16] = {0};
    outcome("read", read(fd, bytes, sizeof bytes));
    say("%s", bytes);
    signal_peer(fd);
    outcome("poll for the end", poll(&one, 1, -1));
    outcome("read at the end", read(fd, bytes, sizeof bytes));
    MUST(close(fd));
}

static void low_water_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    MUST(write(fd, "12345", 5));
    await_peer(fd);
    MUST(write(fd, "67890", 5));
    await_peer(fd);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

static void urgent_server(int listener)
{
    int fd = take(listener);
    char bytes[16] = {0};
    say("POLLPRI %d", !!(await(fd, POLLPRI) & POLLPRI));
    outcome("recv of the urgent byte", recv(fd, bytes, 1, MSG_OOB));
    say("%s", bytes);
    outcome("recv of the urgent byte again", recv(fd, bytes, 1, MSG_OOB));
    memset(bytes, 0, sizeof bytes);
    say("%zu bytes: %s", read_all(fd, bytes, 2), bytes);
    int at_mark = -1;
    MUST(ioctl(fd, SIOCATMARK, &at_mark));
    say("at the mark %d", at_mark);
    memset(bytes, 0, sizeof bytes);
    say("%zu bytes: %s", read_all(fd, bytes, 3), bytes);
    signal_peer(fd);
    expect_end(fd);
}

static void urgent_client(int port)
{
    int fd = dial(port);
    MUST(write(fd, "ab", 2));
    outcome("send of an urgent byte", send(fd, "U", 1, MSG_OOB));
    MUST(write(fd, "cde", 3));
    await_peer(fd);
    MUST(close(fd));
}

/* With _FORTIFY_SOURCE and a length that the compiler does not know, the checked variants. */
static void fortified_server(int listener)
{
    int fd = take(listener);
    char bytes[64] = {0};
    volatile size_t length = 3;
    outcome("read", read(fd, bytes, length));
    outcome("recv", recv(fd, bytes, length, MSG_WAITALL));
    outcome("recvfrom", recvfrom(fd, bytes, length, MSG_WAITALL, NULL, NULL));
    struct pollfd one[2] = {{fd, POLLIN, 0}};
    volatile nfds_t count = 1;
    outcome("poll", poll(one, count, 0));
    struct timespec none = {0};
    outcome("ppoll", ppoll(one, count, &none, NULL));
    signal_peer(fd);
    expect_end(fd);
}

static void fortified_client(int port)
{
    int fd = dial(port);
    MUST(write(fd, "abcdefghi", 9));
    await_peer(fd);
    MUST(close(fd));
}

/* Arguments that are wrong fail as they do on TCP, and the connection goes on. */
static void wrong_arguments_server(int listener)
{
    int fd = take(listener);
    char *nowhere = (char *)8;
    signal_peer(fd);
    await(fd, POLLIN);
    outcome("read to nowhere", read(fd, nowhere, 4));
    outcome("write from nowhere", write(fd, nowhere, 4));
    outcome("recvmsg without a message", recvmsg(fd, (struct msghdr *)nowhere, 0));
    outcome("read of nothing", read(fd, NULL, 0));
    outcome("write of nothing", write(fd, NULL, 0));
    outcome("listen", listen(fd, 1));
    outcome("accept", accept(fd, NULL, NULL));
    outcome("shutdown of neither", shutdown(fd, 7));
    char bytes[8] = {0};
    say("%zu bytes: %s", read_all(fd, bytes, 4), bytes);
    signal_peer(fd);
    expect_end(fd);
}

static void wrong_arguments_client(int port)
{
    int fd = dial(port);
    await_peer(fd);
    MUST(write(fd, "data", 4));
    await_peer(fd);
    MUST(close(fd));
}

const struct test_case cases[] = {
    {"read-write", read_write_server, read_write_client},
    {"vectors", vectors_server, vectors_client},
    {"send-recv", send_recv_server, send_recv_client},
    {"many-messages", many_messages_server, many_messages_client},
    {"by-number", by_number_server, by_number_client},
    {"at-offsets", at_offsets_server, at_offsets_client},
    {"sendfile", sendfile_server, sendfile_client},
    {"splice", splice_server, splice_client},
    {"flags", flags_server, flags_client},
    {"drops", drops_server, drops_client},
    {"no-bytes", no_bytes_server, no_bytes_client},
    {"waiting-bytes", waiting_bytes_server, waiting_bytes_client},
    {"low-water", low_water_server, low_water_client},
    {"urgent", urgent_server, urgent_client},
    {"fortified", fortified_server, fortified_client},
    {"wrong-arguments", wrong_arguments_server, wrong_arguments_client},
    {NULL, NULL, NULL},
};
