/* Calls that wait: timeouts, signals, and threads that share a connection. */
#include "case.h"

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void handle(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    must("sigaction", sigaction(signal, &action, NULL));
}

/* What a thread does, and who it is. */
struct waiter {
    pthread_t thread;
    pid_t id;
    int fd;
    const char *what;
};

static void *reads(void *of)
{
    struct waiter *own = of;
    char byte = 0;
    __atomic_store_n(&own->id, gettid(), __ATOMIC_RELEASE);
    long result = read(own->fd, &byte, 1);
    outcome(own->what, result);
    return NULL;
}

static void *polls(void *of)
{
    struct waiter *own = of;
    struct pollfd one = {own->fd, POLLIN, 0};
    __atomic_store_n(&own->id, gettid(), __ATOMIC_RELEASE);
    long result = poll(&one, 1, LIMIT * 1000);
    outcome(own->what, result);
    return NULL;
}

static void *accepts(void *of)
{
    struct waiter *own = of;
    __atomic_store_n(&own->id, gettid(), __ATOMIC_RELEASE);
    long result = accept(own->fd, NULL, NULL);
    if (result < 0)
        outcome(own->what, result);
    else
        say("%s succeeds", own->what), close(result);
    return NULL;
}

/* Starts a thread, and waits until its call waits. */
static void start(struct waiter *waiter, void *(*routine)(void *), int fd, const char *what)
{
    *waiter = (struct waiter){.fd = fd, .what = what};
    must("pthread_create", -pthread_create(&waiter->thread, NULL, routine, waiter));
    pid_t id;
    while ((id = __atomic_load_n(&waiter->id, __ATOMIC_ACQUIRE)) == 0)
        sched_yield();
    await_sleep(id);
}

static void finish(struct waiter *waiter)
{
    must("pthread_join", -pthread_join(waiter->thread, NULL));
}

/* Sends a signal until the call that a thread waits in has returned: one that comes a moment
 * before the call waits interrupts nothing. */
static void interrupt(struct waiter *waiter)
{
    struct timespec moment = {.tv_nsec = 10000000};
    do {
        pthread_kill(waiter->thread, SIGUSR1);
        nanosleep(&moment, NULL);
    } while (pthread_tryjoin_np(waiter->thread, NULL) == EBUSY);
}

static void quiet_client(int port)
{
    int fd = dial(port);
    char wish;
    while (read(fd, &wish, 1) == 1)
        write_all(fd, "!", 1);
    MUST(close(fd));
}

/* --- time */

static void timeouts_server(int listener)
{
    int fd = take(listener), way = take(listener);
    struct timeval moment = {0, 30000}, got = {0, 0};
    socklen_t length = sizeof got;
    char bytes[16];
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &length));
    say("%ld s and more than none: %d", (long)got.tv_sec, got.tv_usec > 0);
    outcome("read", read(fd, bytes, 1));
    outcome("recv that waits for all", recv(fd, bytes, 4, MSG_WAITALL));
    moment = (struct timeval){LIMIT, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    signal_peer(fd);
    outcome("read in time", read(fd, bytes, 1));
    moment = (struct timeval){0, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    moment.tv_usec = 2000000;
    outcome("a time that is none",
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    moment = (struct timeval){0, 30000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &moment, sizeof moment));
    static char much[1 << 20];
    ssize_t done;
    while ((done = send(fd, much, sizeof much, 0)) > 0)
        ;
    outcome("send to one that does not read", done);
    signal_peer(way);
    expect_end(way);
    MUST(close(fd));
}

/* Answers once, and reads nothing after that. */
static void timeouts_client(int port)
{
    int fd = dial(port), way = dial(port);
    await_peer(fd);
    write_all(fd, "!", 1);
    await_peer(way);
    MUST(close(way));
    MUST(close(fd));
}

/* --- signals */

static void interrupted_server(int listener)
{
    int fd = take(listener);
    struct waiter waiter;
    handle(SIGUSR1, 0);
    start(&waiter, reads, fd, "read that is interrupted");
    interrupt(&waiter);
    start(&waiter, polls, fd, "poll that is interrupted");
    interrupt(&waiter);
    handle(SIGUSR1, SA_RESTART);
    int before = handled;
    start(&waiter, reads, fd, "read that goes on");
    pthread_kill(waiter.thread, SIGUSR1);
    while (handled == before)
        sched_yield();
    signal_peer(fd);
    finish(&waiter);
    start(&waiter, polls, fd, "poll that does not go on");
    interrupt(&waiter);
    expect_end((shutdown(fd, SHUT_WR), fd));
}

static void broken_pipe_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    MUST(shutdown(fd, SHUT_WR));
    handle(SIGPIPE, 0);
    outcome("write", write(fd, "x", 1));
    say("signals %d", (int)handled);
    outcome("send without the signal", send(fd, "x", 1, MSG_NOSIGNAL));
    outcome("sendmsg without the signal",
        sendmsg(fd, &(struct msghdr){.msg_iov = &(struct iovec){"x", 1}, .msg_iovlen = 1},
            MSG_NOSIGNAL));
    say("signals %d", (int)handled);
    outcome("writev", writev(fd, &(struct iovec){"x", 1}, 1));
    say("signals %d", (int)handled);
    /* By default, the signal ends the process. */
    pid_t child = branch();
    if (child == 0) {
        int own = take(listener);
        signal(SIGPIPE, SIG_DFL);
        MUST(shutdown(own, SHUT_WR));
        write(own, "x", 1);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("a child ended by SIGPIPE: %d", WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    expect_end(fd);
}

static void broken_pipe_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    int second = dial(port);
    expect_end(second);
    expect_end(fd);
}

/* --- the peer goes away */

/* With a linger time of none, closing resets the connection. */
static void reset_server(int listener)
{
    int fd = take(listener);
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    await_peer(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    socklen_t length = sizeof none;
    MUST(getsockopt(fd, SOL_SOCKET, SO_LINGER, &none, &length));
    say("SO_LINGER %d %d", none.l_onoff, none.l_linger);
    MUST(close(fd));
}

static void reset_client(int port)
{
    int fd = dial(port);
    signal(SIGPIPE, SIG_IGN);
    signal_peer(fd);
    char byte;
    outcome("read", read(fd, &byte, 1));
    outcome("read again", read(fd, &byte, 1));
    outcome("write", write(fd, "x", 1));
    MUST(close(fd));
}

/* A server refuses a request that it does not read: what it says before it closes arrives. */
static void refused_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    await(fd, POLLIN);
    write_all(fd, "refused", 7);
    MUST(close(fd));
}

static void refused_client(int port)
{
    int fd = dial(port);
    signal(SIGPIPE, SIG_IGN);
    write_all(fd, "!request", 8);
    await(fd, POLLRDHUP);
    char answer[16] = {0};
    outcome("read", read(fd, answer, sizeof answer));
    say("%s", answer);
    outcome("read again", read(fd, answer, 1));
    outcome("write", write(fd, "x", 1));
    MUST(close(fd));
}

/* The first write behind the peer's end succeeds, and what it said can still be read. */
static void turned_away_server(int listener)
{
    int fd = take(listener);
    write_all(fd, "away", 4);
    MUST(close(fd));
}

static void turned_away_client(int port)
{
    int fd = dial(port);
    signal(SIGPIPE, SIG_IGN);
    await(fd, POLLRDHUP);
    outcome("write", write(fd, "request", 7));
    char answer[16] = {0};
    outcome("read", read(fd, answer, sizeof answer));
    say("%s", answer);
    outcome("read again", read(fd, answer, 1));
    while (write(fd, "x", 1) > 0)
        sched_yield();
    outcome("and then write", -1);
    MUST(close(fd));
}

/* With a time, closing waits until all has arrived. */
static void lingers_server(int listener)
{
    int fd = take(listener);
    struct linger some = {.l_onoff = 1, .l_linger = 30};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &some, sizeof some));
    send_pattern(fd, 100000);
    outcome("close", close(fd));
}

static void lingers_client(int port)
{
    int fd = dial(port);
    receive_pattern(fd, 100000);
    expect_end(fd);
}

/* A process that is killed leaves what it sent, and its end. */
static void killed_server(int listener)
{
    pid_t child = branch();
    if (child == 0) {
        int fd = take(listener);
        send_pattern(fd, 1000);
        await_peer(fd);
        kill(getpid(), SIGKILL);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("killed %d", WIFSIGNALED(status));
}

static void killed_client(int port)
{
    int fd = dial(port);
    receive_pattern(fd, 1000);
    signal_peer(fd);
    char byte;
    ssize_t last = read(fd, &byte, 1);
    say("the connection is over: %d", last == 0 || (last < 0 && errno == ECONNRESET));
    MUST(close(fd));
}

/* --- threads */

/* One thread reads while another one writes. */
static void *writes_pattern(void *of)
{
    send_pattern(*(int *)of, 1 << 21);
    return NULL;
}

static void both_ways(int fd)
{
    pthread_t thread;
    must("pthread_create", -pthread_create(&thread, NULL, writes_pattern, &fd));
    receive_pattern(fd, 1 << 21);
    pthread_join(thread, NULL);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

static void both_ways_server(int listener)
{
    both_ways(take(listener));
}

static void both_ways_client(int port)
{
    both_ways(dial(port));
}

/* Another thread ends what one waits for. */
static void ended_by_thread_server(int listener)
{
    struct waiter waiter;
    int fd = take(listener);
    start(&waiter, reads, fd, "read that shutdown ends");
    MUST(shutdown(fd, SHUT_RDWR));
    finish(&waiter);
    MUST(close(fd));
    fd = take(listener);
    start(&waiter, polls, fd, "poll that shutdown ends");
    MUST(shutdown(fd, SHUT_RD));
    finish(&waiter);
    MUST(close(fd));
    start(&waiter, accepts, listener, "accept that shutdown ends");
    MUST(shutdown(listener, SHUT_RD));
    finish(&waiter);
}

static void two_quiet_clients(int port)
{
    expect_end(dial(port));
    expect_end(dial(port));
}

/* A read goes on with what it waits for although another thread closes the number. */
static void closed_by_thread_server(int listener)
{
    struct waiter waiter;
    int way = take(listener), fd = take(listener);
    start(&waiter, reads, fd, "read of a closed number");
    MUST(close(fd));
    outcome("read afterwards", read(fd, &(char){0}, 1));
    signal_peer(way);
    finish(&waiter);
    expect_end(way);
}

static void closed_by_thread_client(int port)
{
    int way = dial(port), fd = dial(port);
    await_peer(way);
    write_all(fd, "!", 1);
    signal(SIGPIPE, SIG_IGN);
    char rest;
    ssize_t last = read(fd, &rest, 1);
    say("the connection is over: %d", last == 0 || (last < 0 && errno == ECONNRESET));
    MUST(close(fd));
    MUST(close(way));
}

/* Two threads read; each byte goes to one of them. */
static void two_readers_server(int listener)
{
    struct waiter waiters[2];
    int fd = take(listener);
    start(&waiters[0], reads, fd, "a read");
    start(&waiters[1], reads, fd, "a read");
    MUST(write(fd, "!!", 2));
    finish(&waiters[0]);
    finish(&waiters[1]);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

const struct test_case cases[] = {
    {"timeouts", timeouts_server, timeouts_client},
    {"interrupted", interrupted_server, quiet_client},
    {"broken-pipe", broken_pipe_server, broken_pipe_client},
    {"reset", reset_server, reset_client},
    {"refused", refused_server, refused_client},
    {"turned-away", turned_away_server, turned_away_client},
    {"lingers", lingers_server, lingers_client},
    {"killed", killed_server, killed_client},
    {"both-ways", both_ways_server, both_ways_client},
    {"ended-by-thread", ended_by_thread_server, two_quiet_clients},
    {"closed-by-thread", closed_by_thread_server, closed_by_thread_client},
    {"two-readers", two_readers_server, quiet_client},
    {NULL, NULL, NULL},
};
