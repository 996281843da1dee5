/* Who waits for what, by which call: poll, select and epoll in all their kinds. */
#include "case.h"
#include "events.h"
#include <sys/select.h>

/* Waits until the stream has ended, and reading says so. */
static void await_end(int fd)
{
    while (!(await(fd, POLLIN | POLLRDHUP) & POLLRDHUP))
        ;
}

/* One line for what becomes ready. */
static uint64_t becomes_ready(const char *what, int set)
{
    struct epoll_event event = {0};
    int ready = MUST(epoll_wait(set, &event, 1, LIMIT * 1000));
    say("%s: %d %s data %llx", what, ready, names(event.events),
        (unsigned long long)event.data.u64);
    return event.data.u64;
}

/* A client that does what the server asks for: sends some bytes, ends, or closes. */
static void remote_client(int port)
{
    int fd = dial(port);
    unsigned char bytes[256] = {0}, wish;
    while (read(fd, &wish, 1) == 1 && wish != 0) {
        if (wish == 255)
            MUST(shutdown(fd, SHUT_WR));
        else
            write_all(fd, bytes, wish);
    }
    MUST(close(fd));
}

static void wish(int fd, unsigned char what)
{
    write_all(fd, &what, 1);
}

/* A connection over which a byte has come: before that it is not known what carries it, and
 * it may not be writable yet. */
static int take_settled(int listener)
{
    int fd = take(listener);
    char byte;
    wish(fd, 1);
    MUST(read(fd, &byte, 1));
    return fd;
}

/* --- poll, select */

static void polls_server(int listener)
{
    say("listener: %s", names(await(listener, POLLIN | POLLOUT)));
    int fd = take_settled(listener);
    const int all = POLLIN | POLLPRI | POLLOUT | POLLRDHUP;
    struct pollfd one = {.fd = fd, .events = all};
    outcome("poll", poll(&one, 1, 0));
    say("idle: %s", names(one.revents));
    one.events = POLLIN;
    outcome("poll for bytes", poll(&one, 1, 0));
    outcome("poll for bytes, a moment", poll(&one, 1, 20));
    wish(fd, 5);
    say("bytes: %s", names(await(fd, POLLIN)));
    one.events = all;
    outcome("ppoll", ppoll(&one, 1, NULL, NULL));
    say("bytes: %s", names(one.revents));
    char bytes[5];
    MUST(read(fd, bytes, 2));
    say("after some of them: %s", names(await(fd, POLLIN)));
    MUST(read(fd, bytes, 3));
    one.events = POLLIN;
    outcome("after all of them, poll", poll(&one, 1, 0));
    wish(fd, 255);
    await_end(fd);
    one.events = all;
    outcome("poll", poll(&one, 1, 0));
    say("ended: %s", names(one.revents));
    MUST(shutdown(fd, SHUT_WR));
    while (!(await(fd, POLLIN) & POLLHUP))
        ;
    outcome("poll", poll(&one, 1, 0));
    say("ended by both: %s", names(one.revents));
    MUST(close(fd));
    outcome("poll", poll(&one, 1, 0));
    say("closed: %s", names(one.revents));
}

static void many_polled_server(int listener)
{
    int fd[3], ends[2];
    for (int at = 0; at < 3; at++)
        fd[at] = take_settled(listener);
    MUST(pipe(ends));
    struct pollfd all[7] = {{fd[0], POLLIN, 0}, {fd[1], POLLIN, 0}, {fd[2], POLLIN, 0},
        {ends[0], POLLIN, 0}, {-1, POLLIN, 7}, {800, POLLIN, 0}, {fd[1], POLLOUT, 0}};
    wish(fd[1], 1);
    await(fd[1], POLLIN);
    outcome("poll", poll(all, 7, -1));
    for (int at = 0; at < 7; at++)
        say("%d: %s", at, names(all[at].revents));
    MUST(write(ends[1], "x", 1));
    all[5].fd = -2;
    outcome("poll", poll(all, 6, LIMIT * 1000));
    for (int at = 0; at < 6; at++)
        say("%d: %s", at, names(all[at].revents));
    /* Something that only becomes ready during the call. */
    wish(fd[2], 1);
    all[1].fd = all[3].fd = -1;
    outcome("poll", poll(all, 4, LIMIT * 1000));
    for (int at = 0; at < 3; at++)
        MUST(close(fd[at]));
}

static void many_polled_client(int port)
{
    for (int at = 0; at < 3; at++)
        if (branch() == 0) {
            remote_client(port);
            _exit(0);
        }
    for (int at = 0; at < 3; at++)
        MUST(wait(NULL));
}

static void selects_server(int listener)
{
    int fd = take_settled(listener);
    fd_set in, out, other;
    struct timeval none = {0, 0}, long_time = {LIMIT, 0};
    struct timespec no_time = {0, 0};
    FD_ZERO(&in); FD_ZERO(&out); FD_ZERO(&other);
    FD_SET(fd, &in), FD_SET(fd, &out), FD_SET(fd, &other);
    outcome("select", select(fd + 1, &in, &out, &other, &none));
    say("in %d, out %d, other %d", !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out),
        !!FD_ISSET(fd, &other));
    wish(fd, 3);
    FD_ZERO(&in); FD_SET(fd, &in);
    outcome("select", select(fd + 1, &in, NULL, NULL, &long_time));
    say("in %d, time is left %d", !!FD_ISSET(fd, &in), long_time.tv_sec > 0);
    FD_ZERO(&in); FD_SET(fd, &in);
    outcome("pselect", pselect(fd + 1, &in, NULL, NULL, NULL, NULL));
    char bytes[3];
    read_all(fd, bytes, 3);
    FD_ZERO(&in); FD_SET(fd, &in); FD_SET(listener, &in);
    outcome("pselect", pselect(fd + 1, &in, NULL, NULL, &no_time, NULL));
    say("in %d", !!FD_ISSET(fd, &in));
    FD_ZERO(&in); FD_SET(fd, &in); FD_SET(listener, &in);
    wish(fd, 255);
    outcome("select", select(fd + 1, &in, NULL, NULL, NULL));
    say("in %d", !!FD_ISSET(fd, &in));
    MUST(close(fd));
    outcome("select", select(fd + 1, &in, NULL, NULL, &none));
}

/* --- epoll */

static void level_server(int listener)
{
    int fd = take_settled(listener), set = MUST(epoll_create1(EPOLL_CLOEXEC));
    char bytes[8];
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 0xfedcba9876543210);
    ready_now("idle", set);
    wish(fd, 5);
    becomes_ready("bytes", set);
    ready_now("again", set);
    MUST(read(fd, bytes, 2));
    ready_now("after some of them", set);
    MUST(read(fd, bytes, 3));
    ready_now("after all of them", set);
    control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, UINT64_MAX);
    for (int round = 0; round < 3; round++)
        ready_now("writable", set);
    control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 0);
    ready_now("not asked any more", set);
    wish(fd, 1);
    await(fd, POLLIN);
    control(set, EPOLL_CTL_DEL, fd, 0, 0);
    ready_now("deleted", set);
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 1);
    ready_now("added while ready", set);
    struct epoll_event event = {.events = EPOLLIN};
    outcome("ADD again", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    wish(fd, 255);
    await_end(fd);
    ready_now("ended", set);
    MUST(close(fd));
    ready_now("closed", set);
    outcome("MOD", epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    MUST(close(set));
}

static void edge_server(int listener)
{
    int fd = take_settled(listener), set = MUST(epoll_create(1));
    char bytes[200];
    set_nonblocking(fd, true);
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 2);
    ready_now("added", set);
    ready_now("again", set);
    wish(fd, 5);
    becomes_ready("bytes", set);
    ready_now("again", set);
    MUST(read(fd, bytes, 2));
    ready_now("some of them are left", set);
    wish(fd, 7);
    becomes_ready("more bytes", set);
    say("%zu bytes", read_all(fd, bytes, 10));
    outcome("read", read(fd, bytes, 1));
    ready_now("nothing is left", set);
    wish(fd, 1);
    await(fd, POLLIN);
    control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 3);
    ready_now("MOD while ready", set);
    ready_now("again", set);
    MUST(read(fd, bytes, 1));
    wish(fd, 255);
    await_end(fd);
    ready_now("ended", set);
    ready_now("again", set);
    MUST(close(fd));
    MUST(close(set));
}

static void one_shot_server(int listener)
{
    int fd = take_settled(listener), set = MUST(epoll_create1(0));
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 4);
    wish(fd, 1);
    becomes_ready("bytes", set);
    ready_now("disabled", set);
    wish(fd, 1);
    wish(fd, 255);
    await_end(fd);
    ready_now("still disabled", set);
    control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 5);
    ready_now("enabled", set);
    ready_now("disabled", set);
    MUST(close(set));
    MUST(close(fd));
}

/* The calls by which a set is waited for. */
static void waits_server(int listener)
{
    int fd = take_settled(listener), set = MUST(epoll_create1(0)), ends[2];
    struct epoll_event events[4];
    sigset_t none;
    sigemptyset(&none);
    struct timespec no_time = {0, 0}, moment = {0, 20000000};
    MUST(pipe(ends));
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 2);
    outcome("epoll_wait, a moment", epoll_wait(set, events, 4, 20));
    outcome("epoll_pwait", epoll_pwait(set, events, 4, 0, &none));
    outcome("epoll_pwait2", epoll_pwait2(set, events, 4, &no_time, &none));
    outcome("epoll_pwait2, a moment", epoll_pwait2(set, events, 4, &moment, NULL));
    wish(fd, 1);
    outcome("epoll_pwait2", epoll_pwait2(set, events, 4, NULL, NULL));
    outcome("epoll_pwait", epoll_pwait(set, events, 4, -1, NULL));
    MUST(write(ends[1], "x", 1));
    /* All that is ready is reported, not necessarily by one call. */
    uint64_t all = 0;
    while (all != 3) {
        int ready = MUST(epoll_wait(set, events, 4, -1));
        for (int at = 0; at < ready; at++)
            all |= events[at].data.u64;
    }
    say("both are ready");
    outcome("epoll_wait for none", epoll_wait(set, events, 0, 0));
    outcome("epoll_wait of no set", epoll_wait(fd, events, 1, 0));
    MUST(close(fd));
    MUST(close(set));
    outcome("epoll_wait of a closed set", epoll_wait(set, events, 1, 0));
}

/* Connects a socket that an epoll set has already, and exchanges three messages by it. */
static void connect_in(int set, int fd, int port)
{
    struct sockaddr_in address = loopback(port);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (connected < 0 && errno != EINPROGRESS)
        must("connect", connected);
    struct epoll_event event = {0};
    do
        MUST(epoll_wait(set, &event, 1, LIMIT * 1000));
    while (!(event.events & EPOLLOUT));
    say("connected: data %llx", (unsigned long long)event.data.u64);
    for (int request = 0; request < 3; request++) {
        MUST(write(fd, "request!", 8));
        char answer[16] = {0};
        size_t length = 0;
        while (length < 7) {
            do
                MUST(epoll_wait(set, &event, 1, LIMIT * 1000));
            while (!(event.events & EPOLLIN));
            ssize_t more;
            while ((more = read(fd, answer + length, sizeof answer - length)) > 0)
                length += more;
        }
        say("%zu bytes: %s", length, answer);
    }
    MUST(close(fd));
    MUST(close(set));
}

/* As nginx does: the registration is there before the connection is. The server keeps the
 * connection, since the end of it would wake the client as well. */
static void added_before_connect_client(int port)
{
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int set = MUST(epoll_create1(0));
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 0x123456789a);
    connect_in(set, fd, port);
}

/* The registration has changed, and moved to another set, before the connection is made. */
static void changed_before_connect_client(int port)
{
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int first = MUST(epoll_create1(0)), set = MUST(epoll_create1(0));
    control(first, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    control(first, EPOLL_CTL_DEL, fd, 0, 0);
    control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
    control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 0xba987654321);
    connect_in(set, fd, port);
    struct epoll_event event;
    say("the first set has %d", MUST(epoll_wait(first, &event, 1, 0)));
    MUST(close(first));
}

static void keeps_server(int listener)
{
    int fd = take(listener);
    char request[8];
    while (read_all(fd, request, 8) == 8)
        MUST(write(fd, "answer!", 7));
    say("the end");
    MUST(close(fd));
}

/* One line for what is ready, and stays so: a set that has another one may be ready for a moment
 * while the peer is in the midst of a call. */
static void comes_to_rest(const char *what, int set)
{
    struct epoll_event event = {0};
    int ready = 1;
    for (int attempt = 0; attempt < 20 && ready; attempt++) {
        ready = MUST(epoll_wait(set, &event, 1, 0));
        if (ready)
            usleep(1000);
    }
    say("%s: %s", what, ready ? names(event.events) : "nothing");
}

/* A set in a set, and a set that is polled. */
static void nested_server(int listener)
{
    int fd = take_settled(listener);
    int inner = MUST(epoll_create1(0)), outer = MUST(epoll_create1(0));
    control(inner, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2);
    comes_to_rest("outer", outer);
    wish(fd, 1);
    becomes_ready("outer", outer);
    say("polled: %s", names(await(inner, POLLIN)));
    becomes_ready("inner", inner);
    MUST(read(fd, &(char){0}, 1));
    ready_now("inner", inner);
    comes_to_rest("outer", outer);
    /* It becomes ready while a call waits for it. */
    wish(fd, 1);
    say("polled: %s", names(await(inner, POLLIN)));
    MUST(close(inner));
    MUST(close(outer));
    MUST(close(fd));
}

/* A set whose events are edges: a new one for what comes, in whichever thread the last was read. */
static void nested_edges_server(int listener)
{
    int fd = take_settled(listener);
    int inner = MUST(epoll_create1(0)), outer = MUST(epoll_create1(0));
    control(inner, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLET, 2);
    for (int round = 0; round < 20; round++) {
        comes_to_rest("outer", outer);
        wish(fd, 1);
        becomes_ready("outer", outer);
        if (round % 2 == 0)
            becomes_ready("inner", inner);
        MUST(read(fd, &(char){0}, 1));
    }
    comes_to_rest("outer", outer);
    wish(fd, 255);
    await_end(fd);
    becomes_ready("outer", outer);
    MUST(close(outer));
    MUST(close(inner));
    MUST(close(fd));
}

#define LEVELS 3

/* Sets that have each other before one of them has a connection, and are added by numbers that
 * others had. */
static void nested_early_server(int listener)
{
    int fd = take_settled(listener);
    for (int round = 0; round < 4; round++) {
        int sets[LEVELS];
        for (int at = 0; at < LEVELS; at++)
            sets[at] = MUST(epoll_create1(0));
        if (round > 1)
            control(sets[1], EPOLL_CTL_ADD, fd, EPOLLOUT, 9);
        for (int at = LEVELS - 1; at > 0; at--)
            control(sets[at], EPOLL_CTL_ADD, sets[at - 1], EPOLLIN, at);
        if (round > 1)
            control(sets[1], EPOLL_CTL_DEL, fd, 0, 0);
        if (round % 2 == 1)
            control(sets[0], EPOLL_CTL_ADD, fd, EPOLLIN, 7);
        else
            control(sets[0], EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 7);
        comes_to_rest("before", sets[LEVELS - 1]);
        wish(fd, 2);
        say("polled: %s", names(await(sets[LEVELS - 1], POLLIN)));
        for (int at = LEVELS - 1; at >= 0; at--)
            becomes_ready("set", sets[at]);
        comes_to_rest("once more", sets[LEVELS - 1]);
        MUST(read(fd, &(char){0}, 1));
        comes_to_rest("after one byte", sets[LEVELS - 1]);
        MUST(read(fd, &(char){0}, 1));
        comes_to_rest("after both", sets[LEVELS - 1]);
        comes_to_rest("the one within", sets[1]);
        for (int at = 0; at < LEVELS; at++)
            MUST(close(sets[(at + round) % LEVELS]));
    }
    MUST(close(fd));
}

/* Of two sets the outer one becomes the inner one. */
static void nested_turned_server(int listener)
{
    int fd = take_settled(listener);
    int one = MUST(epoll_create1(0)), other = MUST(epoll_create1(0));
    control(one, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    control(other, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
    control(one, EPOLL_CTL_ADD, other, EPOLLIN, 3);
    control(one, EPOLL_CTL_DEL, other, 0, 0);
    control(other, EPOLL_CTL_ADD, one, EPOLLIN, 4);
    ready_now("one", one);
    ready_now("other", other);
    control(other, EPOLL_CTL_DEL, fd, 0, 0);
    wish(fd, 1);
    becomes_ready("other", other);
    becomes_ready("one", one);
    MUST(close(other));
    MUST(close(one));
    MUST(close(fd));
}

static void set_closed_first_server(int listener)
{
    int fd = take_settled(listener);
    for (int round = 0; round < 3; round++) {
        int set = MUST(epoll_create1(0));
        control(set, EPOLL_CTL_ADD, fd, EPOLLIN, round);
        wish(fd, 1);
        becomes_ready("ready", set);
        MUST(close(set));
        MUST(read(fd, &(char){0}, 1));
    }
    MUST(close(fd));
    say("closed");
}

/* One connection in two sets, and two connections in one. */
static void several_sets_server(int listener)
{
    int fd = take_settled(listener), other = take_settled(listener);
    int first = MUST(epoll_create1(0)), second = MUST(epoll_create1(0));
    control(first, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    control(first, EPOLL_CTL_ADD, other, EPOLLIN, 2);
    control(second, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 3);
    int copy = MUST(dup(fd));
    control(first, EPOLL_CTL_ADD, copy, EPOLLOUT, 4);
    becomes_ready("the duplicate", first);
    control(first, EPOLL_CTL_DEL, copy, 0, 0);
    wish(fd, 1);
    becomes_ready("first set", first);
    becomes_ready("second set", second);
    MUST(read(fd, &(char){0}, 1));
    wish(other, 1);
    becomes_ready("first set", first);
    ready_now("second set", second);
    MUST(close(copy));
    MUST(close(fd));
    MUST(close(other));
    ready_now("first set", first);
}

static void two_clients(int port)
{
    pid_t child = branch();
    remote_client(port);
    if (child == 0)
        _exit(0);
    MUST(waitpid(child, NULL, 0));
}

/* A thread waits in a set to which another one adds, and in which it changes, connections. */
static void *waits_for_set(void *of)
{
    int *shared = of;
    __atomic_store_n(&shared[1], (int)gettid(), __ATOMIC_RELEASE);
    becomes_ready("in the thread", shared[0]);
    return NULL;
}

static void changed_while_waited_server(int listener)
{
    int fd = take_settled(listener), set = MUST(epoll_create1(0));
    for (int round = 0; round < 2; round++) {
        int shared[2] = {set, 0};
        pthread_t thread;
        wish(fd, 1);
        await(fd, POLLIN);
        pthread_create(&thread, NULL, waits_for_set, shared);
        while (__atomic_load_n(&shared[1], __ATOMIC_ACQUIRE) == 0)
            sched_yield();
        await_sleep(shared[1]);
        if (round == 0)
            control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 6);
        else
            control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 7);
        pthread_join(thread, NULL);
        control(set, EPOLL_CTL_MOD, fd, 0, 0);
        MUST(read(fd, &(char){0}, 1));
    }
    MUST(close(set));
    MUST(close(fd));
}

/* A writer that fills the stream waits for room, by each way of waiting. */
static void full_server(int listener)
{
    int fd = take(listener), set = MUST(epoll_create1(0));
    static unsigned char bytes[65536];
    await_peer(fd);
    set_nonblocking(fd, true);
    size_t sent = 0;
    ssize_t done;
    control(set, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 1);
    ready_now("empty", set);
    struct pollfd one = {fd, POLLOUT, 0};
    /* Until all buffers on the way are full, not only the first of them. */
    do {
        fill(bytes, sent, sizeof bytes);
        done = write(fd, bytes, sizeof bytes);
        sent += done > 0 ? done : 0;
    } while (done >= 0 || poll(&one, 1, 50) != 0);
    outcome("write", done);
    while (epoll_wait(set, &(struct epoll_event){0}, 1, 0) > 0)
        ;
    /* The client reads when this much of it is announced. */
    int way = take(listener);
    MUST(write(way, &sent, sizeof sent));
    becomes_ready("room", set);
    await(fd, POLLOUT);
    MUST(close(way));
    MUST(close(fd));
}

static void full_client(int port)
{
    int fd = dial(port), way = dial(port);
    size_t length;
    signal_peer(fd);
    read_all(way, &length, sizeof length);
    static unsigned char bytes[1 << 16];
    for (size_t from = 0; from < length;) {
        size_t size = length - from < sizeof bytes ? length - from : sizeof bytes;
        size = read_all(fd, bytes, size);
        judge(bytes, from, size);
        from += size;
    }
    expect_end(fd);
}

const struct test_case cases[] = {
    {"polls", polls_server, remote_client},
    {"many-polled", many_polled_server, many_polled_client},
    {"selects", selects_server, remote_client},
    {"level", level_server, remote_client},
    {"edge", edge_server, remote_client},
    {"one-shot", one_shot_server, remote_client},
    {"waits", waits_server, remote_client},
    {"added-before-connect", keeps_server, added_before_connect_client},
    {"changed-before-connect", keeps_server, changed_before_connect_client},
    {"nested", nested_server, remote_client},
    {"nested-edges", nested_edges_server, remote_client},
    {"nested-early", nested_early_server, remote_client},
    {"nested-turned", nested_turned_server, remote_client},
    {"set-closed-first", set_closed_first_server, remote_client},
    {"several-sets", several_sets_server, two_clients},
    {"changed-while-waited", changed_while_waited_server, remote_client},
    {"full", full_server, full_client},
    {NULL, NULL, NULL},
};
