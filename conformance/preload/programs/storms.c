/* Storms: many connections, threads, children and requests at a time. STORM in the environment makes
 * them as long as the campaign has them (storms.py), which also reads what they print as errors. */
#include "case.h"
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/time.h>

/* So many by default, and in the campaign. */
static long scaled(long few, long many)
{
    return getenv("STORM") != NULL ? many : few;
}

/* A value that the campaign sets. */
static long value_of(const char *name, long otherwise)
{
    const char *value = getenv(name);
    return value == NULL ? otherwise : atol(value);
}

/* The campaign has limits of its own. */
static void wait_longer(void)
{
    if (getenv("STORM") != NULL)
        alarm(0);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* An echo of bytes of the pattern, without a line. */
static void exchange(int fd, size_t from, size_t length)
{
    unsigned char bytes[4096];
    fill(bytes, from, length);
    write_all(fd, bytes, length);
    memset(bytes, 0, length);
    if (read_all(fd, bytes, length) != length) {
        say("an echo is short");
        exit(1);
    }
    judge(bytes, from, length);
}

static void echo_all(int fd)
{
    char bytes[4096];
    ssize_t length;
    while ((length = read(fd, bytes, sizeof bytes)) > 0)
        write_all(fd, bytes, length);
    must("read", length);
}

static void in_threads(int count, void *(*routine)(void *), void *of)
{
    pthread_t threads[count];
    for (int at = 0; at < count; at++)
        must("pthread_create", -pthread_create(&threads[at], NULL, routine, of));
    for (int at = 0; at < count; at++)
        must("pthread_join", -pthread_join(threads[at], NULL));
    say("%d threads have ended", count);
}

static int dialled_port;

/* --- many threads that open and close */

#define THREADS 64

static void *opens(void *unused)
{
    for (long round = 0; round < scaled(4, 400); round++) {
        int fd = dial(dialled_port);
        exchange(fd, round, 300);
        MUST(close(fd));
    }
    return NULL;
}

static void *echoes(void *listener)
{
    for (long round = 0; round < scaled(4, 400); round++) {
        int fd = take(*(int *)listener);
        echo_all(fd);
        MUST(close(fd));
    }
    return NULL;
}

static void many_threads_server(int listener)
{
    wait_longer();
    MUST(listen(listener, THREADS));
    in_threads(THREADS, echoes, &listener);
}

static void many_threads_client(int port)
{
    wait_longer();
    dialled_port = port;
    in_threads(THREADS, opens, NULL);
}

/* --- children: each connection is a child's, another child executes a program, and the process has
 * a connection of its own meanwhile */

#define CHILDREN 16

static void reap(int *children, int most)
{
    while (*children > most) {
        int status;
        MUST(wait(&status));
        if (status != 0) {
            say("a child ends with %x", status);
            exit(1);
        }
        (*children)--;
    }
}

static void forks_server(int listener)
{
    wait_longer();
    MUST(listen(listener, CHILDREN));
    int own = take(listener), children = 0;
    for (long at = 0; at < scaled(60, 5000); at++) {
        int fd = take(listener);
        pid_t child = branch();
        if (child == 0) {
            MUST(close(own));
            echo_all(fd);
            _exit(0);
        }
        MUST(close(fd));
        children++;
        if (at % 4 == 0) {
            child = at % 8 == 0 ? branch() : must("vfork", vfork());
            if (child == 0) {
                execl("/bin/true", "true", NULL);
                _exit(127);
            }
            children++;
        }
        reap(&children, CHILDREN);
        char bytes[100];
        read_all(own, bytes, sizeof bytes);
        write_all(own, bytes, sizeof bytes);
    }
    reap(&children, 0);
    expect_end(own);
}

static void forks_client(int port)
{
    wait_longer();
    int own = dial(port), kept[CHILDREN] = {0};
    for (long at = 0; at < scaled(60, 5000); at++) {
        int *fd = &kept[at % CHILDREN];
        if (*fd > 0)
            MUST(close(*fd));
        *fd = dial(port);
        exchange(*fd, at, 3000);
        exchange(own, at, 100);
    }
    for (int at = 0; at < CHILDREN; at++)
        MUST(close(kept[at]));
    MUST(close(own));
    say("the storm is over");
}

/* --- many connections at a time */

static void all_descriptors(void)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

/* Echoes what connections send, until so many have ended; with none, until there is none left. */
static void serve(int listener, long expected)
{
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event ready[64] = {{.events = EPOLLIN, .data.fd = listener}};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, ready));
    long accepted = 0, ended = 0;
    while (expected > 0 ? ended < expected : ended < accepted || accepted == 0) {
        int count = epoll_wait(set, ready, 64, -1);
        if (count < 0 && errno == EINTR)
            continue;
        must("epoll_wait", count);
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.fd;
            if (fd == listener) {
                int new = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (new < 0 && (errno == EAGAIN || errno == EMFILE))
                    continue;
                struct epoll_event event = {.events = EPOLLIN, .data.fd = must("accept4", new)};
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, new, &event));
                accepted++;
                continue;
            }
            char bytes[4096];
            ssize_t length = read(fd, bytes, sizeof bytes);
            if (length > 0) {
                write_all(fd, bytes, length);
            } else if (length == 0 || errno != EAGAIN) {
                must("read", length);
                MUST(close(fd));
                ended++;
            }
        }
    }
    MUST(close(set));
}

static void serve_connections(int listener, long expected)
{
    MUST(listen(listener, 1024));
    set_nonblocking(listener, true);
    serve(listener, expected);
    say("%ld connections have ended", expected);
}

static void hold_connections(int port, long count)
{
    int *fds = calloc(count, sizeof *fds);
    for (long at = 0; at < count; at++) {
        fds[at] = dial(port);
        exchange(fds[at], at, 64);
    }
    for (int round = 0; round < 3; round++)
        for (long at = 0; at < count; at++)
            exchange(fds[at], at + round, 1000);
    for (long at = 0; at < count; at++)
        MUST(close(fds[at]));
    free(fds);
    say("%ld connections", count);
}

static void many_server(int listener)
{
    wait_longer();
    all_descriptors();
    serve_connections(listener, scaled(300, 10000));
}

static void many_client(int port)
{
    wait_longer();
    all_descriptors();
    hold_connections(port, scaled(300, 10000));
}

/* --- 256 descriptors and no more, of which the library has its part */

static void at_most_256(void)
{
    struct rlimit limit = {.rlim_cur = 256, .rlim_max = 256};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void of_256_server(int listener)
{
    closefrom(listener + 1);
    at_most_256();
    serve_connections(listener, 3 * 150);
}

static void of_256_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    at_most_256();
    for (int round = 0; round < 3; round++)
        hold_connections(port, 150);
}

/* --- requests over connections that stay, beside others that come and go */

#define STAYING 4
#define PASSING 2
/* A pause that is reported, in seconds. */
#define PAUSE 0.1

static _Atomic long requests;
static _Atomic int are_over;
static _Atomic long passed_by;
/* In microseconds: the longest pause of a request, and the longest time by which a thread that sleeps
 * was late. */
static _Atomic long longest, latest;
static _Atomic long pauses;

static void at_least(_Atomic long *at, long value)
{
    long before = atomic_load(at);
    while (before < value && !atomic_compare_exchange_weak(at, &before, value))
        ;
}

static void *stays(void *unused)
{
    int fd = dial(dialled_port);
    size_t at = 0;
    do {
        double begin = seconds();
        exchange(fd, at, 16 + at % 200);
        double took = seconds() - begin;
        at_least(&longest, took * 1e6);
        if (took > PAUSE)
            pauses++;
        at++;
        requests++;
    } while (!are_over);
    MUST(close(fd));
    return NULL;
}

static void *passes(void *unused)
{
    do {
        int fd = dial(dialled_port);
        exchange(fd, passed_by, 4000);
        MUST(close(fd));
        passed_by++;
        usleep(10000);
    } while (!are_over);
    return NULL;
}

/* How late threads are that the machine does not run. */
static void *sleeps(void *unused)
{
    do {
        double begin = seconds();
        usleep(5000);
        at_least(&latest, (seconds() - begin) * 1e6 - 5000);
    } while (!are_over);
    return NULL;
}

static void lasting_server(int listener)
{
    wait_longer();
    MUST(listen(listener, 64));
    set_nonblocking(listener, true);
    serve(listener, 0);
    say("all connections have ended");
}

static void lasting_client(int port)
{
    wait_longer();
    dialled_port = port;
    /* The server goes on as long as this one. */
    int own = greet(port);
    await_peer(own);
    double begin = seconds();
    pthread_t threads[STAYING + PASSING + 1];
    for (int at = 0; at < STAYING + PASSING + 1; at++) {
        void *(*routine)(void *) = at < STAYING ? stays : at < STAYING + PASSING ? passes : sleeps;
        must("pthread_create", -pthread_create(&threads[at], NULL, routine, NULL));
    }
    long enough = value_of("STORM_REQUESTS", 20000);
    double end = begin + value_of("STORM_SECONDS", 1);
    while (requests < enough || seconds() < end)
        usleep(10000);
    are_over = true;
    for (int at = 0; at < STAYING + PASSING + 1; at++)
        must("pthread_join", -pthread_join(threads[at], NULL));
    MUST(close(own));
    if (getenv("STORM") != NULL)
        fprintf(stderr, "%ld requests and %ld other connections in %.0f s; the longest pause %.1f ms,"
            " %ld above 100 ms; a thread that slept was late by %.1f ms\n", requests, passed_by,
            seconds() - begin, longest / 1e3, pauses, latest / 1e3);
    say("no byte is wrong");
}

/* --- a server that refuses while its client floods it: what it says is read before the reset */

#define REFUSAL "-ERR max number of clients reached\r\n"

static void refuses_server(int listener)
{
    wait_longer();
    for (long round = 0; round < scaled(40, 200); round++) {
        int fd = take(listener);
        char bytes[1000];
        for (int reads = 0; reads <= round % 4; reads++)
            MUST(read(fd, bytes, sizeof bytes));
        /* Every other time all of it is read that is here: more is on its way. */
        while (round % 2 == 0 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0 && round % 8 != 0)
            continue;
        write_all(fd, REFUSAL, strlen(REFUSAL));
        MUST(close(fd));
    }
}

static void refuses_client(int port)
{
    wait_longer();
    long lost = 0;
    for (long round = 0; round < scaled(40, 200); round++) {
        int fd = dial(port);
        char bytes[1000] = {0};
        while (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
            continue;
        size_t length = 0;
        ssize_t some;
        while ((some = read(fd, bytes + length, sizeof bytes - length)) > 0)
            length += some;
        lost += length != strlen(REFUSAL) || memcmp(bytes, REFUSAL, length) != 0;
        MUST(close(fd));
    }
    say("%ld answers are lost", lost);
}

const struct test_case cases[] = {
    {"many-threads", many_threads_server, many_threads_client},
    {"forks", forks_server, forks_client},
    {"many", many_server, many_client},
    {"of-256", of_256_server, of_256_client},
    {"lasting", lasting_server, lasting_client},
    {"refuses", refuses_server, refuses_client},
    {NULL, NULL, NULL},
};
