/* What every test program shares: two roles, a transcript, waits that end.
 *
 * A program has cases, each with a server and a client, which are processes of their own:
 *
 *   PROGRAM list                   the names of the cases, one a line
 *   PROGRAM CASE server            prints "port N" and serves
 *   PROGRAM CASE client PORT       connects to it
 *
 * Each line that a role prints is part of its transcript. A transcript has nothing that
 * differs from run to run: no port, no process ID, no number of a call that may be split.
 * Roles wait for each other by bytes of the connection, never by time, and an alarm ends
 * one that waits for ever. */
#ifndef CASE_H
#define CASE_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after which a role that still waits is ended, by SIGALRM. */
#define LIMIT 90

struct test_case {
    const char *name;
    void (*server)(int listener);
    void (*client)(int port);
};

/* A line of the transcript. Not by stdio, whose buffer a child would inherit. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    char line[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length > (int)sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\n';
    if (write(STDOUT_FILENO, line, length + 1) != length + 1)
        _exit(97);
}

/* A line with the outcome of a call: its value, or the name of its error. */
__attribute__((unused)) static long outcome(const char *call, long value)
{
    int error = errno;
    if (value < 0)
        say("%s: %s", call, strerrorname_np(error));
    else
        say("%s = %ld", call, value);
    errno = error;
    return value;
}

/* A line with whether a call succeeded, or the name of its error. */
__attribute__((unused)) static long succeeds(const char *call, long value)
{
    int error = errno;
    if (value < 0)
        say("%s: %s", call, strerrorname_np(error));
    else
        say("%s succeeds", call);
    errno = error;
    return value;
}

/* Ends the role with a line if what a case builds on does not hold. */
__attribute__((unused)) static int must(const char *call, long value)
{
    if (value < 0) {
        say("cannot go on: %s: %s", call, strerrorname_np(errno));
        exit(1);
    }
    return value;
}
#define MUST(call) must(#call, (call))

/* The byte at a position of the pattern that bulk data has. */
static inline unsigned char pattern(size_t at)
{
    return (unsigned char)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

__attribute__((unused)) static void fill(unsigned char *to, size_t from, size_t length)
{
    for (size_t at = 0; at < length; at++)
        to[at] = pattern(from + at);
}

/* Says that the bytes are those of the pattern, or which one is not. */
__attribute__((unused)) static void judge(const unsigned char *bytes, size_t from, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != pattern(from + at)) {
            say("byte %zu of the pattern is wrong", from + at);
            exit(1);
        }
}

/* Waits until a descriptor is ready for these events, and returns those it is. */
__attribute__((unused)) static int await(int fd, int events)
{
    struct pollfd one = {.fd = fd, .events = events};
    int ready;
    do
        ready = poll(&one, 1, LIMIT * 1000);
    while (ready < 0 && errno == EINTR);
    must("poll", ready);
    return one.revents;
}

__attribute__((unused)) static void write_all(int fd, const void *from, size_t length)
{
    const char *at = from;
    while (length > 0) {
        ssize_t done = write(fd, at, length);
        if (done < 0 && errno == EAGAIN) {
            await(fd, POLLOUT);
            continue;
        }
        must("write", done);
        at += done;
        length -= done;
    }
}

/* Reads until there are so many bytes, or the stream ends; returns how many there are. */
__attribute__((unused)) static size_t read_all(int fd, void *to, size_t length)
{
    char *at = to;
    size_t left = length;
    while (left > 0) {
        ssize_t done = read(fd, at, left);
        if (done < 0 && errno == EAGAIN) {
            await(fd, POLLIN);
            continue;
        }
        must("read", done);
        if (done == 0)
            break;
        at += done;
        left -= done;
    }
    return length - left;
}

/* Sends bytes of the pattern. */
__attribute__((unused)) static void send_pattern(int fd, size_t length)
{
    unsigned char part[16384];
    for (size_t from = 0; from < length; from += sizeof part) {
        size_t size = length - from < sizeof part ? length - from : sizeof part;
        fill(part, from, size);
        write_all(fd, part, size);
    }
}

/* Receives bytes of the pattern, and says so. */
__attribute__((unused)) static void receive_pattern(int fd, size_t length)
{
    unsigned char part[16384];
    for (size_t from = 0; from < length;) {
        size_t size = length - from < sizeof part ? length - from : sizeof part;
        size = read_all(fd, part, size);
        if (size == 0) {
            say("the stream ends after %zu of %zu bytes", from, length);
            exit(1);
        }
        judge(part, from, size);
        from += size;
    }
    say("%zu bytes of the pattern", length);
}

/* Sends one byte, for which the other role waits. */
__attribute__((unused)) static void signal_peer(int fd)
{
    write_all(fd, "!", 1);
}

__attribute__((unused)) static void await_peer(int fd)
{
    char byte = 0;
    if (read_all(fd, &byte, 1) != 1 || byte != '!') {
        say("the peer does not signal");
        exit(1);
    }
}

/* Says what is left until the stream ends, and closes. */
__attribute__((unused)) static void expect_end(int fd)
{
    char rest[64];
    size_t length = read_all(fd, rest, sizeof rest);
    if (length > 0)
        say("%zu bytes, then the end", length);
    else
        say("the end");
    must("close", close(fd));
}

__attribute__((unused)) static void set_nonblocking(int fd, bool nonblocking)
{
    int flags = MUST(fcntl(fd, F_GETFL));
    flags = nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    MUST(fcntl(fd, F_SETFL, flags));
}

__attribute__((unused)) static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

__attribute__((unused)) static int tcp(void)
{
    return MUST(socket(AF_INET, SOCK_STREAM, 0));
}

__attribute__((unused)) static int dial(int port)
{
    int fd = tcp();
    struct sockaddr_in address = loopback(port);
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

__attribute__((unused)) static int take(int listener)
{
    return MUST(accept(listener, NULL, NULL));
}

/* Connects, and is accepted: what carries the connection is decided when the server uses it. */
__attribute__((unused)) static int greet(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    return fd;
}

__attribute__((unused)) static int welcome(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    return fd;
}

/* Nothing refers to some memory of this process: a child has a copy of what its parent's other
 * threads own, and a handler that jumps leaves what the call had that it jumps out of. */
static bool has_left_memory;

/* Asked by the leak sanitizer. */
__attribute__((unused)) int __lsan_is_turned_off(void)
{
    return has_left_memory;
}

/* A child, which does not inherit the alarm. */
__attribute__((unused)) static pid_t branch(void)
{
    pid_t child = must("fork", fork());
    if (child == 0) {
        has_left_memory = true;
        alarm(LIMIT);
    }
    return child;
}

/* Stops this child until its parent has it go on. A parent that ends ends it as well: it has the
 * parent's standard output, which would stay open. */
__attribute__((unused)) static void stop(void)
{
    MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
    raise(SIGSTOP);
}

/* Waits until a child has stopped itself. One that ends instead has not done what the other role waits
 * for: this role ends with a line, not by the alarm. */
__attribute__((unused)) static void await_stop(pid_t child)
{
    int status;
    must("waitpid", waitpid(child, &status, WUNTRACED));
    if (!WIFSTOPPED(status)) {
        say("cannot go on: a child ends with %x", status);
        exit(1);
    }
}

/* Waits until a thread of this process sleeps, so that a call it began waits. */
__attribute__((unused)) static void await_sleep(pid_t thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    for (;;) {
        int file = MUST(open(path, O_RDONLY | O_CLOEXEC));
        ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        text[length < 0 ? 0 : length] = 0;
        char *end = strrchr(text, ')');
        if (end != NULL && end[2] == 'S')
            return;
        struct timespec moment = {.tv_nsec = 1000000};
        nanosleep(&moment, NULL);
    }
}

extern const struct test_case cases[];

static int run_case(const struct test_case *of, int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "server") == 0) {
        int listener = tcp(), one = 1;
        MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
        struct sockaddr_in address = loopback(0);
        socklen_t length = sizeof address;
        MUST(bind(listener, (struct sockaddr *)&address, length));
        /* Room for all clients of a case: one that finds none begins again after a second only. */
        MUST(listen(listener, 128));
        MUST(getsockname(listener, (struct sockaddr *)&address, &length));
        say("port %d", ntohs(address.sin_port));
        of->server(listener);
        return 0;
    }
    if (argc == 4 && strcmp(argv[2], "client") == 0) {
        of->client(atoi(argv[3]));
        return 0;
    }
    return 2;
}

/* Waits for a child, and says how it ended. */
__attribute__((unused)) static void await_child(const char *name, pid_t child)
{
    int status;
    MUST(waitpid(child, &status, 0));
    say("%s ended with %d", name, status);
}

/* Echoes what comes until the stream ends. */
__attribute__((unused)) static void echo(int from, int to)
{
    char bytes[4096];
    ssize_t length;
    while ((length = must("read", read(from, bytes, sizeof bytes))) > 0)
        write_all(to, bytes, length);
}

__attribute__((unused)) static void expect_echo(int fd)
{
    send_pattern(fd, 5000);
    receive_pattern(fd, 5000);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

__attribute__((unused)) static void echo_client(int port)
{
    expect_echo(dial(port));
}

/* Accepts a connection and echoes. */
__attribute__((unused)) static void one_echo_server(int listener)
{
    int fd = take(listener);
    echo(fd, fd);
    MUST(close(fd));
}

int main(int argc, char **argv)
{
    alarm(LIMIT);
    bool lists = argc == 2 && strcmp(argv[1], "list") == 0;
    for (const struct test_case *of = cases; of->name != NULL; of++) {
        if (lists)
            say("%s", of->name);
        else if (argc > 2 && strcmp(argv[1], of->name) == 0)
            return run_case(of, argc, argv);
    }
    return lists ? 0 : 2;
}

#endif
