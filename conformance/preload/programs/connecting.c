/* How connections are made, and what programs ask about them. */
#include "case.h"
#include <time.h>

static void ends_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
}

static void finish(int fd)
{
    signal_peer(fd);
    await_peer(fd);
    must("close", close(fd));
}

/* Begins to connect without waiting; says nothing, since either may be. */
static int begin(int port)
{
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    struct sockaddr_in address = loopback(port);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (connected < 0 && errno != EINPROGRESS)
        must("connect", connected);
    return fd;
}

static int pending_error(int fd)
{
    int error = -1;
    socklen_t length = sizeof error;
    must("getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    return error;
}

/* hiredis connects, polls, and connects again to learn how it went. */
static void again_client(int port)
{
    int fd = begin(port);
    struct sockaddr_in address = loopback(port);
    say("writable %d", !!(await(fd, POLLOUT) & POLLOUT));
    int second = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (second < 0 && errno != EISCONN)
        outcome("second connect", second);
    outcome("third connect", connect(fd, (struct sockaddr *)&address, sizeof address));
    say("SO_ERROR %d", pending_error(fd));
    set_nonblocking(fd, false);
    finish(fd);
}

static void pending_client(int port)
{
    int fd = begin(port);
    say("writable %d", !!(await(fd, POLLOUT) & POLLOUT));
    say("SO_ERROR %d, again %d", pending_error(fd), pending_error(fd));
    char byte;
    outcome("read", read(fd, &byte, 1));
    set_nonblocking(fd, false);
    finish(fd);
}

/* Where nothing listens, in all ways of waiting. */
static void refused_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    MUST(close(listener));
    signal_peer(fd);
    expect_end(fd);
}

static void refused_client(int port)
{
    int first = dial(port);
    signal_peer(first);
    await_peer(first);
    struct sockaddr_in address = loopback(port);
    int fd = tcp();
    outcome("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
    char byte;
    outcome("read", read(fd, &byte, 1));
    MUST(close(fd));
    fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int begun = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (begun == 0 || (errno != EINPROGRESS && errno != ECONNREFUSED))
        outcome("connect without waiting", begun);
    if (errno == EINPROGRESS) {
        int events = await(fd, POLLOUT);
        say("POLLERR %d, POLLHUP %d", !!(events & POLLERR), !!(events & POLLHUP));
        say("SO_ERROR %s", strerrorname_np(pending_error(fd)));
    }
    say("SO_ERROR %d", pending_error(fd));
    MUST(close(fd));
    MUST(close(first));
}

/* Programs decide on rights by these (redis' protected mode does). */
static void say_address(const char *what, int result, const struct sockaddr_in *address,
    socklen_t length, int port)
{
    if (result < 0)
        outcome(what, result);
    else
        say("%s: family %d, %s, %d bytes, the server's port %d", what, address->sin_family,
            inet_ntoa(address->sin_addr), length, ntohs(address->sin_port) == port);
}

static void say_addresses(int fd, int port)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int result = getsockname(fd, (struct sockaddr *)&address, &length);
    say_address("getsockname", result, &address, length, port);
    length = sizeof address;
    result = getpeername(fd, (struct sockaddr *)&address, &length);
    say_address("getpeername", result, &address, length, port);
}

static void addresses_server(int listener)
{
    struct sockaddr_in own, peer;
    socklen_t length = sizeof own;
    MUST(getsockname(listener, (struct sockaddr *)&own, &length));
    int port = ntohs(own.sin_port);
    length = sizeof peer;
    int fd = MUST(accept(listener, (struct sockaddr *)&peer, &length));
    say_address("accept", fd, &peer, length, port);
    say_addresses(fd, port);
    char small[4] = {0};
    length = sizeof small;
    outcome("getpeername in four bytes", getpeername(fd, (struct sockaddr *)small, &length));
    say("%d bytes", length);
    await_peer(fd);
    signal_peer(fd);
    MUST(await(fd, POLLRDHUP));
    expect_end(fd);
}

static void addresses_client(int port)
{
    int fd = tcp();
    say_addresses(fd, port);
    struct sockaddr_in address = loopback(port);
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
    say_addresses(fd, port);
    finish(fd);
}

static void say_option(int fd, const char *name, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof value;
    if (getsockopt(fd, level, option, &value, &length) < 0)
        outcome(name, -1);
    else
        say("%s = %d, %d bytes", name, value, length);
}
#define SAY_OPTION(fd, level, option) say_option(fd, #option, level, option)

static void options_of(int fd)
{
    SAY_OPTION(fd, SOL_SOCKET, SO_DOMAIN);
    SAY_OPTION(fd, SOL_SOCKET, SO_TYPE);
    SAY_OPTION(fd, SOL_SOCKET, SO_PROTOCOL);
    SAY_OPTION(fd, SOL_SOCKET, SO_ACCEPTCONN);
    SAY_OPTION(fd, SOL_SOCKET, SO_ERROR);
    SAY_OPTION(fd, SOL_SOCKET, SO_KEEPALIVE);
    SAY_OPTION(fd, IPPROTO_TCP, TCP_NODELAY);
    SAY_OPTION(fd, IPPROTO_TCP, 9999);
    int one = 1, many = 300;
    succeeds("TCP_NODELAY", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    succeeds("SO_KEEPALIVE", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    succeeds("TCP_KEEPIDLE", setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &many, sizeof many));
    SAY_OPTION(fd, IPPROTO_TCP, TCP_NODELAY);
    SAY_OPTION(fd, SOL_SOCKET, SO_KEEPALIVE);
    SAY_OPTION(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    int size = 65536, got = 0;
    socklen_t length = sizeof got;
    succeeds("SO_RCVBUF", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    succeeds("SO_SNDBUF", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &length));
    say("SO_RCVBUF is at least that: %d", got >= size);
    struct tcp_info information = {0};
    length = sizeof information;
    succeeds("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &information, &length));
    say("established %d", information.tcpi_state == TCP_ESTABLISHED);
    outcome("an option of nothing", setsockopt(fd, SOL_SOCKET, 9999, &one, sizeof one));
    outcome("too short", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, 1));
}

/* To no particular address: the kernel takes one of this host. */
static void unspecified_client(int port)
{
    int fd = tcp();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
    say_addresses(fd, port);
    finish(fd);
}

static void options_server(int listener)
{
    SAY_OPTION(listener, SOL_SOCKET, SO_ACCEPTCONN);
    int fd = take(listener);
    options_of(fd);
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
}

static void options_client(int port)
{
    int fd = dial(port);
    options_of(fd);
    finish(fd);
}

/* accept4, and what is inherited from the listener. */
static void accepted_server(int listener)
{
    int none = accept4(listener, NULL, NULL, 0x40000000);
    outcome("accept4 with a flag of nothing", none);
    int fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    say("O_NONBLOCK %d, FD_CLOEXEC %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
        fcntl(fd, F_GETFD));
    await_peer(fd);
    set_nonblocking(listener, true);
    outcome("accept of none", accept(listener, NULL, NULL));
    signal_peer(fd);
    MUST(await(fd, POLLRDHUP));
    expect_end(fd);
    fd = take((await(listener, POLLIN), listener));
    say("O_NONBLOCK %d, FD_CLOEXEC %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
        fcntl(fd, F_GETFD));
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
    outcome("accept of no listener", accept(tcp(), NULL, NULL));
    outcome("accept of no socket", accept(STDOUT_FILENO, NULL, NULL));
}

/* The second one begins when the server has polled for it and found none. */
static void accepted_client(int port)
{
    finish(dial(port));
    finish(dial(port));
}

/* Several connections at once, of which each has its own bytes. */
static void many_server(int listener)
{
    int fd[20];
    for (int at = 0; at < 20; at++)
        fd[at] = take(listener);
    int sum = 0;
    for (int at = 0; at < 20; at++) {
        unsigned char own;
        MUST(read(fd[at], &own, 1));
        write_all(fd[at], &own, 1);
        sum += own;
    }
    say("sum %d", sum);
    for (int at = 0; at < 20; at++)
        expect_end(fd[at]);
}

static void many_client(int port)
{
    int fd[20];
    for (int at = 0; at < 20; at++)
        fd[at] = at % 2 ? dial(port) : begin(port);
    for (unsigned char at = 0; at < 20; at++) {
        await(fd[at], POLLOUT);
        write_all(fd[at], &at, 1);
    }
    for (int at = 0; at < 20; at++) {
        unsigned char own = 99;
        read_all(fd[at], &own, 1);
        if (own != at)
            say("connection %d has the byte of %d", at, own);
    }
    for (int at = 0; at < 20; at++)
        MUST(close(fd[at]));
}

/* The server writes first, and is gone when the client reads. */
static void greets_server(int listener)
{
    for (int round = 0; round < 5; round++) {
        int fd = take(listener);
        MUST(write(fd, "welcome", 7));
        MUST(close(fd));
    }
}

static void greets_client(int port)
{
    for (int round = 0; round < 5; round++) {
        int fd = dial(port);
        char text[8] = {0};
        say("%zu bytes: %s", read_all(fd, text, 7), text);
        expect_end(fd);
    }
}

/* The client writes and is gone when the server accepts. */
static void gone_server(int listener)
{
    int sync = take(listener);
    await_peer(sync);
    int fd = take(listener);
    char text[6] = {0};
    say("%zu bytes: %s", read_all(fd, text, 5), text);
    expect_end(fd);
    signal_peer(sync);
    expect_end(sync);
}

static void gone_client(int port)
{
    int sync = dial(port);
    int fd = dial(port);
    MUST(write(fd, "hello", 5));
    MUST(close(fd));
    finish(sync);
}

/* A connection to an IPv6 address, and to an IPv4 one by a socket of IPv6. */
static void by_ipv6_server(int listener)
{
    int six = MUST(socket(AF_INET6, SOCK_STREAM, 0)), off = 0;
    MUST(setsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    socklen_t length = sizeof address;
    MUST(bind(six, (struct sockaddr *)&address, length));
    MUST(listen(six, 5));
    MUST(getsockname(six, (struct sockaddr *)&address, &length));
    int sync = take(listener);
    MUST(write(sync, &address.sin6_port, 2));
    for (int round = 0; round < 2; round++) {
        char text[INET6_ADDRSTRLEN];
        length = sizeof address;
        int fd = MUST(accept(six, (struct sockaddr *)&address, &length));
        say("from %s", inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text));
        await_peer(fd);
        signal_peer(fd);
        expect_end(fd);
    }
    expect_end(sync);
}

static void by_ipv6_client(int port)
{
    int sync = dial(port);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    read_all(sync, &address.sin6_port, 2);
    int fd = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
    SAY_OPTION(fd, SOL_SOCKET, SO_DOMAIN);
    finish(fd);
    finish(dial(ntohs(address.sin6_port)));
    MUST(close(sync));
}

/* Sockets that are no connections of TCP are as they were. */
static void other_sockets_server(int listener)
{
    int fd = take(listener), ends[2];
    char bytes[8] = {0};
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    outcome("write to a socket pair", write(ends[0], "abc", 3));
    outcome("read of it", read(ends[1], bytes, 8));
    int datagrams = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    MUST(bind(datagrams, (struct sockaddr *)&address, length));
    MUST(getsockname(datagrams, (struct sockaddr *)&address, &length));
    outcome("sendto", sendto(datagrams, "abcd", 4, 0, (struct sockaddr *)&address, length));
    outcome("recv, cut", recv(datagrams, bytes, 2, MSG_TRUNC));
    MUST(connect(datagrams, (struct sockaddr *)&address, length));
    outcome("send", send(datagrams, "ab", 2, 0));
    outcome("recv", recv(datagrams, bytes, 8, 0));
    outcome("a family of nothing", socket(99, SOCK_STREAM, 0));
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
}

static void plain_client(int port)
{
    finish(dial(port));
}

/* Connect to nowhere at all, and again with the same socket. */
static void reconnected_client(int port)
{
    struct sockaddr_in address = loopback(port), none = {.sin_family = AF_UNSPEC};
    int fd = dial(port);
    outcome("connect again", connect(fd, (struct sockaddr *)&address, sizeof address));
    finish(fd);
    fd = tcp();
    outcome("connect of no family", connect(fd, (struct sockaddr *)&none, sizeof none));
    outcome("connect of two bytes", connect(fd, (struct sockaddr *)&address, 2));
    MUST(close(fd));
}

/* --- a server that accepts, and uses the connection late: the client is connected, as over TCP */

#define IN_TIME 400
#define LATE 5

static void used_late_server(int listener)
{
    int late[LATE];
    for (int at = 0; at < LATE; at++)
        late[at] = take(listener);
    /* Its client has been notified by then. */
    int fd = welcome(listener);
    for (int at = 0; at < LATE; at++) {
        await_peer(late[at]);
        signal_peer(late[at]);
        expect_end(late[at]);
    }
    expect_end(fd);
}

static void used_late_client(int port)
{
    int late[LATE];
    struct sockaddr_in address = loopback(port);
    /* By poll(2), and by select(2) and a second connect(2). */
    late[0] = begin(port);
    struct pollfd polled = {.fd = late[0], .events = POLLOUT};
    outcome("poll", poll(&polled, 1, IN_TIME));
    say("SO_ERROR %d", pending_error(late[0]));
    late[1] = begin(port);
    fd_set writes;
    FD_ZERO(&writes);
    FD_SET(late[1], &writes);
    struct timeval time = {.tv_usec = IN_TIME * 1000};
    outcome("select", select(late[1] + 1, NULL, &writes, NULL, &time));
    int second = connect(late[1], (struct sockaddr *)&address, sizeof address);
    if (second < 0 && errno != EISCONN)
        outcome("second connect", second);
    /* By sets, of levels and of edges. */
    for (int at = 2; at < 4; at++) {
        late[at] = begin(port);
        int set = MUST(epoll_create1(0));
        struct epoll_event event = {.events = EPOLLOUT | (at == 2 ? 0 : EPOLLET)};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, late[at], &event));
        outcome("epoll_wait", epoll_wait(set, &event, 1, IN_TIME));
        say("SO_ERROR %d", pending_error(late[at]));
        MUST(close(set));
    }
    /* By a call that waits for so long at most. */
    late[4] = tcp();
    time = (struct timeval){.tv_usec = IN_TIME * 1000};
    MUST(setsockopt(late[4], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    outcome("connect", connect(late[4], (struct sockaddr *)&address, sizeof address));
    int fd = greet(port);
    for (int at = 0; at < LATE; at++) {
        set_nonblocking(late[at], false);
        finish(late[at]);
    }
    MUST(close(fd));
}

/* --- a server that speaks first, and expects that a new connection has room for what it sends */

#define GREETINGS 20

static void speaks_first_server(int listener)
{
    bool at_once = false;
    for (int round = 0; round < GREETINGS; round++) {
        int fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
        /* After a wait that was too short on a busy machine there is none for a tenth of a second. */
        if (round > 0 && !at_once)
            usleep(110000);
        ssize_t length = at_once ? 0 : write(fd, "welcome", 7);
        at_once |= length == 7;
        length = length < 0 ? 0 : length;
        write_all(fd, "welcome" + length, 7 - length);
        await_peer(fd);
        MUST(close(fd));
    }
    say("written at once: %d", at_once);
}

/* Each client is another process, which the server has not met. */
static void speaks_first_client(int port)
{
    for (int round = 0; round < GREETINGS; round++) {
        pid_t child = branch();
        if (child == 0) {
            int fd = dial(port);
            char text[8] = {0};
            if (read_all(fd, text, 7) != 7 || strcmp(text, "welcome") != 0)
                say("round %d: %s", round, text);
            signal_peer(fd);
            expect_end(fd);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
    }
}

/* --- a server that speaks first to clients of which it is never decided: none of them holds it up */

#define SILENT 60

/* What this thread has slept, in milliseconds, since some point in time: not the time for which it ran or
 * for which it waited for a processor, so that a busy machine counts little. */
static long slept(void)
{
    struct timespec now;
    unsigned long long ran, ready;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (!file || fscanf(file, "%llu %llu", &ran, &ready) != 2)
        say("no schedstat");
    clock_gettime(CLOCK_MONOTONIC, &now);
    must("fclose", fclose(file));
    return now.tv_sec * 1000 + (now.tv_nsec - (long)(ran + ready)) / 1000000;
}

static void speaks_in_vain_server(int listener)
{
    int fds[SILENT];
    for (int at = 0; at < SILENT; at++)
        fds[at] = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    long before = slept();
    for (int at = 0; at < SILENT; at++)
        (void)!write(fds[at], "welcome", 7);
    long waited = slept() - before;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    long took = (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
    /* A wait for each would be 5 ms for each: a third of that leaves room for locks. */
    if (waited <= SILENT * 5 / 3 + took / 20)
        say("few waits");
    else
        say("waited %ld of %ld ms", waited, took);
    expect_end(welcome(listener));
}

static void speaks_in_vain_client(int port)
{
    pid_t children[SILENT];
    for (int at = 0; at < SILENT; at++) {
        children[at] = branch();
        if (children[at] == 0) {
            begin(port);
            stop();
            _exit(0);
        }
        await_stop(children[at]);
    }
    MUST(close(greet(port)));
    for (int at = 0; at < SILENT; at++) {
        MUST(kill(children[at], SIGKILL));
        MUST(waitpid(children[at], NULL, 0));
    }
}

/* --- a thread that connects to a listener of its own before it accepts, as connect02 of the Linux Test
 * Project does: no other process could take the connection up */

#define OWN_ROUNDS 200

static void to_itself_server(int listener)
{
    expect_end(welcome(listener));
}

static void to_itself_client(int port)
{
    int own = greet(port);
    int listener = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    struct sockaddr_in all = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    MUST(bind(listener, (struct sockaddr *)&any, length));
    MUST(listen(listener, 5));
    MUST(getsockname(listener, (struct sockaddr *)&any, &length));
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int round = 0; round < OWN_ROUNDS; round++) {
        int first = dial(ntohs(any.sin6_port));
        int accepted = take(listener), family = AF_INET;
        MUST(setsockopt(accepted, SOL_IPV6, IPV6_ADDRFORM, &family, sizeof family));
        /* What was a connection listens next. */
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        MUST(connect(accepted, &none, sizeof none));
        MUST(bind(accepted, (struct sockaddr *)&all, sizeof all));
        MUST(listen(accepted, 5));
        struct sockaddr_in at;
        length = sizeof at;
        MUST(getsockname(accepted, (struct sockaddr *)&at, &length));
        int second = dial(ntohs(at.sin_port)), last = take(accepted);
        MUST(close(last));
        MUST(close(second));
        MUST(close(first));
        MUST(close(accepted));
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    say("within 20 ms each: %d", ended.tv_sec - began.tv_sec < OWN_ROUNDS / 50);
    MUST(close(own));
}

/* --- a server that gives up the first write that would wait, and closes, while its client sleeps */

#define SLEEPERS 8

static void gives_up_server(int listener)
{
    int own = welcome(listener);
    for (int at = 0; at < SLEEPERS; at++) {
        int fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
        (void)!write(fd, "welcome", 7);
        MUST(close(fd));
        signal_peer(own);
    }
    expect_end(own);
}

/* A client that goes on when its server has closed: it has connected. What the server could not
 * write, it does not read. */
static void sleeper(int port)
{
    int fd = begin(port);
    stop();
    await(fd, POLLOUT);
    int error = pending_error(fd);
    set_nonblocking(fd, false);
    char bytes[8];
    _exit(error != 0 ? 1 : read(fd, bytes, sizeof bytes) < 0 ? 2 : 0);
}

static void gives_up_client(int port)
{
    int own = greet(port);
    for (int at = 0; at < SLEEPERS; at++) {
        pid_t child = branch();
        if (child == 0)
            sleeper(port);
        await_stop(child);
        await_peer(own);
        int status;
        MUST(kill(child, SIGCONT));
        MUST(waitpid(child, &status, 0));
        say("a client ends with %x", status);
    }
    MUST(close(own));
}

const struct test_case cases[] = {
    {"again", ends_server, again_client},
    {"pending", ends_server, pending_client},
    {"refused", refused_server, refused_client},
    {"addresses", addresses_server, addresses_client},
    {"unspecified", ends_server, unspecified_client},
    {"options", options_server, options_client},
    {"accepted", accepted_server, accepted_client},
    {"many", many_server, many_client},
    {"greets", greets_server, greets_client},
    {"gone", gone_server, gone_client},
    {"by-ipv6", by_ipv6_server, by_ipv6_client},
    {"other-sockets", other_sockets_server, plain_client},
    {"reconnected", ends_server, reconnected_client},
    {"used-late", used_late_server, used_late_client},
    {"speaks-first", speaks_first_server, speaks_first_client},
    {"speaks-in-vain", speaks_in_vain_server, speaks_in_vain_client},
    {"to-itself", to_itself_server, to_itself_client},
    {"gives-up", gives_up_server, gives_up_client},
    {NULL, NULL, NULL},
};
