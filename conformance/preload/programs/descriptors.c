/* What happens to the descriptor: duplicates, closing, limits, passing on. */
#include "case.h"
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

extern char **environ;

/* --- duplicates: the connection lives as long as one of them */

static void duplicates_server(int listener)
{
    int fd = take(listener);
    int copy = MUST(dup(fd));
    MUST(close(fd));
    await_peer(copy);
    int second = MUST(dup2(copy, copy + 5));
    MUST(close(copy));
    await_peer(second);
    int third = MUST(dup3(second, second + 5, O_CLOEXEC));
    say("FD_CLOEXEC %d", MUST(fcntl(third, F_GETFD)));
    MUST(close(second));
    await_peer(third);
    int fourth = MUST(fcntl(third, F_DUPFD, 100));
    say("at least 100: %d", fourth >= 100);
    MUST(close(third));
    await_peer(fourth);
    int fifth = MUST(fcntl(fourth, F_DUPFD_CLOEXEC, 200));
    say("at least 200: %d, FD_CLOEXEC %d", fifth >= 200, MUST(fcntl(fifth, F_GETFD)));
    MUST(close(fourth));
    await_peer(fifth);
    outcome("dup2 to itself", dup2(fifth, fifth) - fifth);
    outcome("dup3 to itself", dup3(fifth, fifth, 0));
    outcome("dup of none", dup(fourth));
    outcome("dup2 of none", dup2(fourth, fifth));
    write_all(fifth, "still here", 10);
    expect_end(fifth);
}

static void duplicates_client(int port)
{
    int fd = dial(port);
    for (int copies = 0; copies < 5; copies++)
        signal_peer(fd);
    char text[11] = {0};
    say("%zu bytes: %s", read_all(fd, text, 10), text);
    MUST(close(fd));
}

/* Flags are of the open file, not of the number. */
static void flags_of_duplicates_server(int listener)
{
    int fd = take(listener), copy = MUST(dup(fd));
    char byte;
    set_nonblocking(copy, true);
    outcome("read of the other one", read(fd, &byte, 1));
    set_nonblocking(fd, false);
    say("O_NONBLOCK %d", !!(fcntl(copy, F_GETFL) & O_NONBLOCK));
    MUST(shutdown(copy, SHUT_WR));
    signal(SIGPIPE, SIG_IGN);
    outcome("write of the other one", write(fd, "x", 1));
    MUST(close(copy));
    expect_end(fd);
}

static void flags_of_duplicates_client(int port)
{
    expect_end(dial(port));
}

/* Java closes by dup2 of something else over the descriptor. */
static void closed_by_dup2_server(int listener)
{
    int fd = take(listener), null = MUST(open("/dev/null", O_RDWR));
    await_peer(fd);
    MUST(dup2(null, fd));
    outcome("read of what is there now", read(fd, &(char){0}, 1));
    outcome("shutdown of what is there now", shutdown(fd, SHUT_RDWR));
    /* The number may be a connection again. */
    int again = take(listener);
    MUST(dup2(again, fd));
    MUST(close(again));
    echo(fd, fd);
    MUST(close(fd));
}

static void closed_by_dup2_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    expect_end(fd);
    echo_client(port);
}

/* Programs expect the lowest free number, and that nothing else is where they close. */
static void numbers_server(int listener)
{
    int first = welcome(listener), second = welcome(listener);
    say("accepted next to each other: %d", second - first);
    MUST(close(first));
    int file = MUST(open("/dev/null", O_RDONLY));
    say("the freed number is taken: %d", file - first);
    MUST(close(file));
    int third = welcome(listener);
    say("and by a connection: %d", third - first);
    MUST(close(third));
    expect_end(second);
}

static void numbers_client(int port)
{
    int first = greet(port), second = greet(port), third = greet(port);
    say("connected next to each other: %d %d", second - first, third - first);
    expect_end(first);
    expect_end(third);
    MUST(close(second));
}

/* Daemons close all that they do not know. */
static void closed_range_server(int listener)
{
    int fd = welcome(listener), other = welcome(listener);
    int high = MUST(dup2(fd, 50));
    MUST(close(fd));
    await_peer(high);
    outcome("close_range on exec", close_range(50, 50, CLOSE_RANGE_CLOEXEC));
    say("FD_CLOEXEC %d", fcntl(high, F_GETFD));
    outcome("close_range", close_range(40, ~0U, 0));
    outcome("read of the closed one", read(high, &(char){0}, 1));
    for (int number = 100; number < 1024; number++)
        if (close(number) == 0)
            say("a number the program never had was open");
    echo(other, other);
    MUST(close(other));
    int third = take(listener);
    closefrom(third);
    outcome("read after closefrom", read(third, &(char){0}, 1));
}

static void closed_range_client(int port)
{
    int fd = greet(port), other = greet(port);
    signal_peer(fd);
    expect_end(fd);
    send_pattern(other, 5000);
    receive_pattern(other, 5000);
    MUST(close(other));
    expect_end(dial(port));
}

/* --- half-close and close */

static void shutdowns_server(int listener)
{
    signal(SIGPIPE, SIG_IGN);
    int fd = take(listener);
    receive_pattern(fd, 500);
    outcome("read at the end", read(fd, &(char){0}, 1));
    send_pattern(fd, 700);
    outcome("shutdown", shutdown(fd, SHUT_WR));
    outcome("write after it", write(fd, "x", 1));
    MUST(close(fd));

    fd = take(listener);
    outcome("shutdown of receiving", shutdown(fd, SHUT_RD));
    outcome("read after it", read(fd, &(char){0}, 1));
    outcome("write after it", write(fd, "ab", 2));
    expect_end(fd);

    fd = take(listener);
    outcome("shutdown of both", shutdown(fd, SHUT_RDWR));
    outcome("read after it", read(fd, &(char){0}, 1));
    outcome("write after it", write(fd, "x", 1));
    MUST(close(fd));
}

static void shutdowns_client(int port)
{
    int fd = dial(port);
    send_pattern(fd, 500);
    MUST(shutdown(fd, SHUT_WR));
    receive_pattern(fd, 700);
    expect_end(fd);
    fd = dial(port);
    char two[2];
    say("%zu bytes", read_all(fd, two, 2));
    MUST(close(fd));
    expect_end(dial(port));
}

/* --- the limit of descriptors is the program's */

static void limit_server(int listener)
{
    struct rlimit before, after;
    MUST(getrlimit(RLIMIT_NOFILE, &before));
    struct rlimit lower = {.rlim_cur = 64, .rlim_max = before.rlim_max};
    MUST(setrlimit(RLIMIT_NOFILE, &lower));
    MUST(getrlimit(RLIMIT_NOFILE, &after));
    say("soft limit %ld, hard limit the same: %d", (long)after.rlim_cur,
        after.rlim_max == before.rlim_max);
    int fd = take(listener), last = fd, next;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    outcome("dup at the limit", next);
    say("the last number is %d", last);
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
}

static void limit_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    MUST(close(fd));
}

/* The program has all numbers below its limit, and sees none above. */
#define MANY 30

static void own_limit(rlim_t soft)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = soft;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void limits_server(int listener)
{
    /* Whatever this process has inherited. */
    closefrom(listener + 1);
    own_limit(64);
    int fds[MANY];
    for (int at = 0; at < MANY; at++) {
        fds[at] = welcome(listener);
        say("accepted next to each other: %d", fds[at] - fds[0] == at);
    }
    for (int number = 64; number < 20000; number++) {
        if (fcntl(number, F_GETFD) >= 0)
            say("a number above the limit is open");
        if (close(number) == 0)
            say("a number above the limit could be closed");
    }
    outcome("dup2 above the limit", dup2(fds[0], 64));
    outcome("F_DUPFD above the limit", fcntl(fds[0], F_DUPFD, 64));
    int next, last = -1;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    outcome("dup at the limit", next);
    say("the last number is %d", last);
    outcome("accept at the limit", accept(listener, NULL, NULL));
    MUST(close(last));
    int another = take(listener);
    say("accepted at the last number: %d", another == last);
    await_peer(another);
    for (int at = 0; at < MANY; at++)
        signal_peer(fds[at]);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    say("getrlimit: %d", (int)limit.rlim_cur);
    MUST(prlimit(0, RLIMIT_NOFILE, NULL, &limit));
    say("prlimit: %d", (int)limit.rlim_cur);
    say("sysconf: %ld", sysconf(_SC_OPEN_MAX));
    pid_t child = branch();
    if (child == 0) {
        closefrom(listener);
        execlp("sh", "sh", "-c", "ulimit -Sn", NULL);
        _exit(127);
    }
    await_child("the shell", child);
    signal_peer(another);
    expect_end(another);
    for (int at = 0; at < MANY; at++)
        expect_end(fds[at]);
}

static void limits_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    own_limit(40);
    int fds[MANY];
    for (int at = 0; at < MANY; at++) {
        fds[at] = greet(port);
        say("connected next to each other: %d", fds[at] - fds[0] == at);
    }
    int another = dial(port);
    signal_peer(another);
    for (int at = 0; at < MANY; at++)
        await_peer(fds[at]);
    await_peer(another);
    MUST(close(another));
    for (int at = 0; at < MANY; at++)
        MUST(close(fds[at]));
}

/* A process that may have so few numbers that it counts them has all of them. */
#define FEW 32

static void counted_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    struct rlimit few = {.rlim_cur = FEW, .rlim_max = FEW};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    int own = tcp();
    MUST(listen(own, 1));
    int next, last = -1;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    say("the last number is %d", last);
    outcome("close", close(last));
    echo_client(port);
}

/* It has them from then on if it is to have so few only when the library knows connections. */
static void lowered_server(int listener)
{
    one_echo_server(listener);
    one_echo_server(listener);
}

static void lowered_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    echo_client(port);
    struct rlimit few = {.rlim_cur = FEW, .rlim_max = FEW};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    int fd = greet(port), count = 0;
    /* The library has whatever it needs for a connection by now. */
    await_peer(fd);
    while (dup(STDERR_FILENO) >= 0)
        count++;
    say("%d descriptors are left", count);
    MUST(close(fd));
}

/* Programs that are executed with their arguments one by one, more than registers hold. */
static void executed_server(int listener)
{
    int fd = take(listener);
    char *environment[] = {"GREETING=hello", NULL};
    for (int which = 0; which < 3; which++) {
        pid_t child = branch();
        if (child == 0) {
            dup2(fd, STDIN_FILENO);
            const char *text = "read line; echo $line $GREETING $# $9";
            if (which == 0)
                execl("/bin/sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8",
                    "9", NULL);
            else if (which == 1)
                execlp("sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8", "nine",
                    NULL);
            else
                execle("/bin/sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8",
                    "last", NULL, environment);
            _exit(127);
        }
        await_child("the shell", child);
        MUST(close(fd));
        fd = take(listener);
    }
    outcome("execl of none", execl("/nowhere", "nowhere", NULL));
    expect_end(fd);
}

static void executed_client(int port)
{
    for (int which = 0; which < 3; which++) {
        int fd = dial(port);
        write_all(fd, "line\n", 5);
        expect_end(fd);
    }
    MUST(close(dial(port)));
}

/* --- what it is */

static void kind_server(int listener)
{
    int fd = take(listener);
    struct stat status;
    MUST(fstat(fd, &status));
    say("fstat: a socket %d", S_ISSOCK(status.st_mode));
    MUST(fstatat(fd, "", &status, AT_EMPTY_PATH));
    say("fstatat: a socket %d", S_ISSOCK(status.st_mode));
    say("isatty %d", isatty(fd));
    char path[64], link[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, link, sizeof link - 1));
    say("%.7s", link);
    say("flags %x", MUST(fcntl(fd, F_GETFL)) & (O_ACCMODE | O_NONBLOCK | O_APPEND));
    say("FD_CLOEXEC %d", MUST(fcntl(fd, F_GETFD)));
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    say("FD_CLOEXEC %d", MUST(fcntl(fd, F_GETFD)));
    say("owner %d", MUST(fcntl(fd, F_GETOWN)));
    expect_end(fd);
}

static void kind_client(int port)
{
    MUST(close(dial(port)));
}

/* --- a socket handed to another process over a Unix socket */

static long pass(int way, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(way, &message, MSG_NOSIGNAL);
}

static int passed(int way)
{
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control};
    if (recvmsg(way, &message, 0) > 0 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Refused over SMC: EINVAL, and the connection goes on where it was. */
static void passed_on_server(int listener)
{
    int fd = take(listener), ends[2];
    await_peer(fd);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = branch();
    if (child == 0) {
        MUST(close(ends[0]));
        MUST(close(fd));
        int own = passed(ends[1]);
        if (own >= 0)
            echo(own, own);
        _exit(own < 0);
    }
    MUST(close(ends[1]));
    long sent = pass(ends[0], fd);
    MUST(close(ends[0]));
    if (sent < 0) {
        outcome("sendmsg of a connection", sent);
        echo(fd, fd);
    } else {
        say("passed on");
    }
    MUST(close(fd));
    MUST(waitpid(child, NULL, 0));
}

static void passed_on_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    send_pattern(fd, 5000);
    receive_pattern(fd, 5000);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

/* Anything but a connection is passed on as ever. */
static void pipe_passed_server(int listener)
{
    int fd = take(listener), ends[2], way[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, way));
    MUST(pipe(ends));
    outcome("sendmsg of a pipe", pass(way[0], ends[1]));
    int copy = MUST(passed(way[1]));
    outcome("write to it", write(copy, "x", 1));
    outcome("sendmsg of a listener", pass(way[0], listener));
    MUST(close(MUST(passed(way[1]))));
    expect_end(fd);
}

const struct test_case cases[] = {
    {"duplicates", duplicates_server, duplicates_client},
    {"flags-of-duplicates", flags_of_duplicates_server, flags_of_duplicates_client},
    {"closed-by-dup2", closed_by_dup2_server, closed_by_dup2_client},
    {"numbers", numbers_server, numbers_client},
    {"closed-range", closed_range_server, closed_range_client},
    {"shutdowns", shutdowns_server, shutdowns_client},
    {"limit", limit_server, limit_client},
    {"limits", limits_server, limits_client},
    {"counted", one_echo_server, counted_client},
    {"lowered", lowered_server, lowered_client},
    {"executed", executed_server, executed_client},
    {"kind", kind_server, kind_client},
    {"passed-on", passed_on_server, passed_on_client},
    {"pipe-passed", pipe_passed_server, kind_client},
    {NULL, NULL, NULL},
};
