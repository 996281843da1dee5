/* What broke prototypes of the library, beside what the other programs have: the numbers are those
 * of the list of traps that the design has. */
#include "case.h"
#include <sys/resource.h>

static void set_event(int set, int operation, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    MUST(epoll_ctl(set, operation, fd, &event));
}

/* --- 3: one side takes its time, and no deadline of the other decides alone */

static void late_server(int listener)
{
    int fds[3];
    for (int at = 0; at < 3; at++)
        fds[at] = take(listener);
    struct timespec moment = {.tv_nsec = 700000000};
    nanosleep(&moment, NULL);
    for (int at = 2; at >= 0; at--) {
        receive_pattern(fds[at], 3000);
        send_pattern(fds[at], 3000);
    }
    for (int at = 0; at < 3; at++)
        expect_end(fds[at]);
}

static void late_client(int port)
{
    int fds[3];
    for (int at = 0; at < 3; at++) {
        fds[at] = tcp();
        struct sockaddr_in address = loopback(port);
        if (at == 1)
            set_nonblocking(fds[at], true);
        if (connect(fds[at], (struct sockaddr *)&address, sizeof address) < 0 &&
            errno != EINPROGRESS)
            MUST(-1);
    }
    for (int at = 0; at < 3; at++)
        send_pattern(fds[at], 3000);
    for (int at = 0; at < 3; at++) {
        receive_pattern(fds[at], 3000);
        MUST(close(fds[at]));
    }
}

/* --- 11: connections are distinguished by themselves, not by their order */

#define MANY 60

static void any_order_server(int listener)
{
    int set = MUST(epoll_create1(0)), open = MANY;
    set_event(set, EPOLL_CTL_ADD, listener, EPOLLIN, listener);
    set_nonblocking(listener, true);
    while (open > 0) {
        struct epoll_event ready[4];
        int count = MUST(epoll_wait(set, ready, 4, LIMIT * 1000));
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.u64;
            if (fd == listener) {
                int new = accept(listener, NULL, NULL);
                if (new >= 0)
                    set_event(set, EPOLL_CTL_ADD, new, EPOLLIN, new);
                continue;
            }
            unsigned char name[2];
            ssize_t length = MUST(read(fd, name, sizeof name));
            if (length == 0) {
                MUST(close(fd));
                open--;
            } else {
                write_all(fd, name, length);
            }
        }
    }
    say("all have ended");
}

static void any_order_client(int port)
{
    int fds[MANY];
    for (int at = 0; at < MANY; at++) {
        fds[at] = tcp();
        set_nonblocking(fds[at], true);
        struct sockaddr_in address = loopback(port);
        if (connect(fds[at], (struct sockaddr *)&address, sizeof address) < 0 &&
            errno != EINPROGRESS)
            MUST(-1);
    }
    for (int at = MANY - 1; at >= 0; at--) {
        unsigned char name[2] = {at, ~at};
        await(fds[at], POLLOUT);
        write_all(fds[at], name, sizeof name);
    }
    for (int at = 0; at < MANY; at++) {
        unsigned char name[2];
        if (read_all(fds[at], name, 2) != 2 || name[0] != at || name[1] != (at ^ 0xff))
            say("connection %d has the bytes of another", at);
        MUST(close(fds[at]));
    }
    say("all have their own bytes");
}

/* --- 12: a server that starts again at its port, after it was killed */

static void restarted_server(int listener)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    for (int start = 0; start < 8; start++) {
        pid_t child = branch();
        if (child == 0) {
            int fd = take(listener);
            receive_pattern(fd, 700);
            send_pattern(fd, 700);
            if (start % 2)
                await_peer(fd);
            kill(getpid(), SIGKILL);
        }
        MUST(close(listener));
        int status;
        MUST(waitpid(child, &status, 0));
        say("killed by %d", WTERMSIG(status));
        int one = 1;
        listener = tcp();
        MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
        MUST(bind(listener, (struct sockaddr *)&address, length));
        MUST(listen(listener, 16));
    }
    int fd = take(listener);
    receive_pattern(fd, 700);
    send_pattern(fd, 700);
    expect_end(fd);
}

static void restarted_client(int port)
{
    signal(SIGPIPE, SIG_IGN);
    for (int start = 0; start < 9; start++) {
        int fd;
        struct sockaddr_in address = loopback(port);
        for (;;) {
            fd = tcp();
            if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
                break;
            MUST(close(fd));
            struct timespec moment = {.tv_nsec = 1000000};
            nanosleep(&moment, NULL);
        }
        /* One that the killed server has not accepted is reset. */
        unsigned char bytes[700];
        fill(bytes, 0, sizeof bytes);
        if (write(fd, bytes, sizeof bytes) != sizeof bytes) {
            MUST(close(fd));
            start--;
            continue;
        }
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
        if (got <= 0) {
            MUST(close(fd));
            start--;
            continue;
        }
        judge(bytes, 0, got);
        say("%zd bytes of start %d", got, start);
        if (start == 8) {
            MUST(close(fd));
            break;
        }
        if (start % 2)
            write(fd, "!", 1);
        ssize_t end = read(fd, bytes, 1);
        say("over: %d", end <= 0);
        MUST(close(fd));
    }
}

/* --- 13: what is left of a message is reported again, by level */

static void partial_server(int listener)
{
    int fd = take(listener), set = MUST(epoll_create1(0));
    set_event(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    struct epoll_event ready;
    int turns = 0;
    for (size_t at = 0; at < 1000; at++) {
        turns += MUST(epoll_wait(set, &ready, 1, LIMIT * 1000));
        unsigned char byte;
        MUST(read(fd, &byte, 1));
        judge(&byte, at, 1);
    }
    say("%d turns", turns);
    outcome("and then", epoll_wait(set, &ready, 1, 0));
    signal_peer(fd);
    expect_end(fd);
}

static void partial_client(int port)
{
    int fd = dial(port);
    send_pattern(fd, 1000);
    await_peer(fd);
    MUST(close(fd));
}

/* --- 14: a connection that can always be written to is reported for as long as that is asked */

static void writable_server(int listener)
{
    int fd = take(listener), set = MUST(epoll_create1(0));
    await_peer(fd);
    struct epoll_event ready;
    set_event(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 7);
    for (int round = 0; round < 100; round++) {
        if (MUST(epoll_wait(set, &ready, 1, 0)) != 1 || ready.events != EPOLLOUT)
            say("not writable");
        set_event(set, EPOLL_CTL_MOD, fd, EPOLLIN, 8);
        if (MUST(epoll_wait(set, &ready, 1, 0)) != 0)
            say("reported although that was not asked");
        set_event(set, EPOLL_CTL_MOD, fd, EPOLLOUT, 9);
        if (MUST(epoll_wait(set, &ready, 1, 0)) != 1 || ready.data.u64 != 9)
            say("not what was asked last");
        MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
        if (MUST(epoll_wait(set, &ready, 1, 0)) != 0)
            say("reported although it is not in the set");
        set_event(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 7);
    }
    signal_peer(fd);
    expect_end(fd);
}

static void writable_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    MUST(close(fd));
}

/* --- 15: programs use all bits of what they register */

static void all_bits_server(int listener)
{
    static const uint64_t datas[] = {
        0, 1, ~0ULL, 1ULL << 63, 0xfffffffffff00000, 0x80000000000fffff, 0xfffff, 0xdeadbeefcafef00d};
    enum { COUNT = sizeof datas / sizeof *datas };
    int way = welcome(listener), fds[COUNT], pipes[COUNT][2], set = MUST(epoll_create1(0));
    for (int at = 0; at < COUNT; at++) {
        fds[at] = welcome(listener);
        MUST(pipe(pipes[at]));
        set_event(set, EPOLL_CTL_ADD, fds[at], EPOLLIN, datas[at]);
        set_event(set, EPOLL_CTL_ADD, pipes[at][0], EPOLLIN, datas[at]);
    }
    for (int at = 0; at < COUNT; at++) {
        struct epoll_event ready[4];
        write_all(way, &(char){at}, 1);
        MUST(epoll_wait(set, ready, 4, LIMIT * 1000));
        say("of a connection: %d", ready[0].data.u64 == datas[at]);
        MUST(read(fds[at], &(char){0}, 1));
        write_all(pipes[at][1], "x", 1);
        MUST(epoll_wait(set, ready, 4, LIMIT * 1000));
        say("of a pipe: %d", ready[0].data.u64 == datas[at]);
        MUST(read(pipes[at][0], &(char){0}, 1));
    }
    signal_peer(way);
    expect_end(way);
}

static void all_bits_client(int port)
{
    int way = greet(port), fds[8];
    for (int at = 0; at < 8; at++)
        fds[at] = greet(port);
    for (int at = 0; at < 8; at++) {
        char which;
        read_all(way, &which, 1);
        write_all(fds[(int)which], "!", 1);
    }
    await_peer(way);
    MUST(close(way));
}

/* --- 12a and 16: many processes, each with its own beginning, at one server */

#define PEERS 24

static void many_peers_server(int listener)
{
    int set = MUST(epoll_create1(0)), open = PEERS, echoed = 0;
    set_event(set, EPOLL_CTL_ADD, listener, EPOLLIN, listener);
    while (open > 0) {
        struct epoll_event ready[8];
        int count = MUST(epoll_wait(set, ready, 8, LIMIT * 1000));
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.u64;
            if (fd == listener) {
                int new = take(listener);
                set_event(set, EPOLL_CTL_ADD, new, EPOLLIN, new);
                continue;
            }
            char bytes[64];
            ssize_t length = MUST(read(fd, bytes, sizeof bytes));
            if (length == 0) {
                MUST(close(fd));
                open--;
            } else {
                write_all(fd, bytes, length);
                echoed += length;
            }
        }
    }
    say("%d bytes of %d processes", echoed, PEERS);
}

static void many_peers_client(int port)
{
    for (int peer = 0; peer < PEERS; peer++)
        if (branch() == 0) {
            int fd = dial(port);
            for (int round = 0; round < 50; round++) {
                char byte = peer;
                write_all(fd, &byte, 1);
                if (read_all(fd, &byte, 1) != 1 || byte != peer)
                    _exit(1);
            }
            MUST(close(fd));
            _exit(0);
        }
    for (int peer = 0; peer < PEERS; peer++) {
        int status;
        MUST(wait(&status));
        if (status != 0)
            say("a process ended with %d", status);
    }
}

/* --- 17: waits that were long, then short, then long again */

static void uneven_server(int listener)
{
    int fd = take(listener);
    char byte;
    for (int round = 0; round < 3 * 220; round++) {
        MUST(read(fd, &byte, 1));
        if (round % 220 < 20) {
            struct timespec moment = {.tv_nsec = 2000000};
            nanosleep(&moment, NULL);
        }
        write_all(fd, &byte, 1);
    }
    expect_end(fd);
}

static void uneven_client(int port)
{
    int fd = dial(port);
    char byte;
    for (int round = 0; round < 3 * 220; round++) {
        byte = round;
        write_all(fd, &byte, 1);
        if (read_all(fd, &byte, 1) != 1 || byte != (char)round) {
            say("a wrong byte");
            exit(1);
        }
    }
    say("all came back");
    MUST(close(fd));
}

/* --- as many connections as fit below the limit, and a limit that cannot be raised */

static void limit(rlim_t soft, rlim_t hard)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = soft;
    limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void crowd_server(int listener, int size)
{
    int *fds = calloc(size, sizeof *fds);
    MUST(listen(listener, size));
    for (int at = 0; at < size; at++) {
        char byte;
        fds[at] = take(listener);
        if (read_all(fds[at], &byte, 1) != 1 || byte != (char)at)
            say("connection %d has a wrong byte", at);
    }
    say("%d connections", size);
    for (int at = 0; at < size; at++)
        write_all(fds[at], &(char){at + 1}, 1);
    for (int at = 0; at < size; at++)
        if (read(fds[at], &(char){0}, 1) != 0)
            say("connection %d does not end", at);
    free(fds);
}

static void crowd_client(int port, int size)
{
    int *fds = calloc(size, sizeof *fds);
    for (int at = 0; at < size; at++) {
        fds[at] = dial(port);
        write_all(fds[at], &(char){at}, 1);
    }
    for (int at = 0; at < size; at++) {
        char byte;
        if (read_all(fds[at], &byte, 1) != 1 || byte != (char)(at + 1))
            say("connection %d has a wrong byte", at);
    }
    for (int at = 0; at < size; at++)
        MUST(close(fds[at]));
    free(fds);
    say("%d connections", size);
}

static void thousand_server(int listener)
{
    limit(1200, RLIM_INFINITY);
    crowd_server(listener, 1100);
}

static void thousand_client(int port)
{
    limit(1200, RLIM_INFINITY);
    crowd_client(port, 1100);
}

static void narrow_server(int listener)
{
    limit(256, 256);
    crowd_server(listener, 150);
}

static void narrow_client(int port)
{
    limit(256, 256);
    crowd_client(port, 150);
}

const struct test_case cases[] = {
    {"late", late_server, late_client},
    {"any-order", any_order_server, any_order_client},
    {"restarted", restarted_server, restarted_client},
    {"partial", partial_server, partial_client},
    {"writable", writable_server, writable_client},
    {"all-bits", all_bits_server, all_bits_client},
    {"many-peers", many_peers_server, many_peers_client},
    {"uneven", uneven_server, uneven_client},
    {"thousand", thousand_server, thousand_client},
    {"narrow", narrow_server, narrow_client},
    {NULL, NULL, NULL},
};
