/* Urgent bytes: the mark, what passes it, and how many bytes are before it. */
#include "case.h"
#include "events.h"
#include "orders.h"

/* The bytes that can be read up to the mark, whether that is next, and what is reported. */
static void say_mark(const char *what)
{
    int unread = -1, mark = -1;
    MUST(ioctl(ordered, FIONREAD, &unread));
    MUST(ioctl(ordered, SIOCATMARK, &mark));
    struct pollfd one = {.fd = ordered, .events = POLLIN | POLLPRI};
    MUST(poll(&one, 1, 0));
    say("%s: %d unread, at the mark %d, %s", what, unread, mark, names(one.revents));
}

static void receive(size_t length, int flags)
{
    char bytes[32] = {0};
    long done = recv(ordered, bytes, length, flags | MSG_DONTWAIT);
    say("recv %zx of %zu: %s %s", (size_t)flags, length, done < 0 ? strerrorname_np(errno) : "has", bytes);
}

/* Bytes count up to the mark; one that reads by itself passes it. */
static void passed_server(int listener)
{
    begin_orders(listener);
    order('a', POLLIN);
    order('b', POLLIN);
    order('U', POLLPRI);
    say_mark("before it");
    receive(8, MSG_PEEK);
    receive(8, 0);
    say_mark("at it");
    receive(0, 0);
    receive(8, MSG_PEEK);
    say_mark("peeked");
    receive(8, 0);
    say_mark("passed");
    receive(1, MSG_OOB);
    order('V', POLLPRI);
    order('c', 0);
    await(ordered, POLLIN);
    say_mark("with something behind it");
    receive(8, 0);
    say_mark("passed");
    end_orders();
}

/* The calls that receive the byte out of its place. */
static void received_server(int listener)
{
    begin_orders(listener);
    char byte = '.', other = '.';
    struct iovec parts[2] = {{&byte, 0}, {&other, 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    receive(1, MSG_OOB);
    order('U', POLLPRI);
    receive(1, MSG_OOB | MSG_PEEK);
    receive(1, MSG_OOB | MSG_PEEK | MSG_TRUNC);
    say_mark("peeked");
    outcome("recvmsg", recvmsg(ordered, &message, MSG_OOB | MSG_PEEK));
    say("%c, flags %x", other, message.msg_flags);
    message.msg_iovlen = 1;
    outcome("recvmsg without room", recvmsg(ordered, &message, MSG_OOB));
    say("flags %x", message.msg_flags);
    say_mark("received");
    receive(1, MSG_OOB);
    order('V', POLLPRI);
    order('r', POLLHUP);
    receive(1, MSG_OOB);
    say_mark("reset");
    end_orders();
}

/* A read stops at the mark, also between pieces of memory, and while it waits for more. */
static void stops_server(int listener)
{
    begin_orders(listener);
    char bytes[8] = {0};
    struct iovec parts[2] = {{bytes, 2}, {bytes + 2, 6}};
    order('a', POLLIN);
    order('b', POLLIN);
    order('U', POLLPRI);
    outcome("readv", readv(ordered, parts, 2));
    say_mark("at it");
    order('c', POLLIN);
    order('V', POLLPRI);
    outcome("recv that waits for all", recv(ordered, bytes, 8, MSG_WAITALL));
    say_mark("at the second one");
    end_orders();
}

static void set_inline(int on)
{
    MUST(setsockopt(ordered, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
}

/* Read in their place, in one read with what is behind them; none is lost by another one, nor when
 * the program changes how it reads them. */
static void inline_server(int listener)
{
    begin_orders(listener);
    set_inline(1);
    order('a', POLLIN);
    order('U', POLLPRI);
    say_mark("before it");
    receive(8, MSG_OOB);
    receive(8, 0);
    say_mark("at it");
    receive(8, MSG_PEEK);
    receive(8, 0);
    say_mark("passed");
    order('V', POLLPRI);
    receive(1, 0);
    order('W', POLLPRI);
    set_inline(0);
    say_mark("out of line");
    receive(1, MSG_OOB);
    set_inline(1);
    say_mark("in line");
    order('b', 0);
    await_unread(2);
    order('X', POLLPRI);
    await_unread(3);
    say_mark("two of them");
    receive(8, MSG_PEEK);
    receive(8, 0);
    receive(8, 0);
    order('c', POLLIN);
    set_inline(0);
    order('Y', POLLPRI);
    set_inline(1);
    say_mark("in line");
    receive(8, 0);
    set_inline(0);
    say_mark("out of line");
    receive(8, 0);
    say_mark("passed");
    end_orders();
}

const struct test_case cases[] = {
    {"passed", passed_server, obedient_client},
    {"received", received_server, obedient_client},
    {"stops", stops_server, obedient_client},
    {"inline", inline_server, obedient_client},
    {NULL, NULL, NULL},
};
