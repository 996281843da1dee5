/* Several things at one moment, calls that fail, and descriptors that the C library closes itself. */
#include "case.h"
#include <linux/close_range.h>
#include <malloc.h>
#include <sys/resource.h>

static void set_event(int set, int operation, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    MUST(epoll_ctl(set, operation, fd, &event));
}

/* Begins to connect without waiting; says nothing, since either may be. */
static void begin_with(int fd, int port)
{
    struct sockaddr_in address = loopback(port);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (connected < 0 && errno != EINPROGRESS)
        must("connect", connected);
}

static int begin(int port)
{
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    begin_with(fd, port);
    return fd;
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_for(long milliseconds)
{
    struct timespec moment = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&moment, NULL);
}

/* Serves connections one after the other, whose clients say what they want: '=' of the same byte
 * as an answer, '.' of no more connections. */
static void serve(int listener, void (*before)(void), void (*after)(void))
{
    for (bool more = true; more;) {
        before();
        int fd = take(listener);
        after();
        char byte;
        while (read_all(fd, &byte, 1) == 1) {
            more &= byte != '.';
            write_all(fd, &byte, 1);
        }
        MUST(close(fd));
    }
    say("no more");
}

static void nothing(void)
{
}

static void serves_server(int listener)
{
    serve(listener, nothing, nothing);
}

static void served(int fd, char byte)
{
    char answer = 0;
    write_all(fd, &byte, 1);
    read_all(fd, &answer, 1);
    if (answer != byte)
        say("%d instead of %c", answer, byte);
}

static void end_service(int port)
{
    int fd = dial(port);
    served(fd, '.');
    MUST(close(fd));
}

/* --- threads add the first connections of a set */

#define ADDING 8

static pthread_barrier_t start_together;
static int shared_set;

static void *adds(void *of)
{
    int fd = *(int *)of;
    pthread_barrier_wait(&start_together);
    set_event(shared_set, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, fd);
    return NULL;
}

static void added_at_once_server(int listener)
{
    int fds[ADDING], lost = 0;
    for (int at = 0; at < ADDING; at++)
        fds[at] = welcome(listener);
    MUST(pthread_barrier_init(&start_together, NULL, ADDING));
    for (int round = 0; round < 200; round++) {
        pthread_t threads[ADDING];
        shared_set = MUST(epoll_create1(0));
        for (int at = 0; at < ADDING; at++)
            must("pthread_create", -pthread_create(&threads[at], NULL, adds, &fds[at]));
        for (int at = 0; at < ADDING; at++)
            must("pthread_join", -pthread_join(threads[at], NULL));
        int found = 0, more;
        struct epoll_event ready[ADDING];
        do
            found += more = MUST(epoll_wait(shared_set, ready, ADDING, found < ADDING ? 200 : 0));
        while (more > 0 && found < ADDING);
        lost += found != ADDING;
        MUST(close(shared_set));
    }
    say("sets that lack a connection: %d", lost);
    for (int at = 0; at < ADDING; at++)
        MUST(close(fds[at]));
}

static void added_at_once_client(int port)
{
    int fds[ADDING];
    for (int at = 0; at < ADDING; at++)
        fds[at] = greet(port);
    for (int at = 0; at < ADDING; at++)
        expect_end(fds[at]);
}

/* --- a set for each wait, as programs without a loop make them */

static void a_set_each_server(int listener)
{
    int fd = welcome(listener);
    struct mallinfo2 before = {0};
    for (int round = 0; round < 3000; round++) {
        if (round == 500)
            before = mallinfo2();
        int set = MUST(epoll_create1(0));
        set_event(set, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
        struct epoll_event ready;
        if (MUST(epoll_wait(set, &ready, 1, LIMIT * 1000)) != 1)
            say("not writable");
        MUST(close(set));
    }
    struct mallinfo2 after = mallinfo2();
    say("memory grows: %d", after.uordblks + after.hblkhd > before.uordblks + before.hblkhd + 100000);
    signal_peer(fd);
    expect_end(fd);
}

static void a_set_each_client(int port)
{
    int fd = greet(port);
    await_peer(fd);
    MUST(close(fd));
}

/* --- a number that was closed where no hook sees it, and is used again */

static void reused_numbers_client(int port)
{
    int set = MUST(epoll_create1(0)), ends[2];
    struct epoll_event ready;
    for (int way = 0; way < 2; way++) {
        MUST(pipe(ends));
        set_event(set, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLOUT, 0xdead);
        if (way == 0)
            MUST(fclose(fdopen(ends[0], "r")));
        else
            MUST(syscall(SYS_close, ends[0]));
        int fd = tcp();
        say("the same number: %d", fd == ends[0]);
        struct sockaddr_in address = loopback(port);
        MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
        served(fd, '=');
        outcome("events of it", epoll_wait(set, &ready, 1, 50));
        MUST(close(fd));
        MUST(close(ends[1]));
    }
    end_service(port);
}

/* --- calls that fail leave a descriptor as it is */

static void failed_calls_client(int port)
{
    int set = MUST(epoll_create1(0)), fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    struct epoll_event ready = {0};
    set_event(set, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 5);
    MUST(epoll_wait(set, &ready, 1, 0));
    outcome("dup2 of none", dup2(9999, fd));
    outcome("dup3 with a flag of nothing", dup3(set, fd, 0x10));
    outcome("close_range with a flag of nothing", close_range(fd, fd, 0x80));
    begin_with(fd, port);
    outcome("events of a connection", epoll_wait(set, &ready, 1, 5000));
    set_nonblocking(fd, false);
    served(fd, '=');
    outcome("dup2 of none", dup2(9999, fd));
    outcome("dup3 with a flag of nothing", dup3(set, fd, 0x10));
    outcome("close_range with a flag of nothing", close_range(fd, fd, 0x80));
    outcome("close_range backwards", close_range(fd + 1, fd, 0));
    served(fd, '=');
    MUST(close(fd));
    end_service(port);
}

/* --- a connection that is being made is replaced, or closed */

static void replaced_client(int port)
{
    int null = MUST(open("/dev/null", O_RDONLY));
    for (int round = 0; round < 40; round++) {
        int fd = begin(port);
        pause_for(round % 4);
        if (round % 2)
            MUST(dup2(null, fd));
        else
            MUST(syscall(SYS_dup3, null, fd, 0));
        if (read(fd, &(char){0}, 1) != 0)
            say("not what it was replaced by");
        MUST(close(fd));
    }
    end_service(port);
}

/* --- system calls by number */

static void *waits_by_number(void *of)
{
    struct epoll_event ready = {0};
    long found = syscall(SYS_epoll_pwait, *(int *)of, &ready, 1, LIMIT * 1000, NULL, 8);
    say("by number: %ld, data %llx", found, (unsigned long long)ready.data.u64);
    return NULL;
}

static void by_number_client(int port)
{
    int set = MUST(epoll_create1(0)), ends[2];
    MUST(pipe(ends));
    set_event(set, EPOLL_CTL_ADD, ends[0], EPOLLIN, 77);
    pthread_t thread;
    must("pthread_create", -pthread_create(&thread, NULL, waits_by_number, &set));
    pause_for(50);
    /* The set gets a connection while the thread waits; nothing comes of that. */
    int fd = dial(port);
    served(fd, '=');
    set_event(set, EPOLL_CTL_ADD, fd, EPOLLIN, 78);
    pause_for(50);
    write_all(ends[1], "x", 1);
    must("pthread_join", -pthread_join(thread, NULL));
    char byte;
    read_all(ends[0], &byte, 1);
    struct epoll_event ready[4];
    struct timespec moment = {.tv_nsec = 20000000};
    outcome("epoll_pwait2", syscall(SYS_epoll_pwait2, set, ready, 4, &moment, NULL, 8));
    write_all(fd, "=", 1);
    outcome("epoll_pwait2", syscall(SYS_epoll_pwait2, set, ready, 4, NULL, NULL, 8));
    say("data %llx", (unsigned long long)ready[0].data.u64);
    read_all(fd, &byte, 1);
    /* All but the standard streams; the program, as one that becomes a daemon, goes on. */
    MUST(syscall(SYS_close_range, 3, ~0U, 0));
    outcome("read of a closed one", read(fd, &byte, 1));
    fd = dial(port);
    served(fd, '=');
    MUST(close(fd));
    end_service(port);
}

/* --- two threads find out what carries one connection */

static void *polls_for_writing(void *of)
{
    struct pollfd one = {.fd = *(int *)of, .events = POLLOUT};
    if (poll(&one, 1, 10000) != 1)
        say("it does not become writable");
    return NULL;
}

static void two_find_out_client(int port)
{
    int set = MUST(epoll_create1(0));
    for (int round = 0; round < 400; round++) {
        int fd = begin(port);
        pthread_t thread;
        must("pthread_create", -pthread_create(&thread, NULL, polls_for_writing, &fd));
        set_event(set, EPOLL_CTL_ADD, fd, EPOLLOUT, round);
        struct epoll_event ready = {0};
        if (MUST(epoll_wait(set, &ready, 1, 10000)) != 1)
            say("no event of it");
        must("pthread_join", -pthread_join(thread, NULL));
        MUST(close(fd));
    }
    say("all are writable");
    end_service(port);
}

/* --- a peer that is killed: redis-benchmark goes on for ever if its first write fails */

static void killed_server(int listener)
{
    pid_t child = branch();
    if (child == 0) {
        int fd = take(listener);
        await_peer(fd);
        signal_peer(fd);
        await_peer(fd);
        kill(getpid(), SIGKILL);
    }
    MUST(close(listener));
    MUST(waitpid(child, NULL, 0));
    say("killed");
}

static void killed_client(int port)
{
    int fd = greet(port);
    await_peer(fd);
    signal_peer(fd);
    MUST(await(fd, POLLRDHUP));
    outcome("read", read(fd, &(char){0}, 1));
    signal(SIGPIPE, SIG_IGN);
    outcome("the first write", write(fd, "some", 4));
    outcome("the second write", write(fd, "more", 4));
    outcome("read", read(fd, &(char){0}, 1));
    MUST(close(fd));
}

/* --- a client that connects, and goes on with something else */

static void silent_client(int port)
{
    int fd = begin(port), way = dial(port);
    await_peer(way);
    await(fd, POLLOUT);
    signal_peer(fd);
    expect_end(way);
    expect_end(fd);
}

static void in_time_server(int listener)
{
    int fd = take(listener), way = take(listener);
    struct timeval moment = {0, 50000}, none = {0, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment));
    long began = milliseconds();
    outcome("read", read(fd, &(char){0}, 1));
    long took = milliseconds() - began;
    say("in time: %d", took >= 45 && took < 250);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    signal_peer(way);
    await_peer(fd);
    MUST(close(way));
    MUST(close(fd));
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void *reads(void *of)
{
    outcome("a read that signals do not end", read(*(int *)of, &(char){0}, 1));
    return NULL;
}

static void goes_on_server(int listener)
{
    int fd = take(listener), way = take(listener);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_t thread;
    must("pthread_create", -pthread_create(&thread, NULL, reads, &fd));
    for (int round = 0; round < 10; round++) {
        pause_for(10);
        pthread_kill(thread, SIGUSR1);
    }
    signal_peer(way);
    must("pthread_join", -pthread_join(thread, NULL));
    MUST(close(way));
    MUST(close(fd));
}

/* --- almost no descriptor is left */

#define FEW 64

static int filling[FEW], filled;

/* Leaves room for so many descriptors. */
static void leave_room(int room)
{
    int fd;
    while ((fd = fcntl(STDOUT_FILENO, F_DUPFD, 3)) >= 0)
        filling[filled++] = fd;
    while (room-- > 0 && filled > 0)
        MUST(close(filling[--filled]));
}

static void make_room(void)
{
    while (filled > 0)
        MUST(close(filling[--filled]));
}

static void few_left(void)
{
    struct rlimit few = {FEW, FEW};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
}

/* Each server of its own, so that it was not met before. */
static void few_left_client(int port)
{
    few_left();
    int fd = dial(port);
    served(fd, '=');
    MUST(close(fd));
    for (int room = 1; room < 8; room++) {
        int listener = tcp(), error = -1;
        struct sockaddr_in address = loopback(0);
        socklen_t length = sizeof address;
        MUST(bind(listener, (struct sockaddr *)&address, length));
        MUST(listen(listener, 4));
        MUST(getsockname(listener, (struct sockaddr *)&address, &length));
        leave_room(room);
        fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        begin_with(fd, ntohs(address.sin_port));
        make_room();
        struct pollfd arrives = {.fd = listener, .events = POLLIN};
        if (MUST(poll(&arrives, 1, 3000)) != 1) {
            say("room %d: nothing connects", room);
            continue;
        }
        int other = take(listener);
        struct pollfd both[2] = {{.fd = other, .events = POLLIN}, {.fd = fd, .events = POLLOUT}};
        while (both[1].revents == 0)
            MUST(poll(both, 2, LIMIT * 1000));
        length = sizeof error;
        MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
        if (both[1].revents != POLLOUT || error != 0)
            say("room %d: events %x, SO_ERROR %d", room, both[1].revents, error);
        write_all(fd, "!", 1);
        await_peer(other);
        MUST(close(fd));
        MUST(close(other));
        MUST(close(listener));
    }
    say("all have connected");
    end_service(port);
}

/* No descriptor is left but for what is accepted: its client is not kept waiting. */
static void leave_one(void)
{
    leave_room(1);
}

static void few_left_server(int listener)
{
    few_left();
    serve(listener, leave_one, make_room);
}

static void in_time_or_not_client(int port)
{
    long best = LIMIT * 1000;
    for (int round = 0; round < 4; round++) {
        long began = milliseconds();
        int fd = dial(port);
        served(fd, '=');
        long took = milliseconds() - began;
        if (took < best)
            best = took;
        MUST(close(fd));
    }
    say("served in time: %d", best < 300);
    end_service(port);
}

/* --- a child of vfork closes what its parent has registered and is about to connect */

static void vforked_client(int port)
{
    for (int round = 0; round < 4; round++) {
        int set = MUST(epoll_create1(0));
        int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        set_event(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET, fd);
        pid_t child = vfork();
        if (child == 0) {
            switch (round) {
            case 0:
                close(fd);
                break;
            case 1:
                dup2(STDERR_FILENO, fd);
                break;
            case 2:
                close_range(fd, ~0U, 0);
                break;
            case 3:
                /* What it gets is at the number of its parent's. */
                close(fd);
                socket(AF_INET, SOCK_DGRAM, 0);
                break;
            }
            execl("/bin/true", "true", NULL);
            _exit(127);
        }
        MUST(waitpid(must("vfork", child), NULL, 0));
        begin_with(fd, port);
        struct epoll_event event;
        if (MUST(epoll_wait(set, &event, 1, 5000)) != 1 || event.events != EPOLLOUT)
            say("round %d: it does not become writable", round);
        write_all(fd, "=", 1);
        do {
            if (MUST(epoll_wait(set, &event, 1, 5000)) != 1) {
                say("round %d: it does not become readable", round);
                break;
            }
        } while (!(event.events & EPOLLIN));
        char answer = 0;
        if (read_all(fd, &answer, 1) != 1 || answer != '=')
            say("round %d: %d is no answer", round, answer);
        MUST(close(set));
        MUST(close(fd));
    }
    say("all have connected");
    end_service(port);
}

const struct test_case cases[] = {
    {"added-at-once", added_at_once_server, added_at_once_client},
    {"a-set-each", a_set_each_server, a_set_each_client},
    {"reused-numbers", serves_server, reused_numbers_client},
    {"failed-calls", serves_server, failed_calls_client},
    {"replaced", serves_server, replaced_client},
    {"by-number", serves_server, by_number_client},
    {"two-find-out", serves_server, two_find_out_client},
    {"killed", killed_server, killed_client},
    {"in-time", in_time_server, silent_client},
    {"goes-on", goes_on_server, silent_client},
    {"few-left-to-connect", serves_server, few_left_client},
    {"few-left-to-accept", few_left_server, in_time_or_not_client},
    {"vforked", serves_server, vforked_client},
    {NULL, NULL, NULL},
};
